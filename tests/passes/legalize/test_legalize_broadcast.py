"""Operators whose kernels do not broadcast get operands of one shape, and those of many axes fewer of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.legalize.legalize_broadcast import legalize_broadcast
from jfuse.tflite.runtime.dtypes import unsupported

B, C = symbol("B"), symbol("C")


def traced(function: Callable[..., Any], *shapes: tuple[Any, ...], dtype: DType = DType.f32) -> Graph:
    return trace_graph(function, [TensorType(shape, dtype) for shape in shapes])


@pytest.mark.parametrize(
    ("function", "shapes", "names"),
    [
        (ops.atan2, [(B, 3), (B, 3)], ["atan2"]),
        (ops.atan2, [(B, 3), (3,)], ["select_v2", "atan2"]),
        (ops.atan2, [(B, 1), (1, 3)], ["select_v2", "select_v2", "atan2"]),
        (lambda x: ops.atan2(x, np.float32(1)), [(B, 3)], ["select_v2", "atan2"]),
        (ops.add_n, [(B, 3), (3,), (B, 3)], ["select_v2", "add_n"]),
        (ops.add, [(B, 1), (1, 3)], ["add"]),
        (ops.add, [(2,) * 9, (2,) * 9], ["add"]),
        (ops.add, [(2,) * 9, (2,)], ["reshape", "reshape", "add", "reshape"]),
        (ops.mul, [(B, *(2,) * 8), (2, 2)], ["reshape", "reshape", "mul", "reshape"]),
    ],
)
def test_what_stands_before_the_operator(function: Any, shapes: list[tuple[Any, ...]], names: list[str]) -> None:
    graph = traced(function, *shapes)
    after = legalize_broadcast(graph)
    check_graph(after)
    assert [e.op.name for e in after.eqns] == names
    assert not any(map(unsupported, after.eqns))
    assert (after is graph) == (len(names) == 1)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=[4 if d is B else d for d in shape]).astype(np.float32) for shape in shapes]
    np.testing.assert_array_equal(evaluate(after, inputs)[0], evaluate(graph, inputs)[0])


def test_two_open_sizes_are_read_where_axes_are_put_apart_again() -> None:
    graph = traced(ops.mul, (B, C, *(2,) * 7), (2,))
    after = legalize_broadcast(graph)
    check_graph(after)
    x, y = np.ones((3, 4, *(2,) * 7), np.float32), np.array([2, 3], np.float32)
    np.testing.assert_array_equal(evaluate(after, [x, y])[0], x * y)


def test_what_cannot_be_taken_together_is_refused() -> None:
    crosswise = [tuple(1 if axis % 2 == side else 2 for axis in range(9)) for side in (0, 1)]
    graph = traced(ops.add, *crosswise)
    assert legalize_broadcast(graph) is graph
    assert unsupported(graph.eqns[0]) == "the runtime's kernel broadcasts 8 axes at most"


def test_the_axes_that_vary_alike_are_one() -> None:
    after = legalize_broadcast(traced(ops.add, (2, 3, *(2,) * 7), (2, 1, *(1,) * 6, 2)))
    shapes = [tuple(a.type.shape) for a in after.eqns[-2].inputs if a is not None]
    assert shapes == [(2, 192, 2), (2, 1, 2)]
