"""Factors of channels are floats at inputs and outputs; within a model they stay operators of their own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.quantization.recipe import Recipe
from tests.passes.quantize.models import drawn, in_litert, names_of, program_of, snr_db

ROW = TensorType((1, 48), DType.f32)
WEIGHTS = drawn(32, 48, scale=0.3)
_NORM = ["quantize", "fully_connected", "dequantize"]


def _norm(spread: float) -> tuple[Model, np.ndarray, np.ndarray]:
    """A normalized input before a product, with the means and deviations of its features."""
    deviations = np.geomspace(1 / spread, spread, 48).astype(np.float32)
    means = (2 * deviations).astype(np.float32)

    def net(x: Any) -> Any:
        return ops.fully_connected(ops.mul(ops.sub(x, means), 1 / deviations), WEIGHTS, drawn(32))

    return Model(program_of(net, ROW)), means, deviations


def _snr(model: Model, means: np.ndarray, deviations: np.ndarray, recipe: Any, **more: Any) -> tuple[float, list[str]]:
    """Against the formula in float64, on other calls than those of the calibration, and the operators."""
    calls = [{"x0": (means + deviations * drawn(1, 48, seed=seed)).astype(np.float32)} for seed in range(96)]
    found = jfuse.quantize(model, recipe, calls[:64], verify=False, **more)
    x = np.stack([call["x0"] for call in calls[64:]]).astype(np.float64)
    wanted = ((x - means) / deviations) @ WEIGHTS.T + drawn(32)
    return snr_db(np.stack(in_litert(found, calls[64:], delegates=True)), wanted), names_of(found.program)


@pytest.mark.parametrize(("recipe", "least"), [("int8", 30), ("int16x8", 42), ("dynamic", 36), ("int4_weights", 17)])
@pytest.mark.parametrize("spread", [30.0, pytest.param(1e6, marks=pytest.mark.slow)])
def test_a_normalized_input(spread: float, recipe: str, least: float) -> None:
    found, names = _snr(*_norm(spread), recipe)
    assert found > least
    if recipe.startswith("int8") or recipe == "int16x8":
        assert names == ["sub", "mul", *_NORM]


def test_the_report_says_why() -> None:
    model, means, deviations = _norm(30.0)
    calls = [{"x0": (means + deviations * drawn(1, 48, seed=seed)).astype(np.float32)} for seed in range(8)]
    found = jfuse.quantize(model, "int8", calls, verify=False)
    assert {q.op for q in found.report.quantized if "scales the channels of an input" in q.reason} == {"sub", "mul"}


def test_inputs_of_integers_have_no_floats_before() -> None:
    model, means, deviations = _norm(2.0)
    calls = [{"x0": (means + deviations * drawn(1, 48, seed=seed)).astype(np.float32)} for seed in range(8)]
    names = names_of(jfuse.quantize(model, "micro", calls, verify=False).program)
    assert "sub" in names
    assert "dequantize" not in names


def test_one_factor_for_all_moves_on() -> None:
    def net(x: Any) -> Any:
        return ops.fully_connected(ops.mul(x, np.array(1 / 255, np.float32)), WEIGHTS, drawn(32))

    calls = [{"x0": 255 * np.abs(drawn(1, 48, seed=seed))} for seed in range(16)]
    found = jfuse.quantize(jfuse.lower(Model(program_of(net, ROW))), "int8", calls, verify=False)
    assert names_of(found.program) == _NORM


SMALL, LARGE = drawn(24, 48, scale=0.02), drawn(24, 48, scale=2.0, seed=1)
GAIN = np.concatenate([np.full(24, 8.0), np.full(24, 0.08)]).astype(np.float32)


def _branches(x: Any, *, moved: bool) -> Any:
    """Two branches of unlike sizes, joined, normalized and multiplied.   moved: whether something stands behind one"""
    small, large = (ops.relu(ops.fully_connected(x, w, None)) for w in (SMALL, LARGE))
    large = ops.tanh(large) if moved else large
    return ops.fully_connected(ops.mul(ops.concatenation(small, large, axis=-1), GAIN), WEIGHTS, None)


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("recipe", "least"), [("int8", 26), ("int16x8", 36), ("dynamic", 34)])
def test_a_norm_behind_a_join(recipe: Any, least: float, moved: bool) -> None:
    """Its factors go back into the branches, where these are products, and stay a MUL otherwise."""
    calls = [{"x0": drawn(1, 48, seed=seed)} for seed in range(96)]
    source = Model(program_of(lambda x: _branches(x, moved=moved), ROW))
    found = jfuse.quantize(source, recipe, calls[:64], verify=False)
    x = np.stack([call["x0"] for call in calls[64:]]).astype(np.float64)
    small, large = (np.maximum(x @ w.T, 0) for w in (SMALL, LARGE))
    joined = np.concatenate([small, np.tanh(large) if moved else large], -1)
    assert ("mul" in names_of(found.program)) is moved
    snr = snr_db(np.stack(in_litert(found, calls[64:], delegates=True)), (joined * GAIN) @ WEIGHTS.T)
    assert snr > least - 6 * moved


PIXELS = np.array([320, 320, 1, 1], np.float32)


def _scaled(x: Any) -> Any:
    return ops.add(ops.mul(ops.logistic(ops.fully_connected(x, WEIGHTS[:4], None)), PIXELS), 0.5 * PIXELS)


@pytest.mark.parametrize("outputs", ["float32", "int8"])
def test_factors_of_an_output(outputs: str) -> None:
    """They are floats, unless the output is integers."""
    calls = [{"x0": drawn(1, 48, seed=seed)} for seed in range(32)]
    recipe = Recipe.named("int8", outputs=outputs)
    found = jfuse.quantize(Model(program_of(_scaled, ROW)), recipe, calls, verify=False)
    names = names_of(found.program)
    assert ("dequantize" in names) == (outputs == "float32")
    if outputs == "int8":
        return
    assert names[-3:] == ["dequantize", "mul", "add"]
    wanted = in_litert(Model(program_of(_scaled, ROW)), calls, delegates=True)
    assert snr_db(*(np.stack(y)[..., 2:] for y in (in_litert(found, calls, delegates=True), wanted))) > 30


def test_what_else_reads_a_scaled_value_keeps_it_in_integers() -> None:
    def net(x: Any) -> Any:
        y = ops.mul(ops.logistic(ops.fully_connected(x, WEIGHTS, None)), GAIN[:32])
        return y, ops.fully_connected(y, drawn(8, 32), None)

    calls = [{"x0": drawn(1, 48, seed=seed)} for seed in range(8)]
    found = jfuse.quantize(Model(program_of(net, ROW)), "int8", calls, verify=False)
    assert names_of(found.program).count("dequantize") == 2
