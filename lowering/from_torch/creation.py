"""Tensors that are made of sizes: of one value, counted, one-hot, triangles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast
from jfuse.lowering.from_torch.promotion import as_type, is_tensor
from jfuse.lowering.from_torch.shapes import broadcast_value
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped
from jfuse.lowering.rules import lowers_torch


@lowers_torch("aten.full", "aten.full_like", "aten.new_full")
def lower_full(like: Any, *rest: Any, dtype: DType | None = None) -> Array:
    """One value.   like: a shape, or a tensor of that shape; rest: the value, or shape and value"""
    size, value = _size_and_value(like, rest)
    scalar = as_type(value, dtype or _dtype_like(like, value))
    if isinstance(scalar, Var):
        return broadcast(shaped(scalar, (1,) * len(size)), tuple(size))
    return broadcast_value(np.asarray(scalar), size)


def _size_and_value(like: Any, rest: Sequence[Any]) -> tuple[Sequence[Dim], Any]:
    if isinstance(like, list | tuple):
        return like, rest[0]
    return (rest[0], rest[1]) if len(rest) == 2 else (tuple(like.shape), rest[0])


def _dtype_like(like: Any, value: Any) -> DType:
    if not isinstance(like, list | tuple):
        return type_of(like).dtype
    return DType.bool if isinstance(value, bool) else DType.f32 if isinstance(value, float) else DType.i64


def _of_one_value(value: int, *names: str) -> None:
    def lower(like: Any, size: Sequence[Dim] | None = None, *, dtype: DType | None = None) -> Array:
        kind = dtype or (DType.f32 if isinstance(like, list | tuple) else _dtype_like(like, value))
        shape = like if isinstance(like, list | tuple) else tuple(like.shape) if size is None else size
        return broadcast_value(np.asarray(value, kind.numpy), tuple(shape))

    lower.__doc__ = f"{value} everywhere.   like: a shape, or a tensor of that shape"
    lowers_torch(*(f"aten.{name}" for name in names))(lower)


_of_one_value(0, "zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty")
_of_one_value(1, "ones", "ones_like", "new_ones")


@lowers_torch("aten.fill")
def lower_fill(x: Array, value: Any) -> Array:
    """A value in the shape of x."""
    return lower_full(x, value)


@lowers_torch("aten.scalar_tensor")
def lower_scalar_tensor(value: Any, *, dtype: DType | None = None) -> Array:
    """A number as a tensor."""
    return as_type(value, dtype or DType.f32)


@lowers_torch("aten.arange")
def lower_arange(*bounds: Any, dtype: DType | None = None) -> Array:
    """start, start + step, …   bounds: end; or start and end; or start, end and step"""
    start, end, step = (0, bounds[0], 1) if len(bounds) == 1 else (*bounds, 1)[:3]
    if any(is_tensor(v) for v in (start, end, step)):
        raise LowerError("a range whose bounds are computed", remedy="count to a size of a tensor")
    kind = dtype or (DType.f32 if any(isinstance(v, float) for v in (start, end, step)) else DType.i64)
    if all(isinstance(v, float) or is_known(v) for v in (start, end, step)):
        return np.arange(start, end, step).astype(kind.numpy)
    if any(isinstance(v, float) and not v.is_integer() for v in (start, end, step)):
        raise LowerError("a range of an open size by fractions", remedy="count by integers, then multiply")
    start, end, step = (int(v) if isinstance(v, float) else v for v in (start, end, step))
    count = -((start - end) // step)
    numbers = as_type(counted(count, *sources()), kind)
    if step != 1:
        numbers = ops.mul(numbers, scalar(step, numbers))
    return numbers if is_known(start) and start == 0 else ops.add(numbers, as_type(start, kind))


@lowers_torch("aten.one_hot")
def lower_one_hot(x: Array, classes: int = -1) -> Array:
    """ONE_HOT, of a number of classes that is given."""
    if classes < 0:
        raise LowerError("a one-hot of as many classes as the data says", remedy="num_classes=…")
    hot = ops.one_hot(as_type(x, DType.i32), np.int32(classes), np.int32(1), np.int32(0))
    return as_type(hot, DType.i64)


@lowers_torch("aten.tril")
def lower_tril(x: Array, diagonal: int = 0) -> Array:
    """x, 0 above a diagonal."""
    return _where_column(x, lambda columns, rows: ops.less_equal(columns, rows), diagonal)


@lowers_torch("aten.triu")
def lower_triu(x: Array, diagonal: int = 0) -> Array:
    """x, 0 below a diagonal."""
    return _where_column(x, lambda columns, rows: ops.greater_equal(columns, rows), diagonal)


def _where_column(x: Array, holds: Any, diagonal: int) -> Array:
    rows = shaped(counted(x.shape[-2], x, *sources()), (x.shape[-2], 1), x, *sources())
    columns = counted(x.shape[-1], x, *sources())
    is_inside = holds(columns, ops.add(rows, np.int32(diagonal)) if diagonal else rows)
    if type_of(x).dtype is DType.bool:
        return ops.logical_and(x, is_inside)
    wide = shaped(is_inside, (*[1] * (rank(x) - 2), *is_inside.shape), x, *sources())
    return ops.select_v2(wide, x, scalar(0, x))
