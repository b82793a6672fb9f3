"""Reductions, positions of extremes, running reductions, sorting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import as_dtype, lower_slice
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_jax

_REDUCTIONS = {
    "reduce_sum": "Sum",
    "reduce_max": "Max",
    "reduce_min": "Min",
    "reduce_prod": "Prod",
    "reduce_and": "All",
    "reduce_or": "Any",
}


def _reduction(primitive: str, tensorflow: str) -> None:
    def lower(x: Array, *, axes: Sequence[int]) -> Array:
        return DEFAULT.lowers[tensorflow](x, np.array(axes, np.int32)) if axes else x

    lower.__doc__ = f"As TensorFlow's {tensorflow}."
    lowers_jax(primitive)(lower)


for _primitive, _tensorflow in _REDUCTIONS.items():
    _reduction(_primitive, _tensorflow)


def _place(primitive: str, tensorflow: str) -> None:
    def lower(x: Array, *, axes: Sequence[int], index_dtype: Any) -> Array:
        index = DEFAULT.lowers[tensorflow](x, np.int32(axes[0]), output_type=DType.i32)
        return as_dtype(index, DType.of(np.dtype(index_dtype)))

    lower.__doc__ = f"As TensorFlow's {tensorflow}, along the one axis."
    lowers_jax(primitive)(lower)


_place("argmax", "ArgMax")
_place("argmin", "ArgMin")


def _so_far(primitive: str, tensorflow: str) -> None:
    def lower(x: Array, *, axis: int, reverse: bool) -> Array:
        return DEFAULT.lowers[tensorflow](x, np.int32(axis), reverse=reverse)

    lower.__doc__ = f"As TensorFlow's {tensorflow}."
    lowers_jax(primitive)(lower)


for _primitive, _tensorflow in {
    "cumsum": "Cumsum",
    "cumprod": "Cumprod",
    "cumlogsumexp": "CumulativeLogsumexp",
}.items():
    _so_far(_primitive, _tensorflow)


@lowers_jax("cummax")
def lower_cummax(x: Array, *, axis: int, reverse: bool) -> Array:
    """The greatest element so far."""
    return _running(ops.maximum, x, axis, reverse)


@lowers_jax("cummin")
def lower_cummin(x: Array, *, axis: int, reverse: bool) -> Array:
    """The smallest element so far."""
    return _running(ops.minimum, x, axis, reverse)


def _running(combine: Callable[[Array, Array], Array], x: Array, axis: int, reverse: bool) -> Array:
    """Each element combined with those before it, in steps of 1, 2, 4, …: log2(n) operators."""
    size = x.shape[axis]
    if not is_known(size):
        raise LowerError(
            "a running extreme over an open size", found=str(type_of(x)), remedy="fix the size of the axis"
        )
    step = 1
    while step < int(size):
        joined = combine(_part(x, axis, step, size), _part(x, axis, 0, size - step))
        unchanged = _part(x, axis, size - step, size) if reverse else _part(x, axis, 0, step)
        x = ops.concatenation(*((joined, unchanged) if reverse else (unchanged, joined)), axis=axis)
        step *= 2
    return x


def _part(x: Array, axis: int, begin: int, end: int) -> Array:
    """The elements from `begin` to `end` along an axis."""
    starts = [begin if i == axis else 0 for i in range(rank(x))]
    limits = [end if i == axis else d for i, d in enumerate(x.shape)]
    return lower_slice(x, start_indices=starts, limit_indices=limits, strides=None)


@lowers_jax("top_k")
def lower_top_k(x: Array, *, k: int, axis: int = -1) -> Any:
    """The k greatest elements along an axis and their places."""
    last = rank(x) - 1
    axis = axis % rank(x)
    order = [i for i in range(rank(x)) if i != axis] + [axis]
    count = size_tensor(k, [x, *sources()])
    values, places = ops.topk_v2(x if axis == last else ops.transpose(x, tuple(order)), count)
    if axis == last:
        return values, places
    back = tuple(int(i) for i in np.argsort(order))
    return ops.transpose(values, back), ops.transpose(places, back)


@lowers_jax("approx_top_k")
def lower_approx_top_k(
    x: Array,
    *,
    k: int,
    reduction_dimension: int,
    is_max_k: bool,
    recall_target: float = 1.0,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
) -> Any:
    """The k greatest or least elements along an axis and their places: all of them, where jax may miss some."""
    if is_max_k:
        return lower_top_k(x, k=k, axis=reduction_dimension)
    values, places = lower_top_k(_reversed_order(x), k=k, axis=reduction_dimension)
    return _reversed_order(values), places


@lowers_jax("sort")
def lower_sort(*operands: Array, dimension: int, num_keys: int) -> Any:
    """The operands in ascending order of the first num_keys, the first key counting most.

    TOPK_V2 of the negation takes equal elements in order: the least key is sorted by first.
    """
    count = rank(operands[0])
    order = [i for i in range(count) if i != dimension] + [dimension]
    is_last = order == list(range(count))
    rows = [o if is_last else ops.transpose(o, tuple(order)) for o in operands]
    size = size_tensor(rows[0].shape[-1], [rows[0], *sources()])
    places: Array | None = None
    for key in reversed(rows[:num_keys]):
        descending, chosen = ops.topk_v2(_reversed_order(key if places is None else _taken(key, places)), size)
        places = chosen if places is None else _taken(places, chosen)
    is_flag = dtype(rows[0]) is DType.bool
    ordered = [ops.less(descending, np.int32(0)) if is_flag else _reversed_order(descending)]
    ordered += [_taken(o, places) for o in rows[1:]]
    if not is_last:
        back = tuple(int(i) for i in np.argsort(order))
        ordered = [ops.transpose(f, back) for f in ordered]
    return tuple(ordered) if len(operands) > 1 else ordered[0]


def _taken(x: Array, places: Array) -> Array:
    """The elements at places along the last axis, row by row."""
    return ops.gather(x, places, axis=rank(x) - 1, batch_dims=rank(x) - 1)


def _reversed_order(x: Array) -> Array:
    """A number for each element, greater where the element is smaller."""
    if dtype(x) is DType.bool:
        return ops.neg(ops.cast(x, out_data_type=DType.i32))
    if dtype(x).is_integer:
        return ops.sub(~scalar(0, x), x)  # all bits set: -1, or the largest of unsigned ones
    return ops.neg(x)
