"""Reductions, places of extremes, running sums, sorting."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.reductions import lower_sort as sorted_by_key
from jfuse.lowering.from_jax.reductions import lower_top_k as greatest
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import from_front, lower_slice_, lower_squeeze, lower_view
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype as dtype_of
from jfuse.lowering.rule_tools.query import rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_torch

Axes = int | Sequence[int] | None


def axes_of(x: Array, dim: Axes) -> np.ndarray:
    """Axes from the front, all of them where none is named."""
    named = range(rank(x)) if dim is None or dim == [] else [dim] if isinstance(dim, int) else dim
    return np.asarray(sorted(from_front(d, x) for d in named), np.int32)


def reduced(name: str, x: Array, dim: Axes, keepdim: bool) -> Array:
    """TensorFlow's reduction of a name."""
    return x if rank(x) == 0 else DEFAULT.lowers[name](x, axes_of(x, dim), keep_dims=keepdim)


def _sum_type(x: Array, dtype: DType | None) -> DType:
    return dtype or (dtype_of(x) if dtype_of(x).is_float or dtype_of(x) is DType.c64 else DType.i64)


@lowers_torch("aten.sum")
def lower_sum(x: Array, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """SUM, of integers and bools as i64."""
    return reduced("Sum", as_type(x, _sum_type(x, dtype)), dim, keepdim)


@lowers_torch("aten.mean")
def lower_mean(x: Array, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """MEAN"""
    return reduced("Mean", x if dtype is None else as_type(x, dtype), dim, keepdim)


@lowers_torch("aten.prod")
def lower_prod(x: Array, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None) -> Array:
    """REDUCE_PROD, of integers and bools as i64."""
    return reduced("Prod", as_type(x, _sum_type(x, dtype)), dim, keepdim)


def _plain(name: str, tensorflow: str, of_bools: bool = False) -> None:
    def lower(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
        return reduced(tensorflow, as_type(x, DType.bool) if of_bools else x, dim, keepdim)

    lower.__doc__ = f"As TensorFlow's {tensorflow}."
    lowers_torch(f"aten.{name}")(lower)


_plain("amax", "Max")
_plain("amin", "Min")
_plain("any", "Any", True)
_plain("all", "All", True)


def _extreme(name: str, tensorflow: str, place: str) -> None:
    def lower(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
        if dim is None:
            return reduced(tensorflow, x, None, False)
        return reduced(tensorflow, x, dim, keepdim), _place(place, x, dim, keepdim)

    def lower_pair(x: Array, y: Array) -> Array:
        return DEFAULT.lowers["Maximum" if tensorflow == "Max" else "Minimum"](x, y)

    lower.__doc__ = f"As TensorFlow's {tensorflow}; over one axis with the places."
    lower_pair.__doc__ = f"The {name} of two tensors, element by element."
    lowers_torch(f"aten.{name}")(lower)
    lowers_torch(f"aten.{name}.other")(lower_pair)


_extreme("max", "Max", "ArgMax")
_extreme("min", "Min", "ArgMin")


def _place(name: str, x: Array, dim: int, keepdim: bool) -> Array:
    axis = from_front(dim, x)
    place = DEFAULT.lowers[name](x, np.int32(axis), output_type=DType.i64)
    return shaped(place, (*x.shape[:axis], 1, *x.shape[axis + 1 :]), x, *sources()) if keepdim else place


def _place_alone(name: str, tensorflow: str) -> None:
    def lower(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
        return _place(tensorflow, *((lower_view(x, [-1]), 0, False) if dim is None else (x, dim, keepdim)))

    lower.__doc__ = f"As TensorFlow's {tensorflow}; of all elements where no axis is named."
    lowers_torch(f"aten.{name}")(lower)


_place_alone("argmax", "ArgMax")
_place_alone("argmin", "ArgMin")


@lowers_torch("aten.var")
def lower_var(x: Array, dim: Any = None, *rest: Any, correction: float | None = 1, keepdim: bool = False) -> Array:
    """The mean of squared differences from the mean, divided by the count less a correction."""
    if isinstance(dim, bool):  # the old forms: unbiased; dim, unbiased, keepdim
        dim, correction = None, int(dim)
    if rest:
        correction, keepdim = int(rest[0]), bool(rest[1]) if len(rest) > 1 else keepdim
    axes = axes_of(x, dim)
    differences = ops.squared_difference(x, ops.mean(x, axes, keep_dims=True))
    variance = ops.mean(differences, axes, keep_dims=keepdim)
    taken = 1 if correction is None else correction
    if not taken:
        return variance
    count: Any = 1
    for axis in axes:
        count = count * x.shape[int(axis)]
    if isinstance(count, int):
        return ops.mul(variance, scalar(count / (count - taken) if count != taken else np.nan, x))
    total = as_type(size_tensor(count, [x, *sources()]), dtype_of(x))
    return ops.mul(variance, ops.div(total, ops.sub(total, scalar(taken, x))))


@lowers_torch("aten.std")
def lower_std(x: Array, dim: Any = None, *rest: Any, correction: float | None = 1, keepdim: bool = False) -> Array:
    """The square root of `var`."""
    return ops.sqrt(lower_var(x, dim, *rest, correction=correction, keepdim=keepdim))


@lowers_torch("aten.var_mean")
def lower_var_mean(x: Array, dim: Any = None, *rest: Any, correction: float | None = 1, keepdim: bool = False) -> Any:
    """`var` and the mean."""
    keeps_axes = keepdim or (len(rest) > 1 and bool(rest[1]))
    variance = lower_var(x, dim, *rest, correction=correction, keepdim=keepdim)
    return variance, reduced("Mean", x, None if isinstance(dim, bool) else dim, keeps_axes)


@lowers_torch("aten.logsumexp")
def lower_logsumexp(x: Array, dim: Axes, keepdim: bool = False) -> Array:
    """The logarithm of the sum of exponentials."""
    axes = axes_of(x, dim)
    most = ops.reduce_max(x, axes, keep_dims=True)
    total = ops.log(ops.sum_(ops.exp(ops.sub(x, most)), axes, keep_dims=keepdim))
    return ops.add(total, most if keepdim else reduced("Max", x, dim, False))


@lowers_torch("aten.norm", "aten.linalg_vector_norm")
def lower_norm(
    x: Array, order: Any = 2, dim: Axes = None, keepdim: bool = False, *, dtype: DType | None = None
) -> Array:
    """The norm of vectors: the largest size, the sum of sizes, the root of the sum of squares, or of other powers."""
    x, order = (x if dtype is None else as_type(x, dtype)), 2 if order is None else order
    if order == 2:
        return ops.sqrt(reduced("Sum", ops.mul(x, x), dim, keepdim))
    size = ops.abs_(x)
    if order in (np.inf, -np.inf):
        return reduced("Max" if order > 0 else "Min", size, dim, keepdim)
    if order == 1:
        return reduced("Sum", size, dim, keepdim)
    if order == 0:
        return reduced("Sum", as_type(ops.not_equal(x, scalar(0, x)), dtype_of(x)), dim, keepdim)
    total = reduced("Sum", ops.pow_(size, scalar(order, x)), dim, keepdim)
    return ops.pow_(total, scalar(1 / order, x))


def _so_far(name: str, tensorflow: str) -> None:
    def lower(x: Array, dim: int, *, dtype: DType | None = None) -> Array:
        return DEFAULT.lowers[tensorflow](as_type(x, _sum_type(x, dtype)), np.int32(from_front(dim, x)))

    lower.__doc__ = f"As TensorFlow's {tensorflow}, of integers and bools as i64."
    lowers_torch(f"aten.{name}")(lower)


_so_far("cumsum", "Cumsum")
_so_far("cumprod", "Cumprod")


@lowers_torch("aten.topk")
def lower_topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002
    """The k greatest elements along an axis, or the smallest, and their places."""
    key = x if largest else ops.neg(x)
    values, places = greatest(key, k=k, axis=from_front(dim, x))
    return values if largest else ops.neg(values), as_type(places, DType.i64)


@lowers_torch("aten.sort")
def lower_sort(x: Array, dim: int = -1, descending: bool = False, *, stable: bool | None = None) -> Any:
    """Elements in order along an axis, and their places; equal ones keep their order."""
    axis = from_front(dim, x)
    if descending:
        values, places = greatest(x, k=x.shape[axis], axis=axis)
        return values, as_type(places, DType.i64)
    row = shaped(counted(x.shape[axis], x, *sources()), tuple(-1 if i == axis else 1 for i in range(rank(x))))
    numbers = ops.add(row, ops.zeros_like(x) if dtype_of(x) is DType.i32 else _zeros(x))
    values, places = sorted_by_key(x, numbers, dimension=axis, num_keys=1)
    return values, as_type(places, DType.i64)


def _zeros(x: Array) -> Array:
    return as_type(ops.zeros_like(x), DType.i32)


@lowers_torch("aten.argsort")
def lower_argsort(x: Array, dim: int = -1, descending: bool = False) -> Array:
    """The places of elements in order."""
    order: Array = lower_sort(x, dim, descending)[1]
    return order


@lowers_torch("aten.median", "aten.nanmedian")
def lower_median(x: Array, dim: int | None = None, keepdim: bool = False) -> Any:
    """The middle element in order along an axis, the lower one of two, and its place; of all elements without one."""
    if dim is None:
        return lower_median(lower_view(x, [-1]), 0)[0]
    axis = from_front(dim, x)
    middle = (x.shape[axis] - 1) // 2
    middles = [lower_slice_(part, axis, middle, middle + 1) for part in lower_sort(x, axis)]
    return tuple(middles if keepdim else (lower_squeeze(part, axis) for part in middles))


def _running(name: str, primitive: str) -> None:
    def lower(x: Array, dim: int) -> Any:
        axis = from_front(dim, x)
        values = DEFAULT.lowers_jax[primitive](x, axis=axis, reverse=False)
        row = shaped(counted(x.shape[axis], x, *sources()), tuple(-1 if i == axis else 1 for i in range(rank(x))))
        latest = ops.select_v2(ops.equal(x, values), ops.add(row, _zeros(x)), np.int32(0))
        return values, as_type(DEFAULT.lowers_jax["cummax"](latest, axis=axis, reverse=False), DType.i64)

    lower.__doc__ = f"As jax's {primitive}, and where the element stands that is so: the last of equal ones."
    lowers_torch(f"aten.{name}")(lower)


_running("cummax", "cummax")
_running("cummin", "cummin")
