"""Sparse tensors as TensorFlow has them: indices in the order of rows, values, and a dense shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32, element
from jfuse.lowering.rule_tools.query import dtype, rank
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, size_tensor, zeros
from jfuse.lowering.rules import lowers

_FIRST = np.array([0], np.int32)


@lowers("SparseReshape")
def lower_sparse_reshape(input_indices: Array, input_shape: Array, new_shape: Array) -> Any:
    """The places counted through the old shape, and taken apart by the new one.

    input_indices: i64[n,d]; input_shape: i64[d]; new_shape: i64[k], one of them -1 perhaps -> i64[n,k], i64[k]
    """
    indices, sizes, target = as_i32(input_indices), as_i32(input_shape), as_i32(new_shape)
    place = np.zeros((), np.int32)
    for axis in range(indices.shape[1]):
        place = ops.add(ops.mul(place, element(sizes, axis)), column(indices, axis))
    known = ops.reduce_prod(ops.maximum(target, np.int32(1)), _FIRST)  # without the -1; sizes of 0 have no elements
    left = ops.floor_div(ops.reduce_prod(sizes, _FIRST), known)
    shape = ops.select_v2(ops.less(target, np.int32(0)), left, target)
    columns = []
    for axis in reversed(range(target.shape[0])):
        size = ops.maximum(element(shape, axis), np.int32(1))
        columns.append(ops.floor_mod(place, size) if axis else place)
        place = ops.floor_div(place, size) if axis else place
    return _as(ops.pack(*reversed(columns), axis=1), input_indices), _as(shape, input_shape)


@lowers("SparseFillEmptyRows")
def lower_sparse_fill_empty_rows(indices: Array, values: Array, dense_shape: Array, default_value: Array) -> Any:
    """Entries for rows without any behind the others, all of them put in the order of rows by TOPK_V2.

    indices: i64[n,d]; values: any[n]; dense_shape: i64[d]; default_value: any[] -> i64[m,d], any[m], bool[rows],
    i64[n], where each entry went.
    """
    rows, count = column(as_i32(indices), 0), element(dense_shape, 0)
    entries, width = indices.shape[0], rank(indices) and indices.shape[1]
    ones = ops.fill(shape_tensor((entries,), [indices]), np.ones((), np.int32))
    empty = ops.equal(ops.unsorted_segment_sum(ones, rows, count), np.int32(0))
    gaps = ops.cast(ops.where(empty), out_data_type=dtype(indices))  # i[gaps,1]
    added = gaps.shape[0]
    filled = ops.concatenation(gaps, zeros((added, width - 1), dtype(indices), [gaps]), axis=1) if width > 1 else gaps
    whole = ops.concatenation(indices, filled, axis=0)
    defaults = ops.fill(shape_tensor((added,), [gaps]), default_value)
    # Of equal numbers TOPK_V2 gives the first ones first, so that the entries of a row stay in their order.
    total = ops.add(size_tensor(entries, [indices]), size_tensor(added, [gaps]))
    _, order = ops.topk_v2(ops.neg(column(as_i32(whole), 0)), total)
    _, went = ops.topk_v2(ops.neg(order), total)
    first = ops.gather(went, counted(entries, indices), axis=0)
    return (
        ops.gather(whole, order, axis=0),
        ops.gather(ops.concatenation(values, defaults, axis=0), order, axis=0),
        empty,
        _as(first, indices),
    )


def column(indices: Array, axis: int) -> Array:
    """The places along one axis.   i[n,d] -> i[n]"""
    return ops.gather(indices, np.asarray(axis, np.int32), axis=1)


def _as(x: Array, like: Array) -> Array:
    return x if dtype(x) is dtype(like) else ops.cast(x, out_data_type=dtype(like))
