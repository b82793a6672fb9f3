"""Ranges of what LOGISTIC and TANH read end where their results change no more. The oracle is the float file."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.quantization.recipe import Recipe
from tests.passes.quantize.models import (
    calibrated,
    drawn,
    eqns_of,
    in_litert,
    program_of,
    quantization,
    quantized,
    snr_db,
)

ROWS = TensorType((4, 16), DType.f32)


FAR = np.where(np.arange(32) % 4, 1, 1000).astype(np.float32)[:, None]
CALLS = [{"x0": drawn(4, 16, scale=0.2, seed=i)} for i in range(20)]


def _gates(far: np.ndarray) -> Program:
    """A step of a recurrence: what enters is added to what comes back, and shared out. 8 bits hold its weights."""
    weights, recurrent = (np.rint(30 * drawn(32, 16, seed=i)) / np.float32(30) for i in range(2))

    def step(x: Any) -> Any:
        there = ops.fully_connected(x, weights * far, drawn(32))
        back = ops.fully_connected(ops.tanh(x), recurrent, None)
        first, second = ops.split(np.int32(1), ops.add(there, back), num_splits=2)
        return ops.mul(ops.logistic(first), ops.tanh(second))

    return program_of(step, ROWS)


def _snr(program: Program, mode: str) -> tuple[Model, float]:
    model = calibrated(program, Recipe.named(mode), CALLS)
    wanted, found = (np.stack(in_litert(m, CALLS, delegates=True)) for m in (quantized(program, None), model))
    return model, snr_db(found, wanted)


@pytest.mark.parametrize(("mode", "bits", "least"), [("int16x8", 15, 40.0), ("int8", 7, 20.0)])
def test_steps_are_for_what_matters(mode: str, bits: int, least: float) -> None:
    """Some gates reach so far that in 8 bits nothing would be left of the others."""
    model, snr = _snr(_gates(FAR), mode)
    read = (eqn.inputs[0] for eqn in eqns_of(model.program) if eqn.op.name in ("logistic", "tanh"))
    assert max(quantization(atom).scale[0] * 2**bits for atom in read) < 11
    assert snr > least


def test_numbers_of_16_bits_do_not_wrap_around() -> None:
    """LiteRT's LOGISTIC and TANH multiply by a scale of more than 5 in 32 bits."""
    assert _snr(_gates(np.float32(1000) * FAR), "int16x8")[1] > 20


def test_what_something_else_reads_too_keeps_its_range() -> None:
    def swish(x: Any) -> Any:
        y = ops.fully_connected(x, 10 * drawn(32, 16), drawn(32))
        return ops.mul(y, ops.logistic(y))

    model, snr = _snr(program_of(swish, ROWS), "int16x8")
    (logistic,) = (eqn for eqn in eqns_of(model.program) if eqn.op.name == "logistic")
    assert quantization(logistic.inputs[0]).scale[0] * 2**15 > 20
    assert snr > 40


def test_a_sum_is_cut_off_only_where_nothing_brings_it_back() -> None:
    """What is added may be as large as what it is added to, with the other sign."""

    def difference(x: Any) -> Any:
        far = ops.fully_connected(x, 100 * drawn(32, 16), None)
        near = ops.fully_connected(x, drawn(32, 16, seed=1), None)
        return ops.tanh(ops.sub(ops.add(far, near), far))

    assert _snr(program_of(difference, ROWS), "int16x8")[1] > 30


def _clipped(low: float, high: float) -> Any:
    return lambda z: ops.minimum(ops.maximum(z, np.float32(low)), np.float32(high))


@pytest.mark.parametrize(
    ("clip", "steps"),
    [
        (_clipped(-2.0, 2.0), 4.0),
        (_clipped(0.0, 1.5), 1.5),
        (_clipped(-0.5, 3.0), 3.5),
        (_clipped(2.0, 5.0), 5.0),
        (ops.relu6, 6.0),
        (lambda z: _clipped(-0.5, 3.0)(ops.reshape(z, np.array([-1, 3], np.int32))), 3.5),
        (lambda z: ops.add(ops.relu6(z), _clipped(-1.0, 1.0)(z)), 7.0),
    ],
)
def test_what_is_clipped_has_the_range_of_the_result(clip: Any, steps: float) -> None:
    program = program_of(lambda x: clip(ops.fully_connected(x, 6 * drawn(6, 16), None)), ROWS)
    model, snr = _snr(program, "int8")
    (product,) = (eqn for eqn in eqns_of(model.program) if eqn.op.name == "fully_connected")
    assert quantization(product.outputs[0]).scale[0] * 255 == pytest.approx(steps, rel=1e-3)
    assert snr > 28


def test_what_something_else_reads_is_not_cut_off_for_a_clip() -> None:
    def both(x: Any) -> Any:
        z = ops.fully_connected(x, 6 * drawn(6, 16), None)
        return ops.add(z, _clipped(-1.0, 1.0)(z))

    assert _snr(program_of(both, ROWS), "int8")[1] > 28


@pytest.mark.parametrize(("far", "is_seen"), [(20.0, True), (0.05, False)], ids=["sure", "unsure"])
def test_sure_logits_have_the_range_that_was_seen(far: float, is_seen: bool) -> None:
    weights = far * drawn(5, 16)
    program = program_of(lambda x: ops.softmax(ops.fully_connected(x, weights, drawn(5))), ROWS)
    logits = quantized(program_of(lambda x: ops.fully_connected(x, weights, drawn(5)), ROWS), None)
    seen = np.stack(in_litert(logits, CALLS, delegates=True))
    (made,) = (
        e for e in eqns_of(calibrated(program, Recipe.named("int16x8"), CALLS).program) if e.op.name == "softmax"
    )
    step = quantization(made.inputs[0]).scale[0]
    assert (step * 32767 <= 1.0001 * np.abs(seen).max()) == is_seen
