"""Which of TFLite's matrix products a TensorFlow product becomes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Const, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.ops.linalg.matmul import lower_batch_matmul, lower_batch_matmul_v3, lower_matmul

W = np.arange(32, dtype=np.float32).reshape(8, 4)


def floats(*shape: int) -> TensorType:
    return TensorType(shape, DType.f32)


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


@pytest.mark.parametrize(
    ("call", "inputs", "op"),
    [
        (lambda x: lower_matmul(x, W), [floats(2, 8)], "fully_connected"),
        (lambda x: lower_matmul(x, W, transpose_b=True), [floats(2, 4)], "fully_connected"),
        (lambda x: lower_matmul(x, W, transpose_a=True), [floats(8, 2)], "batch_matmul"),
        (lambda x: lower_matmul(W, x), [floats(4, 2)], "batch_matmul"),
        (lower_matmul, [floats(2, 8), floats(8, 4)], "batch_matmul"),
        (lambda x: lower_batch_matmul(x, W), [floats(2, 3, 8)], "fully_connected"),
        (lambda x: lower_batch_matmul(x, W[None]), [floats(2, 3, 8)], "batch_matmul"),
    ],
)
def test_constant_matrices_become_weights(call: Any, inputs: list[TensorType], op: str) -> None:
    assert names(trace_graph(call, inputs)) == [op]


@pytest.mark.parametrize("transpose", [False, True])
def test_weights_are_not_copied(transpose: bool) -> None:
    graph = trace_graph(lambda x: lower_matmul(x, W, transpose_b=transpose), [floats(2, 4 if transpose else 8)])
    weights = graph.eqns[0].inputs[1]
    assert isinstance(weights, Const)
    assert np.shares_memory(weights.array, W)


def test_a_product_wider_than_its_operands_is_of_casts() -> None:
    call = partial(lower_batch_matmul_v3, Tout=DType.i32)
    graph = trace_graph(call, [TensorType((2, 2), DType.i8)] * 2)
    assert names(graph)[:2] == ["cast", "cast"]
    assert str(graph.outputs[0].type) == "i32[2,2]"
    x = np.array([[100, 100], [-3, 7]], np.int8)
    np.testing.assert_array_equal(call(x, x), x.astype(np.int32) @ x.astype(np.int32))


def test_a_product_narrower_than_its_operands_is_refused() -> None:
    with pytest.raises(LowerError, match="a matrix product narrower than its operands") as refused:
        trace_graph(lambda x, y: lower_batch_matmul_v3(x, y, Tout=DType.i8), [TensorType((2, 2), DType.i32)] * 2)
    assert "i32[2,2] times i32[2,2] as i8" in str(refused.value)
