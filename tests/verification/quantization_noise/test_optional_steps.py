"""Steps of quantization that harm an output are left out, and saturation is no error of a bias."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.passes.context import Attempt
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.records.conversion import Report
from jfuse.verification.quantization_noise.optional_steps import with_steps_that_help
from tests.passes.quantize.models import drawn, in_litert, program_of, snr_db

ROW = TensorType((1, 16), DType.f32)
CALLS = [{"x0": drawn(1, 16, seed=seed)} for seed in range(96)]
SEEN, OTHERS = CALLS[:48], CALLS[48:]
HIDDEN, LAST = drawn(24, 16, scale=0.25), drawn(3, 24, scale=3.0)
SHIFT = np.array([-9.0, -2.0, 5.0], np.float32)


def _logits(x: Any) -> Any:
    """Far beyond where a sigmoid changes, most of them."""
    return ops.fully_connected(ops.relu(ops.fully_connected(x, HIDDEN, None)), LAST, SHIFT)


def _wanted(calls: list[dict[str, np.ndarray]], function: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    x = np.stack([call["x0"] for call in calls]).astype(np.float64)
    return function(np.maximum(x @ HIDDEN.T, 0) @ LAST.T + SHIFT)


def _hard(x: Any) -> Any:
    six = np.array(1 / 6, np.float32)
    return ops.mul(ops.relu6(ops.add(x, np.array(3, np.float32))), six)


SATURATING: Mapping[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], np.ndarray]]] = {
    "sigmoid": (ops.logistic, lambda z: 1 / (1 + np.exp(-z))),
    "tanh": (ops.tanh, np.tanh),
    "hard_sigmoid": (_hard, lambda z: np.clip(z + 3, 0, 6) / 6),
    "relu6": (ops.relu6, lambda z: np.clip(z, 0, 6)),
}


def _plain(recipe: str) -> Any:
    named = Recipe.named(recipe)
    return replace(named, rules=tuple(replace(rule, bias_correction=False) for rule in named.rules))


@pytest.mark.parametrize(
    ("name", "recipe"),
    [
        ("sigmoid", "int8"),
        ("tanh", "int16x8"),
        *(pytest.param(name, "int8", marks=pytest.mark.slow) for name in ("tanh", "hard_sigmoid", "relu6")),
        *(pytest.param(name, "int16x8", marks=pytest.mark.slow) for name in ("sigmoid", "hard_sigmoid", "relu6")),
    ],
)
def test_saturation_is_no_error(name: str, recipe: Any) -> None:
    """Corrected biases beside those as they are, on other calls, against the formula in float64."""
    function, formula = SATURATING[name]
    model = Model(program_of(lambda x: function(_logits(x)), ROW))
    wanted = _wanted(OTHERS, formula)
    found = [
        snr_db(np.stack(in_litert(jfuse.quantize(model, r, SEEN, verify=False), OTHERS, delegates=True)), wanted)
        for r in (recipe, _plain(recipe))
    ]
    assert found[0] > found[1] - 1.0
    assert found[0] > {"int8": 25, "int16x8": 35}[recipe]


@pytest.mark.parametrize("algorithm", ["percentile", pytest.param("mse", marks=pytest.mark.slow)])
def test_ranges_that_clip(algorithm: str) -> None:
    """A range that leaves numbers out saturates on purpose as well."""
    calls = [{"x0": call["x0"] * (1 + 9 * (i % 8 == 0))} for i, call in enumerate(SEEN)]
    rule = QuantizeRule("integer", range_algorithm=algorithm, bias_correction=True, min_elements=0)
    model = Model(program_of(_logits, ROW))
    wanted = _wanted(calls, lambda z: z)
    found = [
        snr_db(np.stack(in_litert(jfuse.quantize(model, Recipe((r,)), calls), calls, delegates=True)), wanted)
        for r in (rule, replace(rule, bias_correction=False))
    ]
    assert found[0] > found[1] - 0.1


def test_a_target_is_reached_without_floats() -> None:
    model = Model(program_of(lambda x: ops.logistic(_logits(x)), ROW))
    found = jfuse.quantize(model, "int8", SEEN, target={"snr_db": 25}, verify=False)
    assert "no operator left float" in found.report.notes[-1]


def _two(first: float, second: float) -> Program:
    """Twice the input with errors of two outputs."""
    factors = (np.array(2 + error, np.float32) for error in (first, second))
    return program_of(lambda x: tuple(ops.mul(x, factor) for factor in factors), ROW)


def _chosen(recipe: Recipe, errors: Callable[[Recipe], tuple[float, float]], data: Any = SEEN) -> Attempt:
    def lower(recipe: Recipe, data: Any) -> Attempt:
        return Attempt(_two(*errors(recipe)), Report())

    return with_steps_that_help(lower(recipe, None), recipe, _two(0, 0), data, lower)


BOTH = Recipe((QuantizeRule("integer", bias_correction=True),), equalization=True)


def test_a_step_that_harms_one_output_is_left_out() -> None:
    def errors(recipe: Recipe) -> tuple[float, float]:
        return (0.01, 0.04) if recipe.equalization else (0.02, 0.02)

    found = _chosen(BOTH, errors)
    assert found.report.notes == ["equalization is left out: output 'y1' of 'call' has 34.0 dB with it, 40.0 without"]
    assert snr_db(_answers(found)[1], _answers(Attempt(_two(0, 0.02), Report()))[1]) > 100
    assert _chosen(BOTH, lambda recipe: (0.01, 0.02)).report.notes == []


def test_steps_are_left_out_one_by_one() -> None:
    def errors(recipe: Recipe) -> tuple[float, float]:
        error = 0.01 + 0.02 * recipe.rules[0].bias_correction - 0.005 * recipe.equalization
        return error, error

    (note,) = _chosen(BOTH, errors).report.notes
    assert note.startswith("the correction of biases for rounded weights is left out")


@pytest.mark.parametrize(
    ("cost", "note"),
    [
        (1.1, ""),
        (1.2, "ranges reach beyond these calls, as other data may: output 'y0' of 'call' has 44.4 dB in these, 46.0"),
        (2.0, "the extrapolation of ranges is left out"),
    ],
)
def test_ranges_that_reach_too_far(cost: float, note: str) -> None:
    """What steps 1.2 times as large cost is what reaching farther takes; twice as large ones are left out."""

    def errors(recipe: Recipe) -> tuple[float, float]:
        return (0.01 * (cost if recipe.rules[0].range_algorithm == "extrapolated" else 1),) * 2

    notes = _chosen(Recipe((QuantizeRule("integer"),)), errors).report.notes
    assert len(notes) == bool(note)
    assert all(text.startswith(note) for text in notes)


def test_nothing_is_measured_without_data() -> None:
    for data in (None, "random"):
        assert _chosen(BOTH, lambda recipe: (float(recipe.equalization), 0.0), data).report.notes == []


def _answers(attempt: Attempt) -> list[np.ndarray]:
    model = Model(attempt.program)
    found: list[Mapping[str, np.ndarray]] = [model(call["x0"]) for call in SEEN[:4]]
    return [np.stack([np.asarray(outputs[name]) for outputs in found]) for name in ("y0", "y1")]
