"""Whole files in integers: on XLA equal to LiteRT's default path in every bit, sample after sample."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.quantization.recipe import Recipe
from jfuse.running.interpreter import LiteRt
from tests.kernels.fused.lstm_oracle import LSTM
from tests.passes.quantize.models import KEY, calibrated, drawn, mlp, program_of

WINDOW = {"padding": "SAME", "stride_w": 2, "stride_h": 2}


def spotter(x: Any) -> Any:
    """Convolutions over a spectrogram, a mean over it, and probabilities."""
    y = ops.conv_2d(x, drawn(8, 5, 4, 1), drawn(8), fused_activation_function="RELU", **WINDOW)
    y = ops.depthwise_conv_2d(y, drawn(1, 3, 3, 8), drawn(8), depth_multiplier=1, **WINDOW)
    y = ops.add(ops.leaky_relu(y, alpha=0.3), ops.mul(y, ops.logistic(y)))
    y = ops.mean(ops.max_pool_2d(y, filter_width=2, filter_height=2, **WINDOW), np.array([1, 2], np.int32))
    return ops.softmax(ops.fully_connected(y, drawn(6, 8), drawn(6)), beta=1.0)


def recurrent(x: Any) -> Any:
    """An LSTM and what reads its last step."""
    lstm = LSTM(batch=1, steps=6, inputs=8, units=12)
    zeros = np.zeros((1, 12), np.float32)
    y, *_ = ops.unidirectional_sequence_lstm(*lstm.in_file_order(x, zeros, zeros), **lstm.options)
    return ops.tanh(ops.fully_connected(ops.reshape(y, [6, 12]), drawn(5, 12), drawn(5)))


MODELS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "mlp": (mlp, (2, 32)),
    "spotter": (spotter, (1, 25, 10, 1)),
    "recurrent": (recurrent, (1, 6, 8)),
}


@pytest.mark.parametrize("name", ["mlp", *(pytest.param(n, marks=pytest.mark.slow) for n in ("spotter", "recurrent"))])
def test_equal_to_litert_in_every_bit(name: str, tmp_path: Path) -> None:
    function, shape = MODELS[name]
    calls = [{"x0": drawn(*shape, seed=i)} for i in range(12)]
    model = calibrated(program_of(function, TensorType(shape, DType.f32)), Recipe.named("int8"), calls)
    path = model.save(tmp_path / "model.tflite")
    loaded, runner = jfuse.load(path), LiteRt(path.read_bytes())
    assert str(loaded.runner()) == "one program"
    for seed in range(100):
        x = drawn(*shape, seed=1000 + seed) * np.float32([1, 0.1, 30][seed % 3])
        np.testing.assert_array_equal(loaded(x), runner.run(KEY, {"x0": x})["y0"])


@pytest.mark.slow
def test_verification_is_exact(tmp_path: Path) -> None:
    calls = [{"x0": drawn(2, 32, seed=i)} for i in range(4)]
    model = calibrated(program_of(mlp, TensorType((2, 32), DType.f32)), Recipe.named("int8"), calls)
    path = model.save(tmp_path / "model.tflite")
    found = jfuse.verify(path, path, samples=100)
    assert {d.error for d in found.differences} == {0.0}
    assert not [note for note in found.notes if "LiteRT" in note]
