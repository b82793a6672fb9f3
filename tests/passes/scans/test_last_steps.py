"""Last steps of collected states: they are final states, and others are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import Dim, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array
from jfuse.passes.scans.from_while.last_steps import last_steps
from jfuse.passes.simplify.dce import eliminate_dead_code
from tests.cells import f32

T = 4
X = f32(2, 3)


def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    c = ops.tanh(ops.add(c, x))
    h = ops.mul(c, h)
    return h, c, h, c, ops.add(c, x)


def loop(read: Callable[..., Array], reverse: bool = False, length: Dim = T) -> Graph:
    """`read` is called with h, c and the sequences of h, c and c + x."""

    def run(h: Array, c: Array, x: Array) -> Array:
        body = trace_graph(step, [X, X, X])
        return read(*scan([h, c, x], [body], consts=0, carries=2, length=length, reverse=reverse))

    return trace_graph(run, [X, X, f32(length, 2, 3)])


def at(sequence: Array, index: int) -> Array:
    return ops.gather(sequence, np.int32(index), axis=0)


def scan_of(graph: Graph) -> Eqn:
    (found,) = (eqn for eqn in graph.eqns if eqn.op is scan)
    return found


def check_same(graph: Graph) -> Graph:
    result = last_steps(graph)
    check_graph(result, types=True)
    random = np.random.default_rng(0)
    args = [random.standard_normal(shape).astype(np.float32) for shape in ((2, 3), (2, 3), (T, 2, 3))]
    for found, wanted in zip(evaluate(result, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return result


def from_end(h: Array, c: Array, hs: Array, cs: Array, others: Array) -> Array:
    return ops.add(hs, ops.strided_slice(cs, [-1], [0], [1], end_mask=1, shrink_axis_mask=1))


TAKEN: dict[str, Graph] = {
    "by its index": loop(lambda h, c, hs, cs, others: ops.add(hs, at(cs, T - 1))),
    "counted from the end": loop(from_end),
    "counted from the end of an open length": loop(from_end, length=symbol("T")),
    "backwards, of an open length": loop(
        lambda h, c, hs, cs, others: ops.add(hs, at(cs, 0)), reverse=True, length=symbol("T")
    ),
    "turned to another axis": loop(
        lambda h, c, hs, cs, others: ops.add(hs, ops.gather(ops.transpose(cs, [1, 0, 2]), np.int32(T - 1), axis=1))
    ),
    "backwards": loop(lambda h, c, hs, cs, others: ops.add(hs, at(cs, 0)), reverse=True),
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_last_step_is_the_final_state(name: str) -> None:
    assert len(scan_of(TAKEN[name]).outputs) == 5
    result = check_same(TAKEN[name])
    assert [eqn.op.name for eqn in result.eqns] == ["scan", "add"]
    assert len(scan_of(result).outputs) == 3  # h, c, and h of every step


KEPT: dict[str, Graph] = {
    "another step": loop(lambda h, c, hs, cs, others: at(cs, T - 2)),
    "the first in the order of a backward loop": loop(lambda h, c, hs, cs, others: at(cs, T - 1), reverse=True),
    "what is no state": loop(lambda h, c, hs, cs, others: at(others, T - 1)),
    "the first of an open length, backwards from its end": loop(from_end, reverse=True, length=symbol("T")),
    "one row of a final state": loop(lambda h, c, hs, cs, others: at(c, 1)),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    assert str(last_steps(KEPT[name])) == str(eliminate_dead_code(KEPT[name]))


def test_a_state_that_is_carried_for_nobody_is_not_kept_alive() -> None:
    def copied(h: Array, copy: Array, x: Array) -> tuple[Array, ...]:
        new = ops.tanh(ops.add(h, x))
        shown = ops.mul(new, np.float32(2))
        return new, shown, shown

    def run(h: Array, x: Array) -> Array:
        body = trace_graph(copied, [X, X, X])
        _, _, shown = scan([h, h, x], [body], consts=0, carries=2, length=T, reverse=False)
        return ops.add(shown, at(shown, T - 1))

    result = last_steps(trace_graph(run, [X, f32(T, 2, 3)]))
    assert scan_of(result).params["carries"] == 1
