"""Layout ops on symbolic shapes, shape values, strings and bad operands. Numbers are checked by tests/op_cases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops

B, T, N = symbol("B"), symbol("T"), symbol("N")
STEPS = TensorType((B, 20, 8), DType.f32)
OPEN = TensorType((B, T, 8), DType.f32)
OTHER = TensorType((N, T, 8), DType.f32)
IDS = TensorType((B, 3), DType.i32)


def checked(function: Callable[..., Any], *types: TensorType) -> Graph:
    graph = trace_graph(function, types)
    check_graph(graph)
    return graph


@pytest.mark.parametrize(
    ("function", "types", "wanted"),
    [
        (lambda x: ops.reshape(x, [-1, 160]), [STEPS], "f32[B,160]"),
        (lambda x: ops.reshape(x, [-1, 8]), [OPEN], "f32[B*T,8]"),
        (lambda x: ops.reshape(x, None, new_shape=(-1, 8)), [OPEN], "f32[B*T,8]"),
        (lambda x: ops.reshape(x, [-1, 3]), [STEPS], "f32[floordiv(160*B,3),3]"),
        (lambda x: ops.reshape(x, ops.shape(x)), [OPEN], "f32[B,T,8]"),
        (lambda x: ops.expand_dims(x, -2), [OPEN], "f32[B,T,1,8]"),
        (lambda x: ops.squeeze(ops.expand_dims(x, 0)), [OPEN], "f32[B,T,8]"),
        (lambda x: ops.squeeze(x, squeeze_dims=(0,)), [OPEN], "f32[T,8]"),
        (lambda x: ops.transpose(x, [1, 0, 2]), [OPEN], "f32[T,B,8]"),
        (lambda x, y: ops.concatenation(x, y, axis=1), [OPEN, OTHER], "f32[B,2*T,8]"),
        (lambda x, y: ops.concatenation(x, y, axis=0), [OPEN, OTHER], "f32[N+B,T,8]"),
        (lambda x, y: ops.pack(x, y, axis=-1), [OPEN, OTHER], "f32[B,T,8,2]"),
        (lambda x: ops.unpack(x, axis=2)[0], [OPEN], "f32[B,T]"),
        (lambda x: ops.split(1, x, num_splits=2)[1], [OPEN], "f32[B,floordiv(T,2),8]"),
        (lambda x: ops.split_v(x, [3, -1], 1)[1], [OPEN], "f32[B,T-3,8]"),
        (lambda x: ops.pad(x, [[0, 0], [1, 2], [0, 1]]), [OPEN], "f32[B,T+3,9]"),
        (lambda x: ops.mirror_pad(x, [[0, 0], [1, 2], [0, 1]]), [OPEN], "f32[B,T+3,9]"),
        (lambda x: ops.tile(x, [2, 1, 3]), [OPEN], "f32[2*B,T,24]"),
        (lambda x: ops.tile(np.ones(3, np.float32), ops.slice_(ops.shape(x), [1], [1])), [OPEN], "f32[3*T]"),
        (lambda x: ops.broadcast_to(np.float32(1), ops.shape(x)), [OPEN], "f32[B,T,8]"),
        (lambda x: ops.fill(ops.shape(x), np.int32(0)), [OPEN], "i32[B,T,8]"),
        (lambda x: ops.reverse_v2(x, [1]), [OPEN], "f32[B,T,8]"),
        (lambda x: ops.slice_(x, [0, 1, 0], [-1, -1, 3]), [OPEN], "f32[B,T-1,3]"),
        (lambda x, i: ops.gather(x, i, axis=1), [OPEN, IDS], "f32[B,B,3,8]"),
        (lambda x, i: ops.gather(x, i, axis=1, batch_dims=1), [OTHER, IDS], "f32[N,3,8]"),
        (lambda x, i: ops.gather_nd(x, i), [OPEN, IDS], "f32[B]"),
        (
            lambda x, i: ops.scatter_nd(i, np.ones(3, np.float32), [4, 5]),
            [OPEN, TensorType((3, 2), DType.i32)],
            "f32[4,5]",
        ),
        (lambda x: ops.topk_v2(x, 3)[1], [OPEN], "i32[B,T,3]"),
        (lambda i: ops.one_hot(i, 5, np.float32(1), np.float32(0), axis=0), [IDS], "f32[5,B,3]"),
        (lambda x, n: ops.reverse_sequence(x, n, seq_dim=1), [OTHER, TensorType((B,), DType.i32)], "f32[N,T,8]"),
    ],
)
def test_types_on_symbolic_shapes(function: Callable[..., Any], types: list[TensorType], wanted: str) -> None:
    assert str(checked(function, *types).outputs[0].type) == wanted


def test_operands_of_a_concatenation_share_the_other_dimensions() -> None:
    graph = checked(lambda x, y: ops.concatenation(x, y, axis=1), OPEN, TensorType((N, symbol("S"), 8), DType.f32))
    assert [str(v.type) for v in graph.inputs] == ["f32[B,T,8]", "f32[B,S,8]"]
    assert str(graph.outputs[0].type) == "f32[B,T+S,8]"


def entry(x: Any, i: int) -> Any:
    """Element i of a vector, as TensorFlow writes it."""
    place = np.array([i], np.int32)
    return ops.strided_slice(x, place, place + 1, np.ones(1, np.int32), shrink_axis_mask=1)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda s: ops.pack(entry(s, 0), np.int32(160)), [B, 160]),
        (
            lambda s: ops.concatenation(ops.gather(s, np.array([0, 1], np.int32)), np.array([5], np.int32), axis=0),
            [B, T, 5],
        ),
        (lambda s: ops.reduce_prod(ops.gather(s, np.array([0, 1], np.int32)), [0]), B * T),
        (lambda s: ops.reverse_v2(s, [0]), [8, T, B]),
        (lambda s: ops.slice_(s, [1], [-1]), [T, 8]),
        (lambda s: ops.split(0, s, num_splits=3)[1], [T]),
        (lambda s: ops.split_v(s, [1, 2], 0)[1], [T, 8]),
        (lambda s: ops.unpack(s)[1], T),
        (lambda s: ops.tile(s, [2]), [B, T, 8, B, T, 8]),
        (lambda s: ops.squeeze(ops.expand_dims(s, 0)), [B, T, 8]),
        (lambda s: ops.transpose(ops.reshape(s, [3, 1]), [1, 0]), [[B, T, 8]]),
        (lambda s: ops.fill([2], entry(s, 1)), [T, T]),
        (lambda s: ops.broadcast_to(entry(s, 1), [2]), [T, T]),
        (lambda s: ops.broadcast_args(s, np.array([1, 1, 1], np.int32)), [B, T, 8]),
        (lambda s: ops.strided_slice(s, [-1], [0], [-2], end_mask=1), [8, B]),
    ],
)
def test_shape_values_pass_through(function: Callable[..., Any], wanted: Any) -> None:
    graph = checked(lambda x: function(ops.shape(x)), OPEN)
    (result,) = graph.outputs
    assert isinstance(result, Var)
    assert result.value is not None
    assert result.value.tolist() == wanted
    assert result.type.dtype is DType.i32


def test_what_does_not_depend_on_the_symbol_folds() -> None:
    graph = checked(lambda x: ops.gather(ops.shape(x), np.array([1, 2], np.int32)), STEPS)
    assert graph.eqns[-1].op is not ops.gather
    (result,) = graph.outputs
    assert isinstance(result, Const)
    np.testing.assert_array_equal(result.array, np.array([20, 8], np.int32))


@pytest.mark.parametrize(
    ("limit", "step", "wanted"), [(0, 1, "i32[T]"), (1, 1, "i32[max(0,T-1)]"), (0, 2, "i32[floordiv(T+1,2)]")]
)
def test_ranges_up_to_a_symbol(limit: int, step: int, wanted: str) -> None:
    graph = checked(lambda x: ops.range_(np.int32(limit), entry(ops.shape(x), 1), np.int32(step)), OPEN)
    for steps in (1, 2, 5):
        found = graph.outputs[0].type.substitute({"T": steps})
        assert found.shape == (len(range(limit, steps, step)),), wanted


WORDS = np.array([[b"a", b"bc"], [b"", b"d"]], object)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda w: ops.reshape(w, [-1]), [b"a", b"bc", b"", b"d"]),
        (lambda w: ops.gather(w, np.array([1], np.int32), axis=1), [[b"bc"], [b"d"]]),
        (lambda w: ops.strided_slice(w, [0, 1], [2, 2], [1, 1], shrink_axis_mask=2), [b"bc", b"d"]),
        (lambda w: ops.pack(w, w, axis=0), [WORDS.tolist(), WORDS.tolist()]),
        (lambda w: ops.concatenation(w, w, axis=1), [[b"a", b"bc", b"a", b"bc"], [b"", b"d", b"", b"d"]]),
        (lambda w: ops.tile(w, [1, 2]), [[b"a", b"bc", b"a", b"bc"], [b"", b"d", b"", b"d"]]),
        (lambda w: ops.fill([2], ops.reshape(ops.slice_(w, [0, 1], [1, 1]), [])), [b"bc", b"bc"]),
    ],
)
def test_strings(function: Callable[..., Any], wanted: list[Any]) -> None:
    found = function(WORDS)
    assert found.tolist() == wanted
    graph = checked(function, TensorType((2, 2), DType.string))
    assert graph.outputs[0].type == TensorType(found.shape, DType.string)


def test_where_computes_on_arrays_and_has_a_size_of_its_own() -> None:
    flags = np.array([[True, False], [True, True]])
    np.testing.assert_array_equal(ops.where(flags), [[0, 0], [1, 0], [1, 1]])
    graph = checked(lambda x: (ops.where(x), ops.where(x)), TensorType((B, 2), DType.bool))
    assert [str(o.type) for o in graph.outputs] == ["i64[N,2]", "i64[N1,2]"]


@pytest.mark.parametrize("op", [ops.gather, lambda x, i: ops.embedding_lookup(i, x)])
def test_an_index_out_of_range_is_an_error_on_constants_and_the_nearest_under_jax(op: Callable[..., Any]) -> None:
    table = np.arange(6, dtype=np.float32).reshape(3, 2)
    with pytest.raises(TypeMismatch, match=r"an index out of range of a dimension of 3"):
        op(table, np.array([1, 3, -1], np.int32))
    np.testing.assert_array_equal(jax.jit(op)(table, np.array([1, 3], np.int32)), table[[1, 2]])


@pytest.mark.parametrize(
    "op",
    [
        ops.gather,
        lambda x, i: ops.embedding_lookup(i, x),
        lambda x, i: ops.gather_nd(x, i[:, None]),
        lambda x, i: ops.gather(x[None], i[None], axis=1, batch_dims=1)[0],
    ],
)
def test_rows_of_nothing_are_zeros_under_jax(op: Callable[..., Any]) -> None:
    """In a loop that makes no step, which XLA compiles all the same."""
    found = jax.jit(op)(np.zeros((0, 2), np.float32), np.array([0], np.int32))
    np.testing.assert_array_equal(found, [[0, 0]])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: ops.reshape(x, [-1, -1]), "at most one dimension of a new shape may be -1"),
        (lambda x: ops.reshape(x, [7, 3]), "a reshape keeps the number of elements"),
        (lambda x: ops.squeeze(x, squeeze_dims=(1,)), "squeeze of a dimension that is not 1, at axis 1"),
        (lambda x: ops.transpose(x, [0, 2]), "there is no such axis"),
        (lambda x: ops.transpose(x, [0, 0]), "no order of the axes"),
        (lambda x: ops.split(1, x, num_splits=2), "a dimension of 3 has no 2 equal parts"),
        (lambda x: ops.split_v(x, [1, 1], 1), "the sizes of a split add up to the dimension"),
        (lambda x: ops.pad(x, [[0, 0]]), "paddings are a pair of sizes"),
        (lambda x: ops.broadcast_to(x, [4, 3]), "a dimension of 2 cannot be broadcast to 4"),
        (lambda x: ops.concatenation(x, ops.reshape(x, [3, 2]), axis=0), "differ in a dimension that they must share"),
        (lambda x: ops.pack(x, ops.reshape(x, [6])), "the values differ in dtype or rank"),
        (lambda x: ops.slice_(x, [0, 2], [2, 2]), "a slice from 2 to 4 of a dimension of 3"),
        (lambda x: ops.strided_slice(x, [2], [3], [1], shrink_axis_mask=1), "element 2 of a dimension of 2"),
        (lambda x: ops.strided_slice(x, [0], [1], [0]), "a stride other than 0"),
        (lambda x: ops.strided_slice(x, [0] * 3, [1] * 3, [1] * 3), "more entries than the 2 dimensions"),
    ],
)
def test_operands_that_do_not_fit(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(TypeMismatch, match=message):
        trace_graph(function, [TensorType((2, 3), DType.f32)])
