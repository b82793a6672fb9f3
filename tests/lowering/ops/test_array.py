"""What the layout rules leave for run time: which equations a graph has, and with which operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.defaults import default_rules
from jfuse.passes.simplify.dce import eliminate_dead_code

B, T = symbol("B"), symbol("T")
STEPS = TensorType((B, 20, 8), DType.f32)
OPEN = TensorType((B, T, 8), DType.f32)
PLACE = TensorType((), DType.i32)


def i32(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def tf_op(name: str, *operands: Any, **attributes: Any) -> Any:
    """The op's rule."""
    return default_rules().lowers[name](*operands, **attributes)


def live(function: Callable[..., Any], *types: TensorType) -> Graph:
    graph = eliminate_dead_code(trace_graph(function, types))
    check_graph(graph)
    return graph


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def size(x: Any, axis: int) -> Any:
    """tf.shape(x)[axis]."""
    return tf_op("StridedSlice", tf_op("Shape", x), i32(axis), i32(axis + 1), i32(1), shrink_axis_mask=1)


def keras_flatten(x: Any) -> Any:
    return tf_op("Reshape", x, tf_op("Pack", size(x, 0), np.int32(160)))


def rows_by_data(x: Any) -> Any:
    """A number of rows that no shape gives, and of which there is but one choice."""
    rows = ops.cast(tf_op("Max", x, i32(0, 1, 2)), out_data_type=DType.i32)
    return tf_op("Reshape", x, tf_op("Pack", rows, np.int32(160)))


def dense_on_rank_3(x: Any) -> Any:
    """The flattening half of Dense on rank 3: an identity transpose, and a shape from products of gathered sizes."""
    x = tf_op("Transpose", x, tf_op("ConcatV2", i32(0, 1), i32(2), np.int32(0)))
    shape = tf_op("Shape", x)
    free = tf_op("Prod", tf_op("GatherV2", shape, i32(0, 1), np.int32(0)), i32(0))
    inner = tf_op("Prod", tf_op("GatherV2", shape, i32(2), np.int32(0)), i32(0))
    return tf_op("Reshape", x, tf_op("Pack", free, inner))


@pytest.mark.parametrize(
    ("function", "given", "target", "result"),
    [
        (keras_flatten, STEPS, [-1, 160], "f32[B,160]"),
        (dense_on_rank_3, OPEN, [-1, 8], "f32[B*T,8]"),
        (lambda x: tf_op("Reshape", x, i32(-1, 20, 2, 4)), STEPS, [-1, 20, 2, 4], "f32[B,20,2,4]"),
        (rows_by_data, STEPS, [-1, 160], "f32[B,160]"),
    ],
)
def test_a_target_with_one_open_size_is_a_constant(
    function: Callable[..., Any], given: TensorType, target: list[int], result: str
) -> None:
    graph = live(function, given)
    assert names(graph) == ["reshape"]
    shape = graph.eqns[0].inputs[1]
    assert isinstance(shape, Const)
    assert shape.array.tolist() == target
    assert str(graph.outputs[0].type) == result


def test_a_target_with_two_open_sizes_is_computed() -> None:
    graph = live(lambda x: tf_op("Reshape", x, tf_op("Pack", size(x, 0), size(x, 1), np.int32(2), np.int32(4))), OPEN)
    assert names(graph)[-2:] == ["pack", "reshape"]
    (found,) = evaluate(graph, [np.ones((2, 3, 8), np.float32)])
    assert found.shape == (2, 3, 2, 4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf_op("Reshape", x, tf_op("Shape", x)),
        lambda x: tf_op("Transpose", x, i32(0, 1, 2)),
        lambda x: tf_op("ConcatV2", x, np.int32(1)),
        lambda x: tf_op("Tile", x, i32(1, 1, 1)),
        lambda x: tf_op("BroadcastTo", x, tf_op("Shape", x)),
        lambda x: tf_op("Pad", x, np.zeros((3, 2), np.int32)),
        lambda x: tf_op("Split", np.int32(0), x, num_split=1),
        lambda x: tf_op("ReverseV2", x, np.zeros(0, np.int32)),
        lambda x: tf_op("Slice", x, i32(0, 0, 0), i32(-1, -1, 8)),
        lambda x: tf_op("StridedSlice", x, i32(0, 0), i32(0, 0), i32(1, 1), begin_mask=1, end_mask=3),
        lambda x: tf_op("StridedSlice", x, i32(0), tf_op("Pack", size(x, 0)), i32(1)),
    ],
)
def test_what_changes_nothing_vanishes(function: Callable[..., Any]) -> None:
    assert names(live(function, OPEN)) == []


def all_but_the_last(x: Any) -> Any:
    """x[:, :tf.shape(x)[1] - 1]."""
    end = tf_op("Pack", np.int32(0), ops.sub(size(x, 1), np.int32(1)))
    return tf_op("StridedSlice", x, i32(0, 0), end, i32(1, 1), begin_mask=3, end_mask=1)


