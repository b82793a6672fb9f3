"""Sparse tensors as TensorFlow has them: indices in the order of rows, values, and a dense shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, TflOp
from jfuse.lowering.ops.math.segment import rows_of_each, segments
from jfuse.lowering.rule_tools.operands import all_known, as_i32, element, sizes_operand
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar, static
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, size_of, size_tensor, zeros
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


# Arithmetic on sparse tensors: products with matrices, sums along axes, element by element with a dense tensor.
# Sparse tensors are indices i64[n,d], values[n] and a dense shape i64[d]. Rows are added up by UNSORTED_SEGMENT_SUM,
# so that the order of the entries does not matter.


@lowers("SparseReorder")
def lower_sparse_reorder(input_indices: Array, input_values: Array, input_shape: Array) -> tuple[Array, Array]:
    """The entries in the order of rows: sorted by the last axis, then by the one before it, each time by TOPK_V2.

    input_indices: i64[n,d]; input_values: any[n] -> i64[n,d], any[n]. Of equal numbers TOPK_V2 gives the first first.
    """
    agreed(input_indices.shape[0], input_values.shape[0])
    places = as_i32(input_indices)
    total = size_tensor(input_indices.shape[0], [input_indices])
    order: Array | None = None
    for axis in reversed(range(int(input_indices.shape[1]))):
        keys = column(places, axis)
        keys = keys if order is None else ops.gather(keys, order, axis=0)
        _, after = ops.topk_v2(ops.neg(keys), total)
        order = after if order is None else ops.gather(order, after, axis=0)
    if order is None:
        return input_indices, input_values
    return ops.gather(input_indices, order, axis=0), ops.gather(input_values, order, axis=0)


@lowers("SparseTensorDenseMatMul")
def lower_sparse_tensor_dense_mat_mul(
    a_indices: Array, a_values: Array, a_shape: Array, b: Array, *, adjoint_a: bool = False, adjoint_b: bool = False
) -> Array:
    """The rows of b that entries stand beside, times these, added up for each row.   f[rows,k] of f[k,columns]"""
    agreed(a_indices.shape[0], a_values.shape[0])
    places = as_i32(a_indices)
    row, inner = (column(places, axis) for axis in ((1, 0) if adjoint_a else (0, 1)))
    rows = ops.gather(b if not adjoint_b else ops.transpose(b, np.array([1, 0], np.int32)), inner, axis=0)
    scaled = ops.mul(ops.expand_dims(a_values, np.int32(1)), rows)
    return segments(ops.unsorted_segment_sum, scaled, row, _size(a_shape, 1 if adjoint_a else 0))


def reduced(name: str, op: TflOp) -> None:
    """The rule for a reduction of the entries that share the places along the axes that stay."""

    def lower(
        input_indices: Array, input_values: Array, input_shape: Array, reduction_axes: Array, *, keep_dims: bool = False
    ) -> Array:
        agreed(input_indices.shape[0], input_values.shape[0])
        count = int(input_indices.shape[1])
        gone = {axis % count for axis in _axes(reduction_axes)}
        sizes = {axis: _size(input_shape, axis) for axis in range(count) if axis not in gone}
        places = as_i32(input_indices)
        place, total = ops.mul(column(places, 0), np.int32(0)), np.int32(1)
        for axis, size in sizes.items():
            place = ops.add(ops.mul(place, size), column(places, axis))
            total = ops.mul(total, size)
        totals = segments(op, input_values, place, total)
        if op is not ops.unsorted_segment_sum:
            some = ops.not_equal(rows_of_each(input_values, place, total), scalar(0, input_values))
            totals = ops.select_v2(some, totals, scalar(0, input_values))
        shape = [sizes.get(axis, np.int32(1)) for axis in range(count) if keep_dims or axis in sizes]
        known = all(map(is_constant, shape))
        return ops.reshape(totals, np.array(shape, np.int32) if known else ops.pack(*shape))

    lower.__doc__ = f"{op.builtin} of the entries, 0 where there are none.   values[n] -> values[the axes that stay]"
    lowers(name)(lower)


def _axes(axes: Array) -> list[int]:
    value = static(axes, "reduction_axes")
    if not all_known(value):
        raise LowerError("the axes along which a sparse tensor is reduced follow from open sizes")
    return [int(axis) for axis in np.ravel(value)]


reduced("SparseReduceSum", ops.unsorted_segment_sum)
reduced("SparseReduceMax", ops.unsorted_segment_max)


def beside_dense(name: str, op: TflOp) -> None:
    """The rule for values beside the elements of a dense tensor at their places; a dimension of 1 is for all places."""

    def lower(sp_indices: Array, sp_values: Array, sp_shape: Array, dense: Array) -> Array:
        agreed(sp_indices.shape[0], sp_values.shape[0])
        if not rank(dense):
            return op(sp_values, dense)
        places, skipped = as_i32(sp_indices), int(sp_indices.shape[1]) - rank(dense)
        columns = []
        for axis, size in enumerate(dense.shape):
            last = np.int32(int(size) - 1) if is_known(size) else ops.sub(size_of(dense, axis), np.int32(1))
            columns.append(ops.minimum(column(places, skipped + axis), last))
        return op(sp_values, ops.gather_nd(dense, ops.pack(*columns, axis=1)))

    lower.__doc__ = f"{op.builtin} with what GATHER_ND finds.   values[n] -> values[n]"
    lowers(name)(lower)


beside_dense("SparseDenseCwiseMul", ops.mul)
beside_dense("SparseDenseCwiseDiv", ops.div)
beside_dense("SparseDenseCwiseAdd", ops.add)


@lowers("SparseSoftmax")
def lower_sparse_softmax(sp_indices: Array, sp_values: Array, sp_shape: Array) -> Array:
    """The softmax of the entries of each row of a matrix.   f[n] -> f[n]"""
    agreed(sp_indices.shape[0], sp_values.shape[0])
    if int(sp_indices.shape[1]) != 2:
        raise LowerError("the softmax of a sparse tensor that is no matrix has no TFLite spelling")
    row, rows = column(as_i32(sp_indices), 0), _size(sp_shape, 0)
    greatest = segments(ops.unsorted_segment_max, sp_values, row, rows)
    powers = ops.exp(ops.sub(sp_values, ops.gather(greatest, row, axis=0)))
    total = segments(ops.unsorted_segment_sum, powers, row, rows)
    return ops.div(powers, ops.gather(total, row, axis=0))


def _size(shape: Array, axis: int) -> Array:
    """One size of a dense shape as i32[]: a constant where it is known."""
    return sizes_operand(element(shape, axis))
