"""Order and identity of elements: the greatest ones, distinct ones, places in sorted lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import product
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, TflOp
from jfuse.lowering.rule_tools.operands import as_i32, sizes_operand
from jfuse.lowering.rule_tools.query import axes_of, dtype, one_like, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_of
from jfuse.lowering.rules import LowerRule, lowers


@lowers("TopKV2")
def lower_top_k(x: Array, k: Array, *, sorted: bool = True, index_type: DType = DType.i32) -> Any:  # noqa: A002
    """TOPK_V2, which always sorts; its indices are i32."""
    values, places = ops.topk_v2(x, sizes_operand(k))
    return values, _as(places, index_type)


@lowers("TopK")
def lower_old_top_k(x: Array, *, k: int, sorted: bool = True) -> Any:  # noqa: A002
    """TOPK_V2."""
    return ops.topk_v2(x, np.int32(k))


@lowers("ApproxTopK")
def lower_approx_top_k(
    x: Array,
    *,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    is_max_k: bool = True,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Any:
    """TOPK_V2, which is exact, of the numbers or of those negated."""
    along = reduction_dimension % rank(x)
    order = np.array([*(a for a in range(rank(x)) if a != along), along], np.int32)
    turned = x if along == rank(x) - 1 else ops.transpose(x, order)
    values, places = ops.topk_v2(turned if is_max_k else ops.neg(turned), np.int32(k))
    values = values if is_max_k else ops.neg(values)
    if along == rank(x) - 1:
        return values, places
    back = np.argsort(order).astype(np.int32)
    return ops.transpose(values, back), ops.transpose(places, back)


def _as(x: Array, type_: DType) -> Array:
    return x if dtype(x) is type_ else ops.cast(x, out_data_type=type_)


@lowers("InTopK", "InTopKV2")
def lower_in_top_k(predictions: Array, targets: Array, k: Array | None = None, **attributes: int) -> Array:
    """Whether fewer than k classes are more probable than the target; never among numbers that are not finite.

    predictions: f32[b,classes]; targets: i[b]; k: i[] -> bool[b]
    """
    limit = as_i32(k) if k is not None else np.int32(attributes["k"])
    places = ops.expand_dims(as_i32(targets), np.int32(1))
    classes = size_of(predictions, 1)
    inside = ops.equal(places, ops.floor_mod(places, classes))
    chosen = ops.gather(predictions, ops.floor_mod(places, classes), axis=1, batch_dims=1)
    last = np.array([1], np.int32)
    better = ops.sum_(ops.cast(ops.greater(predictions, chosen), out_data_type=DType.i32), last)
    finite = ops.reduce_all(ops.less(ops.abs_(predictions), scalar(np.inf, predictions)), last)
    sound = ops.logical_and(finite, ops.squeeze(inside, squeeze_dims=(1,)))
    return ops.logical_and(ops.less(better, limit), sound)


@lowers("Unique")
def lower_unique(x: Array, *, out_idx: DType = DType.i32) -> Any:
    """UNIQUE."""
    return ops.unique(x, idx_out_type=out_idx)


@lowers("UniqueV2")
def lower_unique_v2(x: Array, axis: Array, *, out_idx: DType = DType.i32) -> Any:
    """UNIQUE, of the elements of a vector; of the slices along an axis of a tensor as UniqueWithCountsV2."""
    if rank(x) != 1:
        return lower_unique_with_counts_v2(x, axis, out_idx=out_idx)[:2]
    return ops.unique(x, idx_out_type=out_idx)


@lowers("UniqueWithCounts")
def lower_unique_with_counts(x: Array, *, out_idx: DType = DType.i32) -> Any:
    """UNIQUE, and UNSORTED_SEGMENT_SUM of ones for the counts."""
    distinct, which = ops.unique(x, idx_out_type=DType.i32)
    ones = ops.add(ops.zeros_like(which), one_like(which))
    counts = ops.unsorted_segment_sum(ones, which, size_of(distinct, 0))
    return distinct, _as(which, out_idx), _as(counts, out_idx)


@lowers("UniqueWithCountsV2")
def lower_unique_with_counts_v2(x: Array, axis: Array, *, out_idx: DType = DType.i32) -> Any:
    """As UniqueWithCounts, of the elements of a vector. Slices of a tensor are compared with each other.

    Slices with a NaN equal none, so each is set equal to itself.
    """
    axes = axes_of(axis, rank(x))
    if rank(x) == 1:
        return lower_unique_with_counts(x, out_idx=out_idx)
    along = axes[0] if axes else 0
    order = [along, *(a for a in range(rank(x)) if a != along)]
    turned = x if along == 0 else ops.transpose(x, np.array(order, np.int32))
    count = turned.shape[0]
    rows = shaped(turned, (count, product(turned.shape[1:])), turned)
    alike = ops.reduce_all(ops.equal(ops.expand_dims(rows, np.int32(1)), rows), np.array([2], np.int32))
    places = counted(count, x)
    alike = ops.logical_or(alike, ops.equal(ops.expand_dims(places, np.int32(1)), places))
    first = ops.arg_max(ops.cast(alike, out_data_type=DType.i32), np.int32(1), output_type=DType.i32)
    is_first = ops.equal(first, places)
    chosen = ops.cast(ops.squeeze(ops.where(is_first), squeeze_dims=(1,)), out_data_type=DType.i32)
    ordinals = ops.sub(ops.cumsum(ops.cast(is_first, out_data_type=DType.i32), np.int32(0)), np.int32(1))
    counts = ops.sum_(ops.cast(alike, out_data_type=DType.i32), np.array([1], np.int32))
    which, counts = ops.gather(ordinals, first, axis=0), ops.gather(counts, chosen, axis=0)
    return ops.gather(x, chosen, axis=along), _as(which, out_idx), _as(counts, out_idx)


@lowers("Bucketize")
def lower_bucketize(x: Array, *, boundaries: tuple[float, ...]) -> Array:
    """BUCKETIZE."""
    return ops.bucketize(x, boundaries=tuple(boundaries))


def searches(name: str, below: TflOp) -> LowerRule:
    """The rule for places in sorted rows: as many as there are elements for which `below` holds."""

    def lower(sorted_inputs: Array, values: Array, *, out_type: DType = DType.i32) -> Array:
        rows = ops.expand_dims(sorted_inputs, np.int32(1))
        queries = ops.expand_dims(values, np.int32(2))
        is_below = ops.cast(below(rows, queries), out_data_type=out_type)
        return ops.sum_(is_below, np.array([2], np.int32))

    lower.__doc__ = f"""How many elements of a row are {below.name} (than) the value.

    sorted_inputs: n[b,size]; values: n[b,wanted] -> i[b,wanted]
    """
    return lowers(name)(lower)


searches("LowerBound", ops.less)
searches("UpperBound", ops.less_equal)


@lowers("ListDiff")
def lower_list_diff(x: Array, y: Array, *, out_idx: DType = DType.i32) -> Any:
    """The elements of x that y has not, and their places: WHERE none of the comparisons holds."""
    equal = ops.equal(ops.expand_dims(x, np.int32(1)), y)
    places = ops.where(ops.logical_not(ops.reduce_any(equal, np.array([1], np.int32))))
    return ops.gather_nd(x, places), _as(ops.squeeze(places, squeeze_dims=(1,)), out_idx)
