"""Which integer inputs are numbers and nothing else, and what is drawn for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.proof.plain_integers import plain_integers, with_whole_integers

TABLE = np.zeros((7, 3), np.float32)


@pytest.mark.parametrize(
    ("body", "is_plain"),
    [
        (lambda i: ops.cast(i, out_data_type=DType.f32), True),
        (lambda i: ops.add(i, i), True),
        (lambda i: i, True),
        (lambda i: ops.cast(ops.abs_(i), out_data_type=DType.i64), True),
        (lambda i: ops.gather(TABLE, i, axis=0), False),
        (lambda i: ops.gather(TABLE, ops.abs_(i), axis=0), False),
        (lambda i: ops.one_hot(i, np.int32(5), np.float32(1), np.float32(0), axis=-1), False),
        (lambda i: ops.sin(ops.cast(i, out_data_type=DType.f32)), False),
        (lambda i: ops.cast(ops.cast(i, out_data_type=DType.f32), out_data_type=DType.i32), False),
        (lambda i: ops.floor_div(np.array([5], np.int32), i), False),
        (lambda i: ops.fill(i, np.float32(0)), False),
    ],
)
def test_numbers_and_indices(body: Any, is_plain: bool) -> None:
    graph = trace_graph(lambda i: (body(i),), [TensorType((4,), DType.i32)])
    assert (graph.inputs[0] in plain_integers(graph)) == is_plain


@pytest.mark.parametrize("dtype", [DType.u8, DType.i8, DType.i16, DType.i32, DType.i64])
def test_the_whole_type_is_drawn(dtype: DType) -> None:
    graph = trace_graph(lambda i: (ops.cast(i, out_data_type=DType.f32),), [TensorType((400,), dtype)])
    signature = Signature("main", graph, ("i",), ("y",))
    zeros = {"i": np.zeros(400, dtype.numpy)}
    drawn = [with_whole_integers(signature, zeros, number, 0)["i"] for number in range(3)]
    limits = np.iinfo(dtype.numpy)
    assert {int(drawn[2].min()), int(drawn[2].max())} == {limits.min, limits.max}
    assert all(a.dtype == dtype.numpy for a in drawn)
    if limits.bits > 8:  # small errors show beside small numbers
        assert np.abs(drawn[0]).max() <= 100
        assert np.abs(drawn[1]).max() <= 10
        assert np.abs(drawn[2].astype(np.float64)).min() < 2 ** (limits.bits // 2)
