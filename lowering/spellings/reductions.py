"""Reductions by others of the same elements, and sums by ADD."""

from __future__ import annotations

import math
from functools import reduce
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import Array
from jfuse.lowering.spellings.moves import in_shape
from jfuse.lowering.spellings.registry import spelling_of


@spelling_of(ops.reduce_any)
def any_by_all(eqn: Eqn, x: Array, axes: Array) -> Array:
    """Any, as not all not."""
    return ops.logical_not(ops.reduce_all(ops.logical_not(x), axes, **eqn.params))


@spelling_of(ops.reduce_all)
def all_by_any(eqn: Eqn, x: Array, axes: Array) -> Array:
    """All, as not any not."""
    return ops.logical_not(ops.reduce_any(ops.logical_not(x), axes, **eqn.params))


@spelling_of(ops.reduce_any)
def any_by_sum(eqn: Eqn, x: Array, axes: Array) -> Array:
    """Any, as a sum of ones that is not 0. In f32 it never wraps."""
    return ops.greater(ops.sum_(ops.cast(x, out_data_type=DType.f32), axes, **eqn.params), 0.5)


@spelling_of(ops.reduce_all)
def all_by_sum(eqn: Eqn, x: Array, axes: Array) -> Array:
    """All, as no element that is not."""
    return ops.less(ops.sum_(ops.cast(ops.logical_not(x), out_data_type=DType.f32), axes, **eqn.params), 0.5)


@spelling_of(ops.reduce_min)
def min_by_max(eqn: Eqn, x: Array, axes: Array) -> Array | None:
    """The least of floats, as the largest of the negated ones."""
    return ops.neg(ops.reduce_max(ops.neg(x), axes, **eqn.params)) if x.dtype.kind == "f" else None


@spelling_of(ops.sum_)
def sum_of_halves(eqn: Eqn, x: Array, axes: Array) -> Array | None:
    """Whole numbers along axes of known sizes: one half is added to the other until one place is left."""
    out = eqn.outputs[0].type
    if out.dtype not in (DType.i32, DType.i64) or not isinstance(axes, np.ndarray) or not out.is_static:
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
    return x if eqn.params["keep_dims"] else in_shape(x, out.shape)


@spelling_of(ops.sum_, when=("integers",))
def mean_of_many(eqn: Eqn, x: Array, axes: Array) -> Array | None:
    """The mean, as often as there are elements."""
    if not isinstance(axes, np.ndarray):
        return None
    sizes = [x.shape[axis] for axis in dict.fromkeys(axes_from_front(tuple(np.ravel(axes).tolist()), len(x.shape)))]
    if not all(map(is_known, sizes)):
        return None
    return ops.mul(ops.mean(x, axes, **eqn.params), np.float32(math.prod(map(int, sizes))))
