"""TensorFlow's segments, sorted and not, on UNSORTED_SEGMENT_*; counts of numbers.

SEGMENT_SUM is never emitted: it fails on a segment without rows, which TensorFlow takes. Nor is
EMBEDDING_LOOKUP_SPARSE for tf.nn.embedding_lookup_sparse. It needs weights and a number of rows, which TensorFlow
leaves out or takes from the last segment; further operators would have to make them. With many ids it is no faster
than GATHER and sums. Functions marked with its name become it (lowering/composites/embedding.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, product
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.math.reduce import highest, lowest
from jfuse.lowering.rule_tools.operands import as_i32, below_size, sizes_operand
from jfuse.lowering.rule_tools.query import dtype, is_constant, one_like, rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped
from jfuse.lowering.rules import lowers

_OF_KERNEL = (DType.f32, DType.i32)


def segments(op: TflOp, data: Array, ids: Array, count: Array) -> Array:
    """The op on data of any dtype and segments of any rank.

    data: n[*rows, ...]; ids: i[*rows]; count: i32[] -> n[count, ...]. Narrow types are computed in a wider one, whose
    value for an empty segment is brought back to the limits of the narrow one.
    """
    for d, e in zip(data.shape, ids.shape, strict=False):
        agreed(d, e)
    flat = shaped(data, (product(data.shape[: rank(ids)]), *data.shape[rank(ids) :]), ids)
    places = as_i32(shaped(ids, (product(ids.shape),)))
    narrow = dtype(data)
    if narrow in _OF_KERNEL or narrow in (DType.i64, DType.f64):
        return op(flat, places, count)
    wide = DType.f32 if narrow.is_float else DType.i32
    results = op(ops.cast(flat, out_data_type=wide), places, count)
    if op is ops.unsorted_segment_max:
        results = ops.maximum(results, scalar(lowest(narrow.numpy), results))
    elif op is ops.unsorted_segment_min:
        results = ops.minimum(results, scalar(highest(narrow.numpy), results))
    return ops.cast(results, out_data_type=narrow)


def unsorted(name: str, op: TflOp) -> None:
    """The rule for segments in any order."""

    def lower(data: Array, segment_ids: Array, num_segments: Array) -> Array:
        return segments(op, data, segment_ids, sizes_operand(num_segments))

    lower.__doc__ = f"{op.builtin}."
    lowers(name)(lower)


unsorted("UnsortedSegmentSum", ops.unsorted_segment_sum)
unsorted("UnsortedSegmentProd", ops.unsorted_segment_prod)
unsorted("UnsortedSegmentMax", ops.unsorted_segment_max)
unsorted("UnsortedSegmentMin", ops.unsorted_segment_min)


def _count(ids: Array) -> Array:
    """The number of segments of ids that ascend: one more than the last of them, 0 where there are none."""
    end = np.array([-1], np.int32)
    ids_after = as_i32(ids)
    if not is_known(type_of(ids).shape[0]) or 0 in ids.shape:
        ids_after = ops.padv2(ids_after, np.array([[1, 0]], np.int32), np.int32(-1))
    last = ops.strided_slice(ids_after, end, end + 1, np.ones(1, np.int32), end_mask=1, shrink_axis_mask=1)
    return ops.add(last, np.int32(1))


def rows_of_each(data: Array, ids: Array, count: Array) -> Array:
    """How many rows each segment has, in the dtype of data.   -> n[count, 1, ...], of the rank of data"""
    ones = ops.fill(shape_tensor((ids.shape[0], *(1,) * (rank(data) - 1)), [ids]), one_like(data))
    return segments(ops.unsorted_segment_sum, ones, ids, count)


@lowers("SegmentSum")
def lower_segment_sum(data: Array, segment_ids: Array) -> Array:
    """UNSORTED_SEGMENT_SUM."""
    return segments(ops.unsorted_segment_sum, data, segment_ids, _count(segment_ids))


@lowers("SegmentProd")
def lower_segment_prod(data: Array, segment_ids: Array) -> Array:
    """UNSORTED_SEGMENT_PROD."""
    return segments(ops.unsorted_segment_prod, data, segment_ids, _count(segment_ids))


@lowers("SegmentMax")
def lower_segment_max(data: Array, segment_ids: Array) -> Array:
    """UNSORTED_SEGMENT_MAX, 0 for a segment without rows."""
    return _extreme(ops.unsorted_segment_max, data, segment_ids)


@lowers("SegmentMin")
def lower_segment_min(data: Array, segment_ids: Array) -> Array:
    """UNSORTED_SEGMENT_MIN, 0 for a segment without rows."""
    return _extreme(ops.unsorted_segment_min, data, segment_ids)


def _extreme(op: TflOp, data: Array, ids: Array) -> Array:
    count = _count(ids)
    extremes = segments(op, data, ids, count)
    some = ops.not_equal(rows_of_each(data, ids, count), scalar(0, data))
    return extremes if is_constant(some) and some.all() else ops.select_v2(some, extremes, scalar(0, data))


@lowers("SegmentMean")
def lower_segment_mean(data: Array, segment_ids: Array) -> Array:
    """The sums divided by the numbers of rows."""
    return _mean(data, segment_ids, _count(segment_ids))


def _mean(data: Array, ids: Array, count: Array, *, root: bool = False) -> Array:
    """root: divide by the square root of the number of rows."""
    rows = ops.maximum(rows_of_each(data, ids, count), one_like(data))
    total = segments(ops.unsorted_segment_sum, data, ids, count)
    return ops.div(total, ops.sqrt(rows) if root else rows)


@lowers("SparseSegmentSum")
def lower_sparse_segment_sum(data: Array, indices: Array, segment_ids: Array) -> Array:
    """GATHER of the rows, then as SegmentSum."""
    return lower_segment_sum(ops.gather(data, as_i32(indices)), segment_ids)


@lowers("SparseSegmentMean")
def lower_sparse_segment_mean(data: Array, indices: Array, segment_ids: Array) -> Array:
    """GATHER of the rows, then as SegmentMean."""
    return lower_segment_mean(ops.gather(data, as_i32(indices)), segment_ids)


@lowers("SparseSegmentSqrtN")
def lower_sparse_segment_sqrt_n(data: Array, indices: Array, segment_ids: Array) -> Array:
    """GATHER of the rows, then sums divided by the square roots of the numbers of rows."""
    return _mean(ops.gather(data, as_i32(indices)), segment_ids, _count(segment_ids), root=True)


@lowers("SparseSegmentSumWithNumSegments")
def lower_sparse_segment_sum_with_num_segments(
    data: Array, indices: Array, segment_ids: Array, num_segments: Array
) -> Array:
    """GATHER of the rows, then UNSORTED_SEGMENT_SUM."""
    rows = ops.gather(data, as_i32(indices))
    return segments(ops.unsorted_segment_sum, rows, segment_ids, sizes_operand(num_segments))


@lowers("SparseSegmentMeanWithNumSegments")
def lower_sparse_segment_mean_with_num_segments(
    data: Array, indices: Array, segment_ids: Array, num_segments: Array
) -> Array:
    """GATHER of the rows, then their means."""
    return _mean(ops.gather(data, as_i32(indices)), segment_ids, sizes_operand(num_segments))


@lowers("SparseSegmentSqrtNWithNumSegments")
def lower_sparse_segment_sqrt_n_with_num_segments(
    data: Array, indices: Array, segment_ids: Array, num_segments: Array
) -> Array:
    """GATHER of the rows, then sums divided by the square roots of the numbers of rows."""
    return _mean(ops.gather(data, as_i32(indices)), segment_ids, sizes_operand(num_segments), root=True)


@lowers("Bincount")
def lower_bincount(arr: Array, size: Array, weights: Array) -> Array:
    """UNSORTED_SEGMENT_SUM of the weights (ones where there are none) by the numbers; too great ones are left out.

    arr: i32[...]; weights: n[...] or n[0] -> n[size]
    """
    count = sizes_operand(size)
    places = ops.select_v2(ops.less(arr, count), arr, np.int32(-1))
    if 0 in weights.shape:
        weights = ops.fill(shape_tensor(arr.shape, [arr]), np.ones((), dtype(weights).numpy))
    return segments(ops.unsorted_segment_sum, weights, places, count)


@lowers("DenseBincount")
def lower_dense_bincount(numbers: Array, size: Array, weights: Array, *, binary_output: bool = False) -> Any:
    """ONE_HOT, then SUM (REDUCE_MAX where only presence counts) over the numbers of each row.

    numbers: i[n] or i[b,n]; weights: as numbers, or n[0] -> n[size] or n[b,size]
    """
    on, off = (np.asarray(v, dtype(weights).numpy) for v in (1, 0))
    places = sizes_operand(size)
    hits = ops.one_hot(below_size(numbers, places), places, on, off)
    axes = np.array([rank(numbers) - 1], np.int32)
    if binary_output:
        return ops.reduce_max(hits, axes)
    if 0 not in weights.shape:
        hits = ops.mul(hits, ops.expand_dims(weights, np.int32(-1)))
    return ops.sum_(hits, axes)
