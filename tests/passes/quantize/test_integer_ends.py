"""Inputs and outputs of floats, and outputs behind loops, are of the integers that the recipe asks for."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import jfuse
from tests.models.keras_libraries import awake

layers = keras.layers


def samples() -> list[np.ndarray]:
    """Sequences whose last steps are padding, in two of three."""
    found = []
    for seed in range(12):
        x = np.random.default_rng(seed).normal(size=(2, 6, 3)).astype(np.float32)
        x[0, 6 - seed % 3 :] = 0
        found.append(x)
    return found


@pytest.mark.parametrize(
    ("layer", "outputs", "at_least_db"),
    [
        (lambda: layers.LSTM(4, return_sequences=True), "int8", 20),  # a transposition behind the loop
        (lambda: layers.LSTM(4, return_sequences=True), "uint8", 20),
        (lambda: layers.Bidirectional(layers.LSTM(4)), "int8", 15),  # two loops, joined
    ],
)
def test_outputs_behind_a_loop_are_integers(layer: Any, outputs: Any, at_least_db: float) -> None:
    model = awake(keras.Sequential([keras.Input((6, 3), batch_size=2), layers.Masking(), layer()]))
    recipe = jfuse.Recipe.named("micro", inputs=outputs, outputs=outputs, int8_only=True)
    data = samples()
    lite = jfuse.convert(model, quantize=recipe, calibration=data, forms=jfuse.Forms(loop="while"), verify=False)
    assert "while" in lite.report.operators
    assert "dequantize" not in lite.report.operators
    interpreter = Interpreter(model_content=lite.to_bytes())
    interpreter.allocate_tensors()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    assert given["dtype"] == result["dtype"] == np.dtype(outputs)
    signal = noise = 0.0
    for x in data:
        scale, zero = given["quantization"]
        info = np.iinfo(outputs)
        interpreter.set_tensor(given["index"], np.clip(np.rint(x / scale) + zero, info.min, info.max).astype(outputs))
        interpreter.invoke()
        scale, zero = result["quantization"]
        found, wanted = (interpreter.get_tensor(result["index"]).astype(float) - zero) * scale, np.asarray(model(x))
        signal, noise = signal + float((wanted**2).sum()), noise + float(((found - wanted) ** 2).sum())
    assert 10 * np.log10(signal / noise) > at_least_db


def ceil(a: Any, b: Any) -> Any:
    right = tf.nn.tanh(b)
    return tf.math.ceil(tf.math.ceil(a) + right), right


@pytest.mark.parametrize(
    ("function", "recipe", "ends", "inputs", "outputs", "operators"),
    [
        (ceil, "int8", "int8", ["int8"] * 2, ["int8"] * 2, {"dequantize": 2, "quantize": 2, "ceil": 2}),
        (ceil, "int8", "uint8", ["uint8"] * 2, ["uint8"] * 2, {"dequantize": 2, "ceil": 2}),
        (ceil, "int16x8", "int16", ["int16"] * 2, ["int16"] * 2, {"dequantize": 2, "quantize": 2}),
        (lambda a, b: tf.math.ceil(a) * tf.math.floor(b), "int8", "int8", ["int8"] * 2, ["int8"], {"dequantize": 2}),
        # What is read as whole numbers stays float; an input that is an output keeps its integers.
        (lambda a, b: (tf.cast(a, tf.int32), b), "int8", "int8", ["float32", "int8"], ["int32", "int8"], {}),
    ],
)
def test_ends_beside_floats_are_integers(
    function: Any, recipe: Any, ends: Any, inputs: Any, outputs: Any, operators: Any
) -> None:
    spec = tf.TensorSpec([1, 8], tf.float32)
    traced = tf.function(function, input_signature=[spec, spec])
    rng = np.random.default_rng(0)
    data = [[(rng.uniform(-2, 2, (1, 8))).astype(np.float32) for _ in "ab"] for _ in range(8)]
    lite = jfuse.convert(
        traced, quantize=jfuse.Recipe.named(recipe, inputs=ends, outputs=ends), calibration=data, verify=True
    )
    assert {name: lite.report.operators.get(name, 0) for name in operators} == operators
    interpreter = Interpreter(model_content=lite.to_bytes())
    assert [d["dtype"].__name__ for d in interpreter.get_input_details()] == inputs
    assert [d["dtype"].__name__ for d in interpreter.get_output_details()] == outputs


def test_an_input_that_a_loop_alone_reads_is_an_integer() -> None:
    model = awake(keras.Sequential([keras.Input((6, 3), batch_size=2), layers.LSTM(4, activation="selu")]))
    recipe = jfuse.Recipe.named("int8", inputs="int8", outputs="int8")
    forms = jfuse.Forms(loop="while")
    lite = jfuse.convert(model, quantize=recipe, calibration=samples(), forms=forms, verify=False)
    assert "while" in lite.report.operators
    interpreter = Interpreter(model_content=lite.to_bytes())
    details = (*interpreter.get_input_details(), *interpreter.get_output_details())
    assert [d["dtype"] for d in details] == [np.int8, np.int8]
