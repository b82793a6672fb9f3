"""LiteRT on an emulated processor of arm64: answers are those of XLA, which rounds integers as the processor does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from bench.runtimes import emulated
from jfuse.base.limits import Limits
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from jfuse.running.loaded_file import asked
from jfuse.running.programs.device import Device
from tests.kernels.integer.oracles import constant, file_of, in_runtime, on_xla, one, tensor
from tests.models.keras_libraries import awake

pytestmark = pytest.mark.skipif(bool(emulated.why_missing()), reason=emulated.why_missing() or "it is there")
CPU = "cortex-a76"
LIMITS = Limits(seconds=600)
SAMPLES = [np.random.default_rng(i).standard_normal((1, 12, 8)).astype(np.float32) for i in range(16)]


def device() -> Device:
    return Device(emulated.command(CPU))


def network() -> Any:
    """A convolution and an LSTM, whose products of states have no bias."""
    layers = keras.layers
    inputs = keras.Input(batch_shape=(1, 12, 8), name="x")
    x = layers.LSTM(24)(layers.Conv1D(16, 3, padding="same", activation="relu")(inputs))
    return awake(keras.Model(inputs, layers.Dense(4)(x)))


def answers(model: jfuse.Model) -> tuple[np.ndarray, np.ndarray]:
    """Those of the processor, and those of XLA."""
    (signature,) = model.program.signatures
    lite = LiteRt(model.to_bytes(), limits=LIMITS, device=device())
    there = [lite.run(signature.key, {"x": x})[signature.output_names[0]] for x in SAMPLES]
    return np.stack(there), np.stack([model(x) for x in SAMPLES])


def test_the_device_is_arm64() -> None:
    assert asked(device(), LIMITS).machine == "aarch64"


def test_floats() -> None:
    there, xla = answers(jfuse.convert(network(), verify=False))
    np.testing.assert_allclose(there, xla, rtol=0, atol=1e-6)  # f32 sums of 40 terms over 12 steps, values below 1


@pytest.mark.parametrize("recipe", ["int8", "int16x8"])
def test_integers(recipe: str) -> None:
    """In every bit."""
    how = jfuse.Recipe.named(recipe, outputs="int16" if recipe == "int16x8" else recipe)
    model = jfuse.convert(network(), quantize=how, calibration=SAMPLES, verify=False, forms=jfuse.Forms(prefer="fused"))
    there, xla = answers(model.rounded_as("arm64"))
    np.testing.assert_array_equal(there, xla)


def test_rows_of_16_bits_without_a_bias_round_otherwise() -> None:
    """One in 300 products lies in the middle between two steps."""
    rng = np.random.default_rng(0)
    weights = constant(rng.integers(-127, 128, (128, 32)).astype(np.int8), np.full(128, 0.02, np.float32))
    x, y = tensor(64, 32, dtype="i16", scale=4e-5), tensor(64, 128, dtype="i16", scale=1.5e-4)
    graph = one(ops.fully_connected, (x, weights, None), y, fused_activation_function="NONE")
    calls = [[rng.integers(-900, 900, (64, 32)).astype(np.int16)]]
    here, there = (in_runtime(file_of(graph), rounding, calls)[0][0] for rounding in ("xnnpack", "arm64"))
    assert 0 < np.sum(here != there) < 0.01 * here.size
    np.testing.assert_array_equal(on_xla(graph, "xnnpack", calls)[0][0], here)
    np.testing.assert_array_equal(on_xla(graph, "arm64", calls)[0][0], there)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", [None, "int16x8"])
def test_verification_there(recipe: Any, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    jfuse.convert(network(), quantize=recipe, calibration=SAMPLES if recipe else None, verify=False).save(path)
    found = jfuse.verify(path, options=jfuse.Verify(device=emulated.command(CPU)), edges="none", limits=LIMITS)
    (there,) = (d for d in found.differences if " on " in d.pair)
    assert there.error <= (1e-6 if recipe is None else 0.0)
    assert "aarch64" in found.backend


@pytest.mark.slow
def test_tuning_there() -> None:
    model = keras.Sequential([keras.Input(batch_shape=(1, 6, 4)), keras.layers.GRU(3)])
    result = jfuse.tune(model, device=emulated.command(CPU), seconds=0.01, verify=False)
    assert any("aarch64" in note for note in result.report.notes)
    x = np.random.default_rng(0).standard_normal((1, 6, 4)).astype(np.float32)
    np.testing.assert_allclose(result(x), model(x), rtol=0, atol=1e-6)