def the_last(x: Any) -> Any:
    """x[:, -1]."""
    return tf_op("StridedSlice", x, i32(0, -1), i32(0, 0), i32(1, 1), begin_mask=1, end_mask=1, shrink_axis_mask=2)


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (the_last, "f32[B,8]"),
        (all_but_the_last, "f32[B,T-1,8]"),
        (lambda x: tf_op("Slice", x, i32(0, 1, 0), i32(-1, -1, 3)), "f32[B,T-1,3]"),
    ],
)
def test_slices_of_open_dimensions_are_strided_slices_of_constant_bounds(
    function: Callable[..., Any], wanted: str
) -> None:
    graph = live(function, OPEN)
    assert names(graph) == ["strided_slice"]
    assert all(isinstance(bound, Const) for bound in graph.eqns[0].inputs[1:])
    assert str(graph.outputs[0].type) == wanted


def test_an_end_that_depends_on_another_dimension_is_computed() -> None:
    def first(x: Any, y: Any) -> Any:
        end = tf_op("Pack", np.int32(0), size(y, 0))
        return tf_op("StridedSlice", x, i32(0, 0), end, i32(1, 1), begin_mask=3, end_mask=1)

    graph = live(first, TensorType((2, 9), DType.f32), TensorType((T,), DType.f32))
    x = np.arange(18, dtype=np.float32).reshape(2, 9)
    for steps in (1, 4, 9):
        np.testing.assert_array_equal(evaluate(graph, [x, np.zeros(steps, np.float32)])[0], x[:, :steps])


def test_an_element_at_a_computed_place_is_gathered_and_counts_from_the_end() -> None:
    def at(x: Any, i: Any) -> Any:
        begin, end = tf_op("Pack", np.int32(0), i), tf_op("Pack", np.int32(0), ops.add(i, np.int32(1)))
        return tf_op("StridedSlice", x, begin, end, i32(1, 1), begin_mask=1, end_mask=1, shrink_axis_mask=2)

    graph = live(at, STEPS, PLACE)
    assert names(graph) == ["floor_mod", "gather"]
    assert str(graph.outputs[0].type) == "f32[B,8]"
    x = np.arange(320, dtype=np.float32).reshape(2, 20, 8)
    for i in (0, 7, -1, -20):
        np.testing.assert_array_equal(evaluate(graph, [x, np.asarray(i, np.int32)])[0], x[:, i])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, i: tf_op("ConcatV2", x, x, i), "'axis' is computed at run time"),
        (lambda x, i: tf_op("GatherV2", x, i, i), "'axis' is computed at run time"),
    ],
)
def test_what_depends_on_data_beyond_sizes_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(LowerError, match=message):
        trace_graph(function, [OPEN, PLACE])


@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda x, i: tf_op("StridedSlice", x, i32(0), tf_op("Pack", i), i32(1)), "f32[N,T,8]"),
        (lambda x, i: tf_op("StridedSlice", x, i32(0), i32(1), tf_op("Pack", i)), "f32[N,T,8]"),
        (lambda x, i: tf_op("Transpose", x, tf_op("Pack", i, i, i)), "f32[N,N1,N2]"),
        (lambda x, i: tf_op("SplitV", x, tf_op("Pack", np.int32(2), i), i32(0), num_split=2)[0], "f32[2,T,8]"),
        (lambda x, i: tf_op("Slice", x, i32(0, 0, 0), tf_op("Pack", i, i, np.int32(3))), "f32[N,N1,3]"),
        (lambda x, i: tf_op("Reshape", x, tf_op("Pack", i, i, np.int32(4))), "f32[N,N1,4]"),
        (lambda x, i: tf_op("Fill", tf_op("Pack", size(x, 0), i), np.float32(0)), "f32[B,N]"),
        (lambda x, i: tf_op("Range", np.int32(0), i, np.int32(1)), "i32[N]"),
        (lambda x, i: tf_op("TopKV2", x, i)[0], "f32[B,T,N]"),
    ],
)
def test_sizes_that_data_decides_have_names_of_their_own(function: Callable[..., Any], wanted: str) -> None:
    graph = live(function, OPEN, PLACE)
    assert str(graph.outputs[0].type) == wanted
    assert depends_on_data(graph.eqns[-1])


def test_an_unpacked_open_dimension_takes_the_size_that_tensorflow_knows() -> None:
    graph = live(lambda x: tuple(tf_op("Unpack", x, num=3, axis=1)), OPEN)
    assert [str(v.type) for v in (*graph.inputs, *graph.outputs)] == ["f32[B,3,8]", *["f32[B,8]"] * 3]


def test_a_resource_is_gathered_along_the_dimension_after_the_batch() -> None:
    table = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    ids = np.array([[2, 0], [1, 1]], np.int32)
    found = tf_op("ResourceGather", table, ids, batch_dims=1)
    np.testing.assert_array_equal(found, np.stack([table[0][ids[0]], table[1][ids[1]]]))


def test_axes_that_are_not_adjacent_are_reversed_one_after_the_other() -> None:
    graph = live(lambda x: tf_op("ReverseV2", x, i32(2, 0)), STEPS)
    assert [eqn.inputs[1].array.tolist() for eqn in graph.eqns if isinstance(eqn.inputs[1], Const)] == [[0], [2]]
    assert isinstance(graph.outputs[0], Var)


def test_a_squeeze_whose_rank_depends_on_the_batch_is_refused() -> None:
    with pytest.raises(LowerError, match=r"a squeeze of f32\[B,1,4\](.|\n)*name its axis"):
        live(lambda x: tf_op("Squeeze", x), TensorType((B, 1, 4), DType.f32))
