"""Joins of parts with unlike ranges: boxes in pixels and scores from 0 to 1. The oracle is the float file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Program
from jfuse.kernels import ops
from jfuse.quantization.recipe import Recipe
from tests.passes.quantize.models import calibrated, drawn, in_litert, names_of, program_of, quantized, snr_db
from tests.tflite.programs import f32

CALLS = [{"x0": drawn(4, 16, seed=i)} for i in range(16)]
Join = Callable[[Any, Any], Any]


def _detector(join: Join, pixels: float = 320.0) -> Program:
    def detector(x: Any) -> Any:
        boxes = ops.mul(ops.logistic(ops.fully_connected(x, drawn(3, 16), None)), np.float32(pixels))
        return join(boxes, ops.logistic(ops.fully_connected(x, drawn(3, 16, seed=1), None)))

    return program_of(detector, f32(4, 16))


def _beside(boxes: Any, scores: Any) -> Any:
    return ops.concatenation(boxes, scores, axis=1)


def _transposed(boxes: Any, scores: Any) -> Any:
    return ops.transpose(_beside(boxes, scores), np.array([1, 0], np.int32))


def _above(boxes: Any, scores: Any) -> Any:
    return ops.reshape(ops.pack(boxes, scores, axis=0), np.array([2, 12], np.int32))


def _padded(boxes: Any, scores: Any) -> Any:
    return ops.pad(_beside(boxes, scores), np.array([[0, 0], [0, 2]], np.int32))


def _twice(boxes: Any, scores: Any) -> Any:
    return ops.mul(_beside(boxes, scores), np.float32(2))


@pytest.mark.parametrize(
    ("join", "scores"),
    [
        (_beside, np.s_[:, :, 3:]),
        (_transposed, np.s_[:, 3:]),
        (_above, np.s_[:, 1]),
        (_padded, np.s_[:, :, 3:6]),
        (_twice, np.s_[:, :, 3:]),
    ],
)
def test_parts_of_a_float_output_have_scales_of_their_own(join: Join, scores: Any) -> None:
    program = _detector(join)
    model = calibrated(program, Recipe.named("int8"), CALLS)
    wanted, found = (np.stack(in_litert(m, CALLS, delegates=True)) for m in (quantized(program, None), model))
    assert snr_db(found[scores], wanted[scores]) > 30
    assert names_of(model.program).count("dequantize") == 2
    assert any("unlike ranges" in q.reason for q in model.report.quantized)
    assert not model.report.notes


def test_parts_of_like_ranges_are_joined_as_integers() -> None:
    model = calibrated(_detector(_beside, pixels=1.5), Recipe.named("int8"), CALLS)
    assert names_of(model.program)[-2:] == ["concatenation", "dequantize"]


def test_what_integers_are_computed_of_is_joined_as_integers() -> None:
    def join(boxes: Any, scores: Any) -> Any:
        return ops.fully_connected(_beside(boxes, scores), drawn(5, 6), None)

    model = calibrated(_detector(join), Recipe.named("int8"), CALLS)
    assert names_of(model.program)[-2:] == ["fully_connected", "dequantize"]


def _norm_behind(join: Join, negative: float = 1.0) -> Program:
    """Branches of sizes 3,000 apart, a norm of their channels behind the join, and a product of it."""
    scale = np.repeat(np.array([300, 0.1 * negative], np.float32), 8)

    def function(x: Any) -> Any:
        small = ops.fully_connected(x, drawn(8, 16, scale=2e-3), None, fused_activation_function="RELU")
        large = ops.mul(ops.tanh(ops.fully_connected(x, drawn(8, 16, seed=1), None)), np.float32(40))
        normed = ops.add(ops.mul(join(small, large), scale), drawn(16, seed=2))
        return ops.fully_connected(normed, drawn(5, 16, seed=3), None)

    return program_of(function, f32(4, 16))


@pytest.mark.parametrize(("recipe", "least"), [("int16x8", 40), ("int8", 34), ("dynamic", 36)])
def test_a_norm_behind_unlike_branches_goes_into_them(recipe: str, least: float) -> None:
    """One scale of 16 bits leaves the small branch ten steps: 27 dB with the factors behind the join."""
    rules = replace(Recipe.named(recipe), rules=tuple(replace(r, min_elements=0) for r in Recipe.named(recipe).rules))
    model = jfuse.quantize(jfuse.Model(_norm_behind(_beside)), rules, [c["x0"] for c in CALLS])
    assert min(n.snr_db for n in model.report.noise) > least
    assert names_of(model.program).count("mul") == 1


def test_factors_that_a_branch_cannot_take_stay_behind_the_join() -> None:
    for program in (_norm_behind(_beside, -1.0), _norm_behind(lambda a, b: _beside(a, ops.tanh(b)))):
        model = jfuse.quantize(jfuse.Model(program), "int16x8", [c["x0"] for c in CALLS], verify=False)
        names = names_of(model.program)
        assert {"mul", "depthwise_conv_2d"} & set(names[names.index("concatenation") :])


@pytest.mark.parametrize(("recipe", "is_told"), [("int8", True), ("int16x8", False)])
def test_an_integer_output_is_told_with_both_ranges(
    recipe: str, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("WARNING", logger="jfuse.api.quantized_sizes")  # commands print these warnings, and log none
    named = Recipe.named(recipe, outputs="int8" if recipe == "int8" else "int16")
    source = jfuse.Model(_detector(_beside))
    warnings = jfuse.quantize(source, named, [c["x0"] for c in CALLS], verify=False).report.warnings
    told = [text for text in warnings if text.startswith("concatenation at")]
    assert len(told) == is_told
    for text in told:
        assert "to 3" in text.split(" and ")[0]
        assert caplog.text.count(text) == 1


@pytest.mark.parametrize(("join", "places"), [(_transposed, ["[0:3]", "[3:6]"]), (_twice, ["[:, 0:3]", "[:, 3:6]"])])
def test_each_part_has_its_noise(join: Join, places: list[str]) -> None:
    model = jfuse.quantize(jfuse.Model(_detector(join)), "int8", [c["x0"] for c in CALLS])
    noise = {n.part: n for n in model.report.noise}
    assert list(noise) == ["", *places]
    assert noise[""].count == sum(noise[part].count for part in places)
    assert noise[places[1]].snr_db > 30
