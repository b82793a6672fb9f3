"""The choice between a fused op and a loop where speed is preferred."""

from __future__ import annotations

import numpy as np
import pytest

import jfuse
from jfuse.errors import JfuseError, NotFused
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.passes.context import Context
from jfuse.passes.fuse.profitability import fused_microseconds, loop_microseconds, need_faster
from tests.cells import INPUTS, UNITS, Loop, f32, keras
from tests.end_to_end.invokes import check_invokes
from tests.models.lstm_keras import KerasLstm


def fused(steps: int, units: int = UNITS, inputs: int = INPUTS) -> Graph:
    def run(x: Array, h: Array, c: Array) -> Array:
        weights, recurrent = (np.ones((units, n), np.float32) for n in (inputs, units))
        bias = np.zeros(units, np.float32)
        gates = (*[weights] * 4, *[recurrent] * 4, None, None, None, *[bias] * 4, None, None, h, c)
        return ops.unidirectional_sequence_lstm(x, *gates, time_major=True)[0]

    return trace_graph(run, [f32(steps, 1, inputs), f32(1, units), f32(1, units)])


def test_costs_grow_with_steps_and_units() -> None:
    def cost(steps: int, units: int) -> float:
        return fused_microseconds(fused(steps, units).eqns[-1])

    assert cost(20, 16) == pytest.approx(2 * cost(10, 16))
    assert 10 < cost(20, 16) < cost(20, 64) < cost(20, 256)
    few, many = (loop_microseconds(Loop(keras, batch=1, steps=steps).graph(), Context()) for steps in (5, 50))
    assert 0 < 5 * few < many


def test_a_loop_that_is_faster_is_kept() -> None:
    with pytest.raises(NotFused, match="loop_is_faster"):
        need_faster(Loop(keras, batch=1, steps=10).graph(), fused(10, 64, 32), Context())


def test_a_long_loop_of_a_small_cell_is_slower() -> None:
    need_faster(Loop(keras, batch=1, steps=1000).graph(), fused(1000), Context())


def test_what_is_no_sequence_op_is_not_compared() -> None:
    need_faster(Loop(keras, batch=1, steps=10).graph(), Loop(keras, batch=1, steps=10).graph(), Context())


def test_a_model_with_the_preference() -> None:
    """64 units, 20 steps: 88 us side by side and 138 us fused for 50 steps (bench/recurrent.py)."""
    model = KerasLstm(batch=1, units=64, features=32, steps=20).build()
    lite = jfuse.convert(model, prefer="speed")
    assert [r.condition for r in lite.report.refused] == ["loop_is_faster"]
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    check_invokes(lite)


def test_other_preferences_are_errors() -> None:
    with pytest.raises(JfuseError, match="no prefer 'small'"):
        jfuse.convert(KerasLstm(batch=1).build(), prefer="small")
