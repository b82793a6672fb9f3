"""Selects whose condition is known: the value that they take, and no others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.shape_tensors import zeros
from jfuse.passes.simplify.simplify import fold_selects
from tests.cells import BATCH, f32

X, STEPS = f32(BATCH, 3), f32(4, BATCH, 3)


def selects(graph: Graph) -> int:
    return sum(eqn.op in (ops.select, ops.select_v2) for eqn in all_eqns(graph))


def check_same(graph: Graph, *inputs: np.ndarray) -> Graph:
    result = fold_selects(graph)
    check_graph(result, types=True)
    for found, wanted in zip(evaluate(result, inputs), evaluate(graph, inputs), strict=True):
        np.testing.assert_array_equal(found, wanted)
    return result


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(np.float32)


CONDITIONS: dict[str, Callable[[Array], Array]] = {
    "a constant": lambda x: np.array(True),
    "a constant for each row": lambda x: np.ones((1, 3), np.bool_),
    "zeros of an open batch": lambda x: ops.greater(zeros((BATCH, 1), DType.f32, [x]), np.float32(0)),
    "zeros like a column": lambda x: ops.not_equal(ops.zeros_like(ops.mean(x, [1], keep_dims=True)), np.float32(0)),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_known_condition(name: str) -> None:
    graph = trace_graph(lambda x, y: ops.select_v2(CONDITIONS[name](x), x, y), [X, X])
    assert selects(graph) == 1
    assert selects(check_same(graph, rows(2, 3), -rows(2, 3))) == 0


KEPT: dict[str, Callable[[Array, Array], Array]] = {
    "from data": lambda x, y: ops.select_v2(ops.greater(x, y), x, y),
    "of several values": lambda x, y: ops.select_v2(np.array([True, False, True]), x, y),
    "a value that is broadcast": lambda x, y: ops.select_v2(np.ones((1, 3), np.bool_), np.float32(1), y),
}


@pytest.mark.parametrize("name", KEPT)
def test_what_stays(name: str) -> None:
    graph = trace_graph(KEPT[name], [X, X])
    assert fold_selects(graph) is graph


def test_in_the_body_of_a_loop_by_an_operand_that_does_not_change() -> None:
    def step(padding: Array, h: Array, x: Array) -> tuple[Array, Array]:
        new = ops.select_v2(ops.greater(padding, np.float32(0)), h, ops.tanh(ops.add(h, x)))
        return new, new

    def loop(h: Array, x: Array) -> tuple[Array, ...]:
        body = trace_graph(step, [f32(BATCH, 1), X, X])
        padding = zeros((BATCH, 1), DType.f32, [h])
        return scan([padding, h, x], [body], consts=1, carries=1, length=4, reverse=False)

    graph = trace_graph(loop, [X, STEPS])
    assert selects(check_same(graph, rows(2, 3), rows(4, 2, 3))) == 0


@pytest.mark.parametrize(("value", "left"), [(0.0, 0), (None, 1)])
def test_in_the_body_of_a_loop_by_a_sequence_whose_steps_are_all_one_value(value: float | None, left: int) -> None:
    def step(h: Array, x: Array, padding: Array) -> tuple[Array, Array]:
        new = ops.select_v2(ops.greater(padding, np.float32(0)), h, ops.tanh(ops.add(h, x)))
        return new, new

    def loop(h: Array, x: Array) -> tuple[Array, ...]:
        body = trace_graph(step, [X, X, f32(BATCH, 1)])
        steps = ops.slice_(x, [0, 0, 0], [-1, -1, 1]) if value is None else zeros((4, BATCH, 1), DType.f32, [h])
        return scan([h, x, steps], [body], consts=0, carries=1, length=4, reverse=False)

    graph = trace_graph(loop, [X, STEPS])
    assert selects(check_same(graph, rows(2, 3), rows(4, 2, 3))) == left


def test_in_a_marked_function_that_is_called_with_and_without() -> None:
    def call(x: Array, y: Array, flag: Array) -> Array:
        types = [X, X, f32(1, 1)]
        body = trace_graph(lambda x, y, p: ops.select_v2(ops.greater(p, np.float32(0)), x, y), types)
        constant, varying = np.zeros((1, 1), np.float32), flag
        (first,) = composite([x, y, constant], [body], name="acme.step", arguments=("x", "y", "p"), attributes=())
        (second,) = composite([first, y, varying], [body], name="acme.step", arguments=("x", "y", "p"), attributes=())
        return second

    graph = trace_graph(call, [X, X, f32(1, 1)])
    result = check_same(graph, rows(2, 3), -rows(2, 3), np.ones((1, 1), np.float32))
    assert [selects(eqn.bodies[0]) for eqn in result.eqns] == [0, 1]


@pytest.mark.parametrize("either", [False, True], ids=["x * 1", "1 * x"])
def test_products_with_ones(either: bool) -> None:
    def step(h: Array, x: Array) -> tuple[Array, ...]:
        ones = ops.add(ops.zeros_like(h), np.float32(1))
        new = ops.add(ops.mul(ones, h) if either else ops.mul(h, ones), x)
        return new, new

    body = trace_graph(step, [X, X])
    graph = trace_graph(lambda h, x: scan([h, x], [body], consts=0, carries=1, length=4, reverse=False), [X, STEPS])
    result = check_same(graph, rows(2, 3), rows(4, 2, 3))
    assert not any(eqn.op is ops.mul for eqn in all_eqns(result))


def test_products_with_other_numbers_stay() -> None:
    graph = trace_graph(lambda x: ops.mul(x, np.array([1, 1, 2], np.float32)), [X])
    assert check_same(graph, rows(2, 3)) is graph
    wider = trace_graph(lambda x: ops.mul(x, np.ones((2, 1, 1), np.float32)), [X])
    assert check_same(wider, rows(2, 3)) is wider
