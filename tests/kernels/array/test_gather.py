"""Ops that no rule of a TensorFlow op gives, and corners that none reaches, against LiteRT's own kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import active_trace, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from tests.verification.runners.running import in_litert

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
UPDATE = np.full((1, 2, 4), -1, np.float32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def recorded(op: Any, *operands: Any) -> Any:
    """An equation where calling the op would fold it to a constant."""
    trace = active_trace()
    atoms = [trace.constant(np.asarray(o)) for o in operands]
    return trace.append(op, atoms, op.infer(atoms, {}), {})[0]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        (lambda x: ops.slice_(x, [0, 1, 2], [-1, 2, 1]), [X]),
        (lambda x, u, at: ops.dynamic_update_slice(x, u, at), [X, UPDATE, i32(1, 1, 0)]),
        (lambda x, u, at: ops.dynamic_update_slice(x, u, at), [X, UPDATE, i32(5, 2, -3)]),
        (lambda ids, x: ops.embedding_lookup(ids, x), [i32(1, 0, 1), X]),
        (lambda x, ids: ops.gather(x, ids, axis=2, batch_dims=1), [X, i32(3, 0, 1, 1).reshape(2, 2)]),
        (lambda x: ops.strided_slice(x, [1], [2], [1], begin_mask=1, shrink_axis_mask=1), [X]),
        (lambda i, u: ops.scatter_nd(i, u, [3]), [i32(1, 1).reshape(2, 1), np.array([True, False])]),
        (lambda x: recorded(ops.range_, np.float32(0.1), np.float32(4), np.float32(0.1)), [X]),
        (lambda x: recorded(ops.range_, np.float32(0), np.float32(0.3), np.float32(0.1)), [X]),
        (lambda x: recorded(ops.range_, np.int32(5), np.int32(-4), np.int32(-2)), [X]),
        (lambda x: recorded(ops.rank, X), [X]),
        (lambda x, ids: ops.segment_sum(x, ids), [X.reshape(4, 6), i32(0, 0, 1, 2)]),
    ],
)
def test_the_body_agrees_with_litert(function: Callable[..., Any], args: Sequence[np.ndarray]) -> None:
    graph = trace_graph(function, [TensorType(a.shape, DType.of(a.dtype)) for a in args])
    check_graph(graph)
    (found,), (wanted,) = evaluate(graph, args), in_litert(graph, args)
    assert np.asarray(found).dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("steps", [1, 2, 7])
def test_a_range_up_to_an_open_size_in_litert(steps: int) -> None:
    def odd(x: Any) -> Any:
        size = ops.strided_slice(ops.shape(x), [0], [1], [1], shrink_axis_mask=1)
        return ops.range_(np.int32(1), size, np.int32(2))

    graph = trace_graph(odd, [TensorType((symbol("T"),), DType.f32)])
    check_graph(graph)
    args = [np.zeros(steps, np.float32)]
    wanted = np.arange(1, steps, 2, dtype=np.int32)
    np.testing.assert_array_equal(evaluate(graph, args)[0], wanted)
    if wanted.size:  # get_tensor refuses an empty tensor that is dynamic
        np.testing.assert_array_equal(in_litert(graph, args)[0], wanted)
