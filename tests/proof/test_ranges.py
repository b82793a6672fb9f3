"""What inputs may be, as the operators say that consume them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import Dim, symbol
from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.proof.index_ranges import IndexRange
from jfuse.proof.inputs import draws
from jfuse.proof.ranges import drawn_ranges, integer_limits
from jfuse.verification.inputs.edges import FINITE, edge_inputs

B, N = symbol("B"), symbol("N")
TABLE = np.ones((6, 4), np.float32)
IDS = np.int32
INTS = partial(np.array, dtype=np.int32)


def i32(*shape: Dim) -> TensorType:
    return TensorType(shape, DType.i32)


def f32(*shape: Dim) -> TensorType:
    return TensorType(shape, DType.f32)


def ends(function: Callable[..., Any], *types: TensorType, sizes: Mapping[str, int] | None = None) -> Any:
    """The range of each input, None where any number does."""
    graph = trace_graph(function, types)
    ranges = drawn_ranges(graph)
    return [ranges[v].ends(sizes or {}) if v in ranges else None for v in graph.inputs]


@pytest.mark.parametrize(
    ("function", "types", "wanted"),
    [
        (lambda ids: ops.gather(TABLE, ids), [i32(3)], [(0, 6)]),
        (lambda mask: ops.cast(ops.expand_dims(mask, IDS(1)), out_data_type=DType.bool), [i32(3)], [(0, 2)]),
        (lambda mask: ops.not_equal(mask, IDS(0)), [i32(3)], [(0, 2)]),
        (lambda mask: ops.sub(np.float32(1), ops.cast(mask, out_data_type=DType.f32)), [i32(3)], [(0, 2)]),
        (lambda x: (ops.not_equal(x, IDS(0)), ops.mul(x, IDS(3))), [i32(3)], [None]),
        (lambda x: ops.equal(x, IDS(7)), [i32(3)], [None]),
        (lambda ids: (ops.not_equal(ids, IDS(0)), ops.gather(TABLE, ids)), [i32(3)], [(0, 6)]),
        (lambda ids: ops.gather(TABLE, ops.sub(ids, IDS(2))), [i32(3)], [(2, 8)]),
        (lambda ids: ops.gather(TABLE, ops.add(IDS(2), ids)), [i32(3)], [(-2, 4)]),
        (lambda a, b: ops.gather(TABLE, ops.pack(a, b, axis=0)), [i32(), i32()], [(0, 6)] * 2),
        (lambda x, at: ops.gather_nd(x, at), [f32(4, 3, 2), i32(5, 2)], [None, (0, 3)]),
        (lambda x, i: ops.unsorted_segment_sum(x, i, np.int32(4)), [f32(5), i32(5)], [None, (0, 4)]),
        (lambda x, i, n: ops.unsorted_segment_max(x, i, n), [f32(5), i32(5), i32()], [None, None, (1, 6)]),
        (lambda x, y: ops.floor_div(x, y), [i32(3), i32(3)], [None, (1, 101)]),
        (lambda x, y: ops.floor_mod(x, ops.reshape(y, [3])), [i32(3), i32(3, 1)], [None, (1, 101)]),
        (lambda x, y: ops.div(x, y), [f32(3), f32(3)], [None, None]),
        (lambda x, y: ops.div(x, y), [i32(3), i32(3)], [None, (1, 101)]),
        (lambda x, n: ops.reverse_sequence(x, n, seq_dim=1, batch_dim=0), [f32(2, 5), i32(2)], [None, (0, 6)]),
        (lambda n: ops.fill(n, np.float32(1)), [i32(2)], [(1, 6)]),
        (lambda x, n: ops.tile(x, n), [f32(2, 2), i32(2)], [None, (1, 6)]),
        (lambda x, k: ops.topk_v2(x, k)[0], [f32(2, 5), i32()], [None, (1, 6)]),
        (
            lambda boxes, scores, n, iou: ops.non_max_suppression_v4(boxes, scores, n, iou, np.float32(0))[0],
            [f32(5, 4), f32(5), i32(), f32()],
            [None, None, (1, 6), (0, 1)],
        ),
        (lambda x: ops.relu(x), [f32(3)], [None]),
        # Entries on their way to a table
        (lambda ids: ops.gather(TABLE, ops.reverse_v2(ids, INTS([0]))), [i32(3)], [(0, 6)]),
        (lambda ids: ops.gather(TABLE, ops.pad(ids, INTS([[1, 1]]))), [i32(3)], [(0, 6)]),
        (lambda ids: ops.gather(TABLE, ops.padv2(INTS([1, 2]), INTS([[1, 1]]), ids)), [i32()], [(0, 6)]),
        (lambda ids: ops.gather(TABLE, ops.dynamic_update_slice(INTS([0] * 5), ids, INTS([1]))), [i32(3)], [(0, 6)]),
        (lambda a, n: ops.gather(TABLE, ops.dynamic_update_slice(a, INTS([0]), n)), [i32(3), i32(1)], [(0, 6), None]),
        (lambda ids: ops.gather(TABLE, ops.split(IDS(0), ids, num_splits=2)[1]), [i32(4)], [(0, 6)]),
        (lambda ids: ops.gather(TABLE, ops.topk_v2(ids, IDS(2))[0]), [i32(4)], [(0, 6)]),
        (lambda x: ops.gather(TABLE, ops.topk_v2(x, IDS(2))[1]), [i32(4)], [None]),
        (lambda at, x: ops.scatter_nd(at, x, INTS([4, 3])), [i32(5, 2), f32(5)], [(0, 3), None]),
        # Rows of a table of several axes, by numbers that count all of them
        (lambda ids: ops.gather(TABLE, ops.add(ids, INTS([0, 2, 4]))), [i32(3)], [(0, 2)]),
        (lambda ids: ops.gather(TABLE, ops.sub(ids, INTS([1, 3]))), [i32(2)], [(3, 7)]),
        (lambda ids: ops.gather(TABLE, ops.sub(INTS([5, 6]), ids)), [i32(2)], [(1, 6)]),
        (lambda ids: ops.gather(TABLE, ops.mul(ids, IDS(2))), [i32(2)], [(0, 3)]),
        (lambda ids: ops.gather(TABLE, ops.mul(ids, IDS(-1))), [i32(2)], [None]),
        (lambda i, j: ops.gather(TABLE, ops.add(ops.mul(i, IDS(2)), j)), [i32(2), i32(2)], [(0, 3), (0, 2)]),
        (lambda i, j: ops.gather(TABLE, ops.add(j, ops.mul(IDS(4), i))), [i32(2), i32(2)], [(0, 1), (0, 4)]),
        (lambda i, j: ops.gather(TABLE, ops.add(i, j)), [i32(2), i32(2)], [None, None]),
        # What is clipped may lie beside the table
        (lambda ids: ops.gather(TABLE, ops.maximum(ids, IDS(0))), [i32(3)], [(-2, 6)]),
        (lambda ids: ops.gather(TABLE, ops.minimum(ids, IDS(5))), [i32(3)], [(0, 100)]),
        (lambda ids: ops.gather(TABLE, ops.minimum(ids, IDS(7))), [i32(3)], [(0, 6)]),
        (lambda ids: ops.gather(TABLE, ops.minimum(ops.maximum(ids, IDS(0)), IDS(5))), [i32(3)], [(-2, 98)]),
    ],
)
def test_ranges(function: Callable[..., Any], types: list[TensorType], wanted: list[Any]) -> None:
    assert ends(function, *types) == wanted


def test_rows_of_a_table_of_several_open_axes() -> None:
    def picked(x: Any, ids: Any) -> Any:  # x[b, ids[b, …]]
        batch, width = size_tensor(B, [x]), size_tensor(N, [x])
        first = ops.mul(ops.reshape(ops.range_(IDS(0), batch, IDS(1)), INTS([-1, 1])), width)
        return ops.gather(ops.reshape(x, INTS([-1])), ops.add(first, ids))

    def at(x: Any, i: Any, j: Any) -> Any:  # x[i, j]
        return ops.gather(ops.reshape(x, INTS([-1])), ops.add(ops.mul(i, size_tensor(N, [x])), j))

    sizes = {"B": 4, "N": 5}
    assert ends(picked, f32(B, N), i32(B, 3), sizes=sizes) == [None, (0, 5)]
    assert ends(at, f32(B, N), i32(7), i32(7), sizes=sizes) == [None, (0, 4), (0, 5)]


def test_a_table_of_open_size() -> None:
    def looked_up(x: Any, ids: Any) -> Any:
        return ops.gather(x, ids)

    assert ends(looked_up, f32(N, 2), i32(3), sizes={"N": 7}) == [None, (0, 7)]
    graph = trace_graph(looked_up, [f32(N, 2), i32(3)])
    assert integer_limits(graph) == {}  # a proof has no size for it
    for sizes in ({"N": 2}, {"N": 9}):
        for drawn in draws(Signature("main", graph, ("x", "ids"), ("y",)), sizes, seed=0, count=20):
            assert drawn["ids"].min() >= 0
            assert drawn["ids"].max() < sizes["N"]


def test_what_is_taken_at_both_ends_is_drawn() -> None:
    graph = trace_graph(lambda ids: ops.gather(TABLE, ops.sub(ids, IDS(2))), [i32(50)])
    (drawn,) = draws(Signature("main", graph, ("ids",), ("y",)), {}, seed=0, count=1)
    assert (drawn["ids"].min(), drawn["ids"].max()) == (2, 7)


def test_a_share_lies_between_0_and_1() -> None:
    def suppressed(boxes: Any, scores: Any, iou: Any) -> Any:
        return ops.non_max_suppression_v4(boxes, scores, np.int32(3), iou, np.float32(0))[0]

    graph = trace_graph(suppressed, [f32(5, 4), f32(5), f32()])
    signature = Signature("main", graph, ("boxes", "scores", "iou"), ("y",))
    found = [float(drawn["iou"]) for drawn in draws(signature, {}, seed=0, count=30)]
    assert 0 <= min(found) < 0.3
    assert 0.7 < max(found) < 1


def test_a_threshold_that_ends_a_loop_lies_between_0_and_1() -> None:
    """Halving until the largest is below the threshold: of one below 0 it has no end."""

    def halved(x: Any, threshold: Any) -> Any:
        above = trace_graph(lambda x, t: ops.greater(ops.reduce_max(x, np.array([0], np.int32)), t), [f32(3), f32()])
        half = trace_graph(lambda x, t: (ops.mul(x, np.float32(0.5)), t), [f32(3), f32()])
        return while_([x, ops.mul(threshold, np.float32(2))], [above, half])[0]

    assert ends(halved, f32(3), f32()) == [None, (0, 1)]
    signature = Signature("main", trace_graph(halved, [f32(3), f32()]), ("x", "threshold"), ("y",))
    at_edges = {kind: float(drawn["threshold"]) for kind, drawn in edge_inputs(signature, {}, FINITE, 0)}
    assert set(at_edges.values()) == {0.0, 0.5, 1.0}
    assert (at_edges["minima"], at_edges["maxima"]) == (0.0, 1.0)


def test_the_arms_of_a_case_distinction_do_not_contradict() -> None:
    """Ids below zero count from the end: both arms have a range, and no number is in both."""

    def from_the_end(ids: Any) -> Any:
        return ops.gather(TABLE, ops.select_v2(ops.less(ids, IDS(0)), ops.add(ids, IDS(6)), ids))

    assert ends(from_the_end, i32(3)) == [(0, 6)]
    assert IndexRange(0, (3,)).also(IndexRange(-9, (-6,))) == IndexRange(0, (3,))
    assert IndexRange(1, (9,)).also(IndexRange(0, (5,))) == IndexRange(1, (9, 5))
