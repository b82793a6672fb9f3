"""Reductions by others of the same elements, and sums by ADD."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands


@instead_of("REDUCE_ANY")
def any_by_all(eqn: Eqn) -> Sequence[Any]:
    """Any, as not all not."""
    x, axes = operands(eqn)
    return (ops.logical_not(ops.reduce_all(ops.logical_not(x), axes, keep_dims=eqn.params["keep_dims"])),)


@instead_of("REDUCE_ALL")
def all_by_any(eqn: Eqn) -> Sequence[Any]:
    """All, as not any not."""
    x, axes = operands(eqn)
    return (ops.logical_not(ops.reduce_any(ops.logical_not(x), axes, keep_dims=eqn.params["keep_dims"])),)


@instead_of("REDUCE_ANY")
def any_by_sum(eqn: Eqn) -> Sequence[Any]:
    """Any, as a sum of ones that is not 0. In f32 it never wraps."""
    x, axes = operands(eqn)
    count = ops.sum_(ops.cast(x, out_data_type=DType.f32), axes, keep_dims=eqn.params["keep_dims"])
    return (ops.greater(count, 0.5),)


@instead_of("REDUCE_ALL")
def all_by_sum(eqn: Eqn) -> Sequence[Any]:
    """All, as no element that is not."""
    x, axes = operands(eqn)
    count = ops.sum_(ops.cast(ops.logical_not(x), out_data_type=DType.f32), axes, keep_dims=eqn.params["keep_dims"])
    return (ops.less(count, 0.5),)


@instead_of("REDUCE_MIN")
def min_by_max(eqn: Eqn) -> Sequence[Any] | None:
    """The least of floats, as the largest of the negated ones."""
    x, axes = operands(eqn)
    if x.dtype.kind != "f":
        return None
    return (ops.neg(ops.reduce_max(ops.neg(x), axes, keep_dims=eqn.params["keep_dims"])),)


@instead_of("SUM")
def sum_of_halves(eqn: Eqn) -> Sequence[Any] | None:
    """Whole numbers along axes of known sizes: one half is added to the other until one place is left."""
    x, axes = operands(eqn)
    (out,) = eqn.outputs
    if out.type.dtype not in (DType.i32, DType.i64) or not isinstance(axes, np.ndarray) or not out.type.is_static:
        return None
    for axis in (int(a) % len(x.shape) for a in axes.ravel()):
        if not is_known(x.shape[axis]) or not x.shape[axis]:
            return None
        left_over: list[Any] = []
        while (size := int(x.shape[axis])) > 1:
            halves = np.array([size // 2] * 2 + [1] * (size % 2), np.int32)
            one, other, *last = ops.split_v(x, halves, np.int32(axis))
            x = ops.add(one, other)
            left_over += last
        x = reduce(ops.add, left_over, x)
    return (x if eqn.params["keep_dims"] else ops.reshape(x, np.array([int(d) for d in out.type.shape], np.int32)),)
