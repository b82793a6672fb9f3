"""Outputs behind loops are of the integers that the recipe asks for."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
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
