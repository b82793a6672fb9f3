"""Weights rounded by what they are multiplied with, and biases without their mean errors. The oracle is LiteRT."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Const, Eqn, Program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import if_
from jfuse.model import Model
from jfuse.passes.quantize.arrays import rounded_in_turn
from jfuse.passes.quantize.forms import EqnForm
from jfuse.passes.quantize.product_moments import wanted_moments
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.quantization.statistics import Observed, Statistics
from tests.passes.quantize.models import calibrated, drawn, eqns_of, in_litert, program_of, quantized, snr_db
from tests.quantization.programs import result
from tests.tflite.programs import BATCH, f32

SLOW = pytest.mark.slow
FOUR = QuantizeRule("weight_only", weight_bits=4, min_elements=0)
IN_TURN = replace(FOUR, weight_algorithm="gptq")
ONE_PIXEL = {"stride_w": 1, "stride_h": 1, "padding": "SAME"}
HALF = {"stride_w": 2, "stride_h": 2, "padding": "VALID"}


def _rows(seed: int, *shape: int) -> np.ndarray:
    """Numbers as behind RELU of a narrow layer: their means are not zero, and they hang together."""
    few = np.random.default_rng(seed).standard_normal((*shape[:-1], 3)).astype(np.float32)
    return np.asarray(np.maximum(few @ drawn(3, shape[-1], seed=1) + 0.5, 0))


def _dense(x: Any) -> Any:
    return ops.fully_connected(x, drawn(12, 32), drawn(12))


def _image(x: Any) -> Any:
    return ops.conv_2d(x, drawn(12, 3, 3, 8), drawn(12), **HALF)


def _pixels(x: Any) -> Any:
    return ops.conv_2d(x, drawn(12, 1, 1, 32), drawn(12), **ONE_PIXEL)


def _channels(x: Any) -> Any:
    return ops.depthwise_conv_2d(x, drawn(1, 3, 3, 16), drawn(16), depth_multiplier=2, **HALF)


PRODUCTS: dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]] = {
    "dense": (_dense, (40, 32)),
    "image": (_image, (1, 9, 9, 8)),
    "pixels": (_pixels, (1, 5, 5, 32)),
    "channels": (_channels, (1, 9, 9, 8)),
}


def _calls(shape: Sequence[int]) -> list[Mapping[str, np.ndarray]]:
    return [{"x0": _rows(seed, *shape)} for seed in range(8)]


def _errors(name: str, rule: QuantizeRule) -> tuple[np.ndarray, np.ndarray]:
    """What LiteRT answers in few bits and in floats, to the calls of the calibration: f32[calls, rows, outputs]."""
    function, shape = PRODUCTS[name]
    program, calls = program_of(function, f32(*shape)), _calls(shape)
    models: list[Model] = [calibrated(program, Recipe((rule,)), calls), quantized(program, None)]
    few, floats = (np.stack(in_litert(m, calls, delegates=True)) for m in models)
    return few.reshape(-1, few.shape[-1]), floats.reshape(-1, floats.shape[-1])


@pytest.mark.parametrize("name", PRODUCTS)
def test_corrected_biases_leave_no_error_on_average(name: str) -> None:
    plain, corrected = (
        np.abs(np.subtract(*_errors(name, rule)).mean(0)).max() for rule in (FOUR, replace(FOUR, bias_correction=True))
    )
    assert plain > 0.05
    # Of an image the means of all pixels stand for those under each place of a window.
    assert corrected < (1e-5 if name in ("dense", "pixels") else 0.25 * plain)


@pytest.mark.parametrize("name", ["dense", "image", "pixels"])
@pytest.mark.parametrize(
    "rule",
    [
        FOUR,
        replace(FOUR, mode="integer", weight_bits=8, activation_bits=16),
        pytest.param(replace(FOUR, weight_bits=2), marks=SLOW),
    ],
    ids=["i4", "16x8", "i2"],
)
def test_weights_rounded_in_turn_err_less(name: str, rule: QuantizeRule) -> None:
    least, in_turn = (
        snr_db(*_errors(name, replace(rule, weight_algorithm=algorithm))) for algorithm in ("mse", "gptq")
    )
    assert in_turn > least + 3


@pytest.mark.parametrize("name", PRODUCTS)
def test_the_report_names_what_is_not_rounded_in_turn(name: str) -> None:
    function, shape = PRODUCTS[name]
    model = calibrated(program_of(function, f32(*shape)), Recipe((IN_TURN,)), _calls(shape)[:2])
    notes = [note for note in model.report.notes if "gptq" in note]
    assert [("depthwise_conv_2d at" in note, "of 1 operators" in note) for note in notes] == (
        [(True, True)] if name == "channels" else []
    )


def test_blocks_are_rounded_in_turn() -> None:
    def dense(x: Any) -> Any:
        return ops.fully_connected(x, drawn(24, 64), drawn(24))

    program, calls = program_of(dense, f32(40, 64)), [{"x0": _rows(s, 40, 64)} for s in range(8)]
    blocks = QuantizeRule("dynamic", weight_bits=4, granularity="block", block_size=32)
    floats = np.stack(in_litert(quantized(program, None), calls, delegates=True))
    found = []
    for algorithm in ("mse", "gptq"):
        model = calibrated(program, Recipe((replace(blocks, weight_algorithm=algorithm),)), calls)
        assert eqns_of(model.program)[0].inputs[1].type.quantization.block_size == 32  # type: ignore[union-attr]
        found.append(snr_db(np.stack(in_litert(model, calls, delegates=True)), floats))
    assert found[1] > found[0] + 3


def test_few_weights_are_rounded_nearly_as_well_as_can_be() -> None:
    """Of all 3^5 roundings the best one is known."""
    rng = np.random.default_rng(2)
    ratios = []
    for _ in range(20):
        rows = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 5)) + 0.3 * rng.standard_normal((200, 5))
        terms = np.concatenate([rows, np.ones((200, 1))], 1)
        weights = rng.uniform(-1.2, 1.2, 5)
        found = rounded_in_turn(weights[None], np.ones(1), 1, terms.T @ terms)[0]
        best, nearest = (
            min(np.square(rows @ (np.array(steps) - weights)).sum() for steps in choice)
            for choice in (itertools.product((-1, 0, 1), repeat=5), [np.clip(np.rint(weights), -1, 1)])
        )
        ratios.append((np.square(rows @ (found - weights)).sum() / best, nearest / best))
    in_turn, nearest = np.exp(np.log(ratios).mean(0))
    assert in_turn < 1.5 < 2 < nearest


def test_moments_within_a_branch_are_those_of_the_calls_that_take_it() -> None:
    negated = program_of(lambda x: ops.neg(_dense(x)), f32(BATCH, 32))
    bodies = tuple(p.signatures[0].graph for p in (program_of(_dense, f32(BATCH, 32)), negated))
    program = program_of(lambda c, x: if_([c, x], bodies)[0], TensorType((), DType.bool), f32(BATCH, 32))
    calls = [{"x0": np.array(n % 3 == 0), "x1": _rows(n, n + 1, 32)} for n in range(6)]
    forms = _forms(program, replace(IN_TURN, bias_correction=True))
    moments = wanted_moments(forms)
    statistics = calibrate(program, [], calls, moments=moments)
    for taken, graph in zip((True, False), bodies, strict=True):
        rows = np.concatenate([c["x1"] for c in calls if c["x0"] == taken]).astype(np.float64)
        terms = np.concatenate([rows, np.ones_like(rows[:, :1])], 1)
        for what in moments:
            if what.var is graph.eqns[0].outputs[0]:
                wanted = terms.T @ terms if what.part == "squares" else terms.sum(0, keepdims=True)
                np.testing.assert_allclose(_moments(statistics, what), wanted, rtol=1e-4, atol=1e-4)
    assert len(moments) == 4


def _moments(statistics: Statistics, what: Observed) -> np.ndarray:
    found = statistics.record(what).moments
    assert found is not None
    return found


def _forms(program: Program, rule: QuantizeRule) -> Mapping[Eqn, EqnForm]:
    return {eqn: EqnForm("weights", rule) for eqn in eqns_of(program)}


def test_shared_weights_are_rounded_once() -> None:
    shared = drawn(32, 32)

    def twice(x: Any) -> Any:
        weights = Const(shared)
        return ops.fully_connected(ops.relu(ops.fully_connected(x, weights, drawn(32))), weights, drawn(32))

    calls = [{"x0": _rows(s, 40, 32)} for s in range(4)]
    model = calibrated(program_of(twice, f32(40, 32)), Recipe((IN_TURN,)), calls)
    assert len([e for e in eqns_of(model.program) if e.op.name == "dequantize"]) == 1


def test_moments_last_in_files_and_add_up(tmp_path: Path) -> None:
    program, calls = program_of(_dense, f32(BATCH, 32)), [{"x0": _rows(n, 3, 32)} for n in range(4)]
    moments = wanted_moments(_forms(program, replace(IN_TURN, bias_correction=True)))
    whole, *parts = (calibrate(program, [], c, moments=moments) for c in (calls, calls[:1], calls[1:]))
    parts[0].save(tmp_path / "a.npz")
    both = Statistics.load(tmp_path / "a.npz", program).merge(parts[1])
    for what in moments:
        np.testing.assert_allclose(_moments(both, what), _moments(whole, what), rtol=1e-5)


def test_without_data_nothing_is_corrected_and_nothing_rounded_in_turn() -> None:
    program = program_of(_dense, f32(40, 32))
    plain = quantized(program, Recipe((FOUR,))).to_bytes()
    corrects = Recipe((replace(FOUR, bias_correction=True),))
    assert quantized(program, corrects).to_bytes() == plain
    with pytest.raises(JfuseError, match=r"rounds weights by what they are multiplied with(.|\n)*calibration="):
        quantized(program, Recipe((IN_TURN,)))

    def at_random(program: Program, observed: Any, histograms: Any, moments: Any) -> Statistics:
        return calibrate(program, observed, "random", histograms=histograms, moments=moments)

    assert quantized(program, corrects, calibrate=at_random).to_bytes() == plain


def test_what_is_not_finite_does_not_count() -> None:
    program = program_of(lambda x: _dense(ops.sqrt(x)), f32(BATCH, 32))
    calls = [{"x0": np.abs(_rows(n, 4, 32))} for n in range(3)]
    calls.append({"x0": -np.ones((4, 32), np.float32)})
    what = replace(result(program, "FULLY_CONNECTED"), part="means")
    moments = wanted_moments(_forms(program, replace(FOUR, bias_correction=True)))
    found = _moments(calibrate(program, [], calls, moments=moments), what)
    rows = np.sqrt(np.concatenate([c["x0"] for c in calls[:3]]).astype(np.float64))
    np.testing.assert_allclose(found, [[*rows.sum(0), len(rows)]], rtol=1e-5)
