"""Tensors made for symbolic dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, size_tensor, zeros

B, T = symbol("B"), symbol("T")
OPEN = TensorType((B, T, 8), DType.f32)


def test_known_sizes_are_a_constant() -> None:
    np.testing.assert_array_equal(shape_tensor((2, 3), []), np.array([2, 3], np.int32))
    np.testing.assert_array_equal(zeros((2, 1), DType.i64, []), np.zeros((2, 1), np.int64))


@pytest.mark.parametrize(
    "text",
    ["B", "20*B", "B*T + 3", "T - 1", "B^2", "floordiv(T, 2)", "mod(T, 4)", "max(B, T)", "min(T, 3)", "-B + 7*T"],
)
def test_expressions_are_computed(text: str) -> None:
    dim = symbol(text)
    graph = trace_graph(lambda x: size_tensor(dim, [x]), [OPEN])
    check_graph(graph)
    for b, t in ((1, 1), (2, 3), (5, 7)):
        wanted = TensorType((dim,), DType.f32).substitute({"B": b, "T": t}).shape[0]
        (found,) = evaluate(graph, [np.zeros((b, t, 8), np.float32)])
        assert found.dtype == np.int32
        assert int(found) == wanted


def test_zeros_have_the_symbolic_type() -> None:
    graph = trace_graph(lambda x: zeros((B, 2 * T), DType.f32, [x]), [OPEN])
    check_graph(graph)
    assert str(graph.outputs[0].type) == "f32[B,2*T]"
    (found,) = evaluate(graph, [np.ones((3, 2, 8), np.float32)])
    np.testing.assert_array_equal(found, np.zeros((3, 4), np.float32))


def test_a_size_is_read_once() -> None:
    def twice(x: Any) -> Any:
        return shape_tensor((B, T), [x]), shape_tensor((T, B), [x])

    graph = trace_graph(twice, [OPEN])
    assert [eqn.op.name for eqn in graph.eqns].count("strided_slice") == 2


def test_a_size_is_read_behind_the_sources_where_only_that_has_it() -> None:
    def half(x: Any) -> Any:
        return shape_tensor(
            (B, T - 1), [ops.strided_slice(x, [0, 0, 0], [0, 0, 0], [1, 2, 1], begin_mask=7, end_mask=7)]
        )

    graph = trace_graph(half, [TensorType((B, T, 8), DType.f32)])
    np.testing.assert_array_equal(evaluate(graph, [np.ones((3, 7, 8), np.float32)])[0], [3, 6])


def test_a_size_that_no_source_has_is_refused() -> None:
    with pytest.raises(LowerError, match="the size T is needed at run time, and no tensor at hand has it"):
        trace_graph(lambda x: shape_tensor((B, T), [x]), [TensorType((B, 2), DType.f32)])
