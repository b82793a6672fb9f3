"""Files for every target answer like their source: each conversion compares several calls in a row."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest

import jfuse
from jfuse.tflite.targets.compiled_model import in_variable_tensors
from tests.models.keras_libraries import awake

layers = keras.layers
MODELS: dict[str, tuple[tuple[int, ...], Any]] = {
    "lstm": ((1, 8, 4), lambda: [layers.LSTM(6, return_sequences=True), layers.LSTM(3)]),
    "bidirectional": ((2, 8, 4), lambda: [layers.Bidirectional(layers.LSTM(6), merge_mode="sum")]),
    "simple rnn": ((1, 8, 4), lambda: [layers.SimpleRNN(6)]),
    "long gru": ((1, 80, 4), lambda: [layers.GRU(32, return_sequences=True)]),
    "masked": ((2, 8, 4), lambda: [layers.Masking(), layers.GRU(6)]),
    "stateful": ((1, 8, 4), lambda: [layers.LSTM(6, stateful=True)]),
}
SEVERAL = ("compiled-model,tflite-micro", "litert>=2.14,google-tensor")
TARGETS = ("litert>=2.3", "compiled-model", "litert-gpu", "google-tensor", "ethos-u85", *SEVERAL)
FUSED = "unidirectional_sequence_lstm"
STEPS = 8
LSTMS = {"lstm": 2, "bidirectional": 2, "simple rnn": 0, "long gru": 0, "masked": 0, "stateful": 1}
QUICK = (("bidirectional", "google-tensor"), ("stateful", "compiled-model,tflite-micro"))
CASES = [
    pytest.param(model, target, marks=() if (model, target) in QUICK else pytest.mark.slow)
    for model in MODELS
    for target in TARGETS
]


@pytest.mark.parametrize(("name", "target"), CASES)
def test_a_file_for_the_target_answers_alike(name: str, target: Any) -> None:
    shape, build = MODELS[name]
    model = awake(keras.Sequential([keras.Input(batch_shape=shape), *build()]))
    if (name, target) == ("stateful", "litert-gpu"):  # no GPU delegate keeps anything from call to call
        with pytest.raises(jfuse.LowerError, match="keeps nothing from call to call"):
            jfuse.convert(model, target=target)
        assert jfuse.check(jfuse.convert(model, target=target, state="io"), target).runs
        return
    result = jfuse.convert(model, target=target)
    found = jfuse.check(result, target)
    # Vela, where it is installed, refuses a whole file for the floats of one LSTM.
    assert found.runs or (target.startswith("ethos") and found.compiler_refuses)
    operators = result.report.operators
    assert "bidirectional_sequence_lstm" not in operators or target.startswith("litert>")
    if target in ("compiled-model", "litert-gpu", "google-tensor", *SEVERAL):
        assert in_variable_tensors(result.program) == []
        assert operators.get("basic_lstm", 0) == (0 if "micro" in target else LSTMS[name] * STEPS)
        assert "tensorflow/compiledmodel" in {d.pair for d in result.report.differences}
    elif name != "bidirectional" or not target.startswith("litert>"):
        assert operators.get(FUSED, 0) == LSTMS[name]
    if target == "litert-gpu":
        assert "while" not in operators
        assert any("as a whole" in note for note in result.report.notes)


def test_a_fixed_batch_makes_a_file_for_a_microcontroller() -> None:
    model = keras.Sequential([keras.Input((5, 3)), layers.LSTM(4)])
    result = jfuse.convert(model, target="cmsis-nn", batch=1, verify=False)
    assert jfuse.check(result, "cmsis-nn").runs


@pytest.mark.parametrize(("target", "cells"), [("compiled-model", 0), ("litert-gpu", STEPS)])
def test_an_lstm_with_coupled_gates_is_in_cells_on_a_gpu_alone(target: Any, cells: int) -> None:
    rng = np.random.default_rng(5)
    weights, recurrent = (rng.standard_normal(shape).astype(np.float32) * 0.4 for shape in ((4, 18), (6, 18)))

    def step(state: Any, x: Any) -> Any:
        h, c = state
        forget, cell, out = jnp.split(x @ weights + h @ recurrent, 3, axis=-1)
        keep = jax.nn.sigmoid(forget)
        c = keep * c + (1 - keep) * jnp.tanh(cell)
        h = jax.nn.sigmoid(out) * jnp.tanh(c)
        return (h, c), h

    def model(x: Any) -> Any:
        zeros = jnp.zeros((1, 6))
        return jax.lax.scan(step, (zeros, zeros), x)[1]

    result = jfuse.convert(model, jax.ShapeDtypeStruct((STEPS, 1, 4), np.float32), target=target)
    assert result.report.operators.get("basic_lstm", 0) == cells
    assert "while" not in result.report.operators
