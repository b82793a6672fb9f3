"""Loops and branches whose values are integers. The oracle is LiteRT on floats, over calls of one interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Eqn, Graph, Program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import if_, while_
from jfuse.model import Model
from jfuse.quantization.recipe import QuantizeRule, Recipe
from tests.passes.quantize.models import calibrated, drawn, eqns_of, in_litert, names_of, program_of, quantized, snr_db

INT8 = Recipe((QuantizeRule("integer", min_elements=0, range_algorithm="minmax"),))
"""With the ranges of the calls that are compared, of which there are few: bodies are looked at here, not ranges."""
COUNT = TensorType((), DType.i32)
ROWS = TensorType((3, 16), DType.f32)
STEPS = 5
W, V = drawn(16, 16, scale=0.2), drawn(16, 16, scale=0.2, seed=1)
CALLS = [{"x0": drawn(3, 16, seed=i)} for i in range(6)]


def _graph(function: Callable[..., Any], *types: TensorType) -> Graph:
    return program_of(function, *types).signatures[0].graph


def _loop(body: Callable[..., Any], carried: Sequence[Any], types: Sequence[TensorType], steps: int = STEPS) -> Any:
    """What a loop of so many turns carries in the end.   body: of the turn and what is carried"""
    bodies = (
        _graph(lambda i, *_: ops.less(i, np.int32(steps)), COUNT, *types),
        _graph(lambda i, *rest: (ops.add(i, np.int32(1)), *body(i, *rest)), COUNT, *types),
    )
    return while_([np.int32(0), *carried], bodies)[1:]


def _step(h: Any, x: Any) -> Any:
    return ops.tanh(ops.add(ops.fully_connected(h, W, None), ops.fully_connected(x, V, None)))


def _state(x: Any) -> Any:
    """The last state of a cell whose input is the same in all steps."""
    return _loop(lambda i, h, x: (_step(h, x), x), [np.zeros((3, 16), np.float32), x], [ROWS, ROWS])[0]


def _all_states(x: Any) -> Any:
    """All states of a cell, in a list that each step writes to."""
    of_all = TensorType((STEPS, 3, 16), DType.f32)

    def body(i: Any, h: Any, found: Any, x: Any) -> Any:
        h = _step(h, x)
        place = ops.pack(i, np.int32(0), np.int32(0), axis=0)
        return h, ops.dynamic_update_slice(found, ops.expand_dims(h, np.int32(0)), place), x

    first = np.zeros((3, 16), np.float32), np.zeros(of_all.shape, np.float32), x
    return _loop(body, first, [ROWS, of_all, ROWS])[1]


def _from_input(x: Any) -> Any:
    """A state that starts from numbers three times as large as a hyperbolic tangent gives."""
    return _loop(lambda i, h: (ops.tanh(ops.fully_connected(h, W, None)),), [x], [ROWS])[0]


def _within(x: Any) -> Any:
    """A loop in a loop, as the recurrence of a stack of equal layers."""

    def outer(i: Any, h: Any, x: Any) -> Any:
        return _loop(lambda j, h, x: (_step(h, x), x), [h, x], [ROWS, ROWS], 2)

    return _loop(outer, [np.zeros((3, 16), np.float32), x], [ROWS, ROWS], 3)[0]


def _branches(x: Any) -> Any:
    """One of two branches of products, by the sign of a sum."""
    y = ops.fully_connected(x, W, None)
    bodies = (
        _graph(lambda y: ops.relu(ops.fully_connected(y, V, None)), ROWS),
        _graph(lambda y: ops.fully_connected(ops.tanh(y), V, None), ROWS),
    )
    condition = ops.greater(ops.sum_(x, np.array([0, 1], np.int32)), np.float32(0))
    return ops.fully_connected(if_([condition, y], bodies)[0], W, None)


def _in_integers(function: Callable[..., Any], recipe: Recipe = INT8) -> tuple[Program, Model]:
    program = program_of(function, ROWS)
    return program, calibrated(program, recipe, CALLS)


def _snr(program: Program, model: Model) -> float:
    """The worse of LiteRT with its delegates and without."""
    wanted = np.stack(in_litert(quantized(program, None), CALLS, delegates=True))
    return min(snr_db(np.stack(in_litert(model, CALLS, delegates=d)), wanted) for d in (True, False))


def _with_bodies(model: Model) -> list[Eqn]:
    return [eqn for eqn in eqns_of(model.program) if eqn.bodies]


@pytest.mark.parametrize(
    ("function", "recipe", "at_least_db"),
    [
        (_state, "int8", 25),
        (_all_states, "int8", 25),
        (_branches, "int8", 25),
        pytest.param(_all_states, "int16x8", 38, marks=pytest.mark.slow),
        pytest.param(_branches, "int16x8", 38, marks=pytest.mark.slow),
        pytest.param(_within, "int8", 22, marks=pytest.mark.slow),
    ],
)
def test_bodies_take_carry_and_give_integers(function: Callable[..., Any], recipe: str, at_least_db: float) -> None:
    program, model = _in_integers(function, Recipe.named(recipe))
    for eqn in _with_bodies(model):
        atoms = [a for body in eqn.bodies for a in (*body.inputs, *body.outputs)]
        assert DType.f32 not in {a.type.dtype for a in (*eqn.inputs, *eqn.outputs, *atoms)}  # type: ignore[union-attr]
        inner = {e.op.name for body in eqn.bodies for e in body.eqns}
        assert "dequantize" not in inner
    # What comes in and goes out; a branch has its condition from the floats that came in.
    assert names_of(model.program).count("dequantize") <= 1
    assert _snr(program, model) > at_least_db


def test_what_a_loop_starts_from_is_within_reach_of_what_it_carries() -> None:
    program, model = _in_integers(_from_input)
    assert max(np.abs(call["x0"]).max() for call in CALLS) > 2
    assert _snr(program, model) > 22
    (loop,) = _with_bodies(model)
    assert loop.outputs[1].type.dtype is DType.f32, "steps of one input would be too coarse for hyperbolic tangents"


def test_a_number_beyond_what_calibration_saw_keeps_a_branch_in_floats() -> None:
    """The branch that gives it is never taken by the samples, which nobody could tell from its integers."""
    bodies = (
        _graph(lambda x: ops.fully_connected(x, W, None), ROWS),
        _graph(lambda x: np.full((3, 16), 50, np.float32), ROWS),
    )
    program = program_of(lambda c, x: if_([c, x], bodies)[0], TensorType((), DType.bool), ROWS)
    taken = [{"x0": np.array(True), "x1": call["x0"]} for call in CALLS]
    model = calibrated(program, INT8, taken)
    other = {"x0": np.array(False), "x1": CALLS[0]["x0"]}
    found = in_litert(model, [*taken, other], delegates=True)
    np.testing.assert_array_equal(found[-1], np.full((3, 16), 50, np.float32))
    wanted = in_litert(quantized(program, None), taken, delegates=True)
    assert snr_db(np.stack(found[:-1]), np.stack(wanted)) > 25


def test_a_value_that_is_never_finite_stays_float_and_says_so() -> None:
    def never_finite(x: Any) -> Any:
        return ops.tanh(ops.sqrt(ops.sub(np.float32(-1), ops.abs_(ops.fully_connected(x, W, None)))))

    bodies = (_graph(lambda x: ops.abs_(ops.fully_connected(x, V, None)), ROWS), _graph(never_finite, ROWS))
    program = program_of(lambda c, x: if_([c, x], bodies)[0], TensorType((), DType.bool), ROWS)
    calls = [{"x0": np.array(i % 2 == 0), "x1": call["x0"]} for i, call in enumerate(CALLS)]
    report = calibrated(program, INT8, calls).report
    reasons = {line.reason for line in report.quantized if line.op == "tanh"}
    assert reasons == {"calibration saw only NaN and infinities of it"}


def test_a_condition_that_reads_floats_has_them() -> None:
    def function(x: Any) -> Any:
        bodies = (
            _graph(lambda h: ops.greater(ops.sum_(ops.exp(h), np.array([0, 1], np.int32)), np.float32(50)), ROWS),
            _graph(lambda h: ops.mul(ops.tanh(ops.fully_connected(h, W, None)), np.float32(0.9)), ROWS),
        )
        return while_([x], bodies)[0]

    program, model = _in_integers(function)
    (loop,) = _with_bodies(model)
    assert "exp" in {e.op.name for e in loop.bodies[0].eqns}
    assert _snr(program, model) > 15
