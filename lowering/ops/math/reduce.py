"""TensorFlow's reductions, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, product, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, TflOp
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.order_of_unsigned import in_order, unsigned
from jfuse.lowering.rule_tools.query import axes_of, dtype, is_computed, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped
from jfuse.lowering.rules import LowerRule, lowers

_DELEGATED = 6  # dimensions: XNNPACK takes reductions of more and fails on them (LiteRT 2.3.0)


def reduces(name: str, op: TflOp, empty: Callable[[DType], Any] | None = None) -> LowerRule:
    """The rule for a reduction, along axes that data may decide. No axes leave the operand as it is.

    empty: what nothing is reduced to, of a dtype, where the kernel says something else.
    """

    def lower(x: Array, axis: Array, *, keep_dims: bool = False) -> Array:
        if dtype(x) is DType.u64 and op in (ops.reduce_max, ops.reduce_min):
            return unsigned(lower(in_order(x), axis, keep_dims=keep_dims))
        none_is_empty = empty is None or all(same(d, 0) is not True for d in x.shape)
        if is_computed(axis) and rank(x) <= _DELEGATED and none_is_empty:
            return op(x, as_i32(axis), keep_dims=keep_dims)
        axes = axes_of(axis, rank(x))
        if not axes:
            return x
        if empty is not None and any(same(x.shape[a], 0) for a in axes):
            return ops.fill(shape_tensor(_reduced(x, axes, keep_dims), [x]), scalar(empty(dtype(x)), x))
        return op(x, axes, keep_dims=keep_dims) if rank(x) <= _DELEGATED else _merged(op, x, axes, keep_dims)

    lower.__doc__ = f"{op.builtin} along axes; without axes the operand itself."
    return lowers(name)(lower)


def _reduced(x: Array, axes: Sequence[int], keep_dims: bool) -> Shape:
    if keep_dims:
        return tuple(1 if i in axes else d for i, d in enumerate(x.shape))
    return tuple(d for i, d in enumerate(x.shape) if i not in axes)


def _merged(op: TflOp, x: Array, axes: Sequence[int], keep_dims: bool) -> Array:
    """The reduction with neighbouring axes made one."""
    runs = [(gone, list(run)) for gone, run in groupby(range(rank(x)), lambda i: i in axes)]
    merged = shaped(x, tuple(product(tuple(x.shape[i] for i in run)) for _, run in runs))
    result = op(merged, tuple(i for i, (gone, _) in enumerate(runs) if gone))
    return shaped(result, _reduced(x, axes, keep_dims), x)


def _no_mean(of: DType) -> Any:
    return np.nan if of.is_float else 0


def _least(of: DType) -> Any:
    return -np.inf if of.is_float else np.iinfo(of.numpy).min


def _greatest(of: DType) -> Any:
    return np.inf if of.is_float else np.iinfo(of.numpy).max


reduces("Mean", ops.mean, _no_mean)
lower_sum = reduces("Sum", ops.sum_)
reduces("Prod", ops.reduce_prod)
reduces("Max", ops.reduce_max, _least)
reduces("Min", ops.reduce_min, _greatest)
reduces("Any", ops.reduce_any)
reduces("All", ops.reduce_all)


@lowers("EuclideanNorm")
def lower_euclidean_norm(x: Array, axis: Array, *, keep_dims: bool = False) -> Array:
    """The square root of the SUM of squares."""
    return ops.sqrt(lower_sum(ops.mul(x, x), axis, keep_dims=keep_dims))


@lowers("ArgMax")
def lower_arg_max(x: Array, dimension: Array, *, output_type: DType = DType.i64) -> Array:
    """ARG_MAX: the first of equals, as in TensorFlow. Of i64, which its kernel lacks, TOPK_V2."""
    if is_computed(dimension) and dtype(x) is not DType.i64:
        return ops.arg_max(x, as_i32(dimension), output_type=output_type)
    (axis,) = axes_of(dimension, rank(x), "dimension")
    return _first(x, axis, output_type) if dtype(x) is DType.i64 else ops.arg_max(x, axis, output_type=output_type)


@lowers("ArgMin")
def lower_arg_min(x: Array, dimension: Array, *, output_type: DType = DType.i64) -> Array:
    """ARG_MIN: the first of equals, as in TensorFlow. Of i64, which its kernel lacks, TOPK_V2 of -1 - x."""
    if is_computed(dimension) and dtype(x) is not DType.i64:
        return ops.arg_min(x, as_i32(dimension), output_type=output_type)
    (axis,) = axes_of(dimension, rank(x), "dimension")
    if dtype(x) is DType.i64:
        return _first(ops.sub(np.int64(-1), x), axis, output_type)
    return ops.arg_min(x, axis, output_type=output_type)


def _first(x: Array, axis: int, output_type: DType) -> Array:
    """The place of the greatest element along an axis."""
    last = rank(x) - 1
    if axis != last:
        x = ops.transpose(x, np.array([*(i for i in range(last + 1) if i != axis), axis], np.int32))
    place = ops.squeeze(ops.topk_v2(x, np.int32(1))[1], squeeze_dims=(last,))
    return place if output_type is DType.i32 else ops.cast(place, out_data_type=output_type)


@lowers("Cumsum")
def lower_cumsum(x: Array, axis: Array, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """CUMSUM, along an axis that data may decide."""
    along = as_i32(axis) if is_computed(axis) else axes_of(axis, rank(x))[0]
    return ops.cumsum(x, along, exclusive=exclusive, reverse=reverse)
