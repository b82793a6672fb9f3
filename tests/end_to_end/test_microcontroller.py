"""Recurrent models on tflite-micro: the same file as for LiteRT, right on every call."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from tests.models.keras_libraries import awake

runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="the wheel is for Python 3.11 alone")
layers = keras.layers

MODELS: dict[str, tuple[tuple[int, ...], list[Any]]] = {
    "lstm": ((1, 10, 4), [layers.LSTM(8)]),
    "one unit": ((1, 10, 4), [layers.LSTM(1)]),
    "wide": ((1, 5, 4), [layers.LSTM(96)]),
    "three rows": ((3, 10, 4), [layers.LSTM(16)]),
    "sequences": ((2, 7, 4), [layers.LSTM(8, return_sequences=True)]),
    "stacked": ((1, 10, 4), [layers.LSTM(8, return_sequences=True), layers.LSTM(4), layers.Dense(3)]),
    "backwards": ((1, 10, 4), [layers.LSTM(8, go_backwards=True)]),
    "gru": ((1, 10, 4), [layers.GRU(8)]),
    "keyword spotter": (
        (1, 20, 8, 1),
        [layers.Conv2D(4, 3, activation="relu"), layers.Reshape((18, 24)), layers.LSTM(8)],
    ),
}


@pytest.mark.parametrize("name", MODELS)
def test_stateless_models_answer_alike_on_five_calls(name: str) -> None:
    shape, stack = MODELS[name]
    model = awake(keras.Sequential([keras.Input(batch_shape=shape), *stack]))
    interpreter = runtime.Interpreter.from_bytes(jfuse.convert(model, verify=False).to_bytes())
    for seed in (0, 1, 0, 2, 0):
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        wanted = np.asarray(model(x))
        # 2e-6: sums of up to 100 terms in f32 over 20 steps, in another order
        assert np.abs(interpreter.get_output(0) - wanted).max() <= 2e-6 * np.abs(wanted).max()


def test_a_stateful_model_goes_on() -> None:
    model = awake(keras.Sequential([keras.Input(batch_shape=(1, 4, 3)), layers.LSTM(8, stateful=True)]))
    interpreter = runtime.Interpreter.from_bytes(jfuse.convert(model, verify=False).to_bytes())
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((1, 4, 3)).astype(np.float32)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        np.testing.assert_allclose(interpreter.get_output(0), model(x), rtol=2e-5, atol=1e-7)
