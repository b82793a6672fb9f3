"""Sums of the rows of tables, positions in sorted tables, and distinct elements of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type, promoted
from jfuse.lowering.from_torch.shapes import from_front, lower_cat, lower_slice_, lower_unsqueeze, lower_view
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped
from jfuse.lowering.rules import DEFAULT, lowers_torch

_SUM, _MEAN = 0, 1


@lowers_torch("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")
def lower_embedding_bag(
    table: Array,
    ids: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Any:
    """Sums or means of the rows of each bag: the product of the bags' membership matrix with the rows.

    table: f[n, d]; ids: i[m]; offsets: i[bags], where each bag begins -> f[bags, d], and nothing else that is read
    """
    if mode not in (_SUM, _MEAN):
        raise LowerError("bags of which the largest element counts", remedy='mode="sum" or "mean"')
    if include_last_offset:
        offsets = lower_slice_(offsets, 0, 0, offsets.shape[0] - 1)
    place = counted(ids.shape[0], ids, *sources())
    begins = as_type(offsets, DType.i32)
    begun = as_type(ops.less_equal(lower_unsqueeze(begins, 1), place), dtype(table))  # [bags, m]
    following = lower_cat([lower_slice_(begun, 0, 1), ops.mul(lower_slice_(begun, 0, 0, 1), scalar(0, table))], 0)
    shares = ops.sub(begun, following)
    if padding_idx is not None and padding_idx >= 0:
        shares = ops.mul(shares, as_type(ops.not_equal(ids, np.asarray(padding_idx, dtype(ids).numpy)), dtype(table)))
    counts = ops.sum_(shares, np.array([1], np.int32), keep_dims=True) if mode == _MEAN else None
    if per_sample_weights is not None:
        shares = ops.mul(shares, per_sample_weights)
    sums = ops.batch_matmul(shares, ops.gather(table, as_type(ids, DType.i32), axis=0))
    sums = sums if counts is None else ops.div(sums, ops.maximum(counts, scalar(1, table)))
    return sums, None, None, None


@lowers_torch("aten.bucketize")
def lower_bucketize(x: Any, boundaries: Array, *, right: bool = False, out_int32: bool = False) -> Array:
    """How many boundaries lie below each element; with `right` those at the element as well."""
    element, bounds = promoted(x, boundaries)
    is_below = ops.greater_equal if right else ops.greater
    below = is_below(lower_unsqueeze(element, rank(element)), bounds)
    axis = np.array([rank(element)], np.int32)
    count = ops.sum_(as_type(below, DType.i32), axis, keep_dims=False)
    return count if out_int32 else as_type(count, DType.i64)


@lowers_torch("aten._unique2")
def lower_unique(
    x: Array,
    in_order: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """UNIQUE of the sorted elements; each element's place among them is where it is found again."""
    row = lower_view(x, [-1])
    values, order = DEFAULT.lowers_torch["aten.sort"](row)
    distinct, which = ops.unique(values, idx_out_type=DType.i32)
    inverse = DEFAULT.lowers_torch["aten.scatter"](ops.zeros_like(which), 0, order, which)
    return _asked(distinct, shaped(inverse, tuple(x.shape), x, *sources()), which, return_inverse, return_counts)


def _asked(distinct: Array, inverse: Array, which: Array, with_inverse: bool, with_counts: bool) -> Any:
    """The results that are asked for, None for the others: of those PyTorch says that they are empty.

    which: the number of each element of a row among the distinct ones
    """
    return distinct, as_type(inverse, DType.i64) if with_inverse else None, _counts(which) if with_counts else None


def _counts(which: Array) -> Array:
    """Count each number from 0 to the largest one in a row."""
    ones = ops.add(ops.zeros_like(which), np.int32(1))
    count = ops.add(ops.reduce_max(which, np.array([0], np.int32)), np.int32(1))
    return as_type(ops.unsorted_segment_sum(ones, which, count), DType.i64)


@lowers_torch("aten.unique_consecutive")
def lower_unique_consecutive(
    x: Array, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of neighbours that are equal: elements, or slices along an axis."""
    rows = lower_view(x, [-1, 1]) if dim is None else _slices(x, from_front(dim, x))
    count = rows.shape[0]
    differs = ops.not_equal(lower_slice_(rows, 0, 1), lower_slice_(rows, 0, 0, count - 1))
    begins = ops.reduce_any(differs, np.array([1], np.int32))
    begins = ops.concatenation(np.ones(1, np.bool_), begins, axis=0)
    which = ops.sub(ops.cumsum(ops.cast(begins, out_data_type=DType.i32), np.int32(0)), np.int32(1))
    chosen = as_type(ops.squeeze(ops.where(begins), squeeze_dims=(1,)), DType.i32)
    table, axis = (lower_view(x, [-1]), 0) if dim is None else (x, from_front(dim, x))
    inverse = shaped(which, tuple(x.shape), x, *sources()) if dim is None else which
    return _asked(ops.gather(table, chosen, axis=axis), inverse, which, return_inverse, return_counts)


def _slices(x: Array, axis: int) -> Array:
    """The slices along an axis as rows."""
    moved = DEFAULT.lowers_torch["aten.movedim"](x, axis, 0)
    return lower_view(moved, [moved.shape[0], -1])


@lowers_torch("aten.unique_dim")
def lower_unique_of_slices(
    x: Array,
    dim: int,
    in_order: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
) -> Any:
    """The distinct slices along an axis in order: each stands behind those whose first element that differs is less.

    Slices are compared with each other, which takes the square of their number.
    """
    axis = from_front(dim, x)
    rows = _slices(x, axis)
    count = rows.shape[0]
    left, right = ops.expand_dims(rows, np.int32(1)), ops.expand_dims(rows, np.int32(0))
    differs = ops.cast(ops.not_equal(left, right), out_data_type=DType.i32)
    first = ops.equal(ops.cumsum(differs, np.int32(2)), np.int32(1))
    first = ops.logical_and(first, ops.not_equal(left, right))
    is_less = ops.reduce_any(ops.logical_and(first, ops.less(right, left)), np.array([2], np.int32))
    alike = ops.logical_not(ops.reduce_any(ops.not_equal(left, right), np.array([2], np.int32)))
    earlier = ops.less(counted(count, x, *sources()), ops.expand_dims(counted(count, x, *sources()), np.int32(1)))
    before = ops.logical_or(is_less, ops.logical_and(alike, earlier))
    place = ops.sum_(ops.cast(before, out_data_type=DType.i32), np.array([1], np.int32))
    numbers = counted(count, x, *sources())
    order = DEFAULT.lowers_torch["aten.scatter"](ops.zeros_like(numbers), 0, place, numbers)
    slices, which, counts = lower_unique_consecutive.function(
        ops.gather(x, order, axis=axis), True, return_counts, axis
    )
    return slices, ops.gather(which, place, axis=0) if return_inverse else None, counts
