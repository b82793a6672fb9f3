"""Reductions along static axes, positions of extremes, and running sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import max_dim, min_dim

from jfuse.base.errors import TypeMismatch
from jfuse.ir.graph import Atom
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed, from_front, with_dim
from jfuse.kernels.core.op import Array, Axes, Segments, Static, TflOp, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size, sizes_in_any_order
from jfuse.kernels.math.elementwise import truncated_quotient


def reduction(
    builtin: str,
    function: str,
    text: str,
    *,
    on_shapes: bool = False,
    linear: str | None = None,
    keeps_dtype: bool = False,
) -> TflOp:
    """Declare a reduction: the function of that name in NumPy and jax.numpy.

    keeps_dtype: pass the dtype, as the function would widen small integers.
    """

    def body(x: Array, axes: Axes, /, *, keep_dims: bool = False) -> Array:
        dtype = {"dtype": x.dtype} if keeps_dtype else {}
        return getattr(namespace(x), function)(x, axis=axis_tuple(axes), keepdims=keep_dims, **dtype)

    body.__doc__ = f"{text} along axes; none for no axes.   x: any[...] -> any[...]   Source: tflite/kernels/reduce.cc"
    op = tfl(builtin, on_shapes=on_shapes, linear=linear)(body)
    op.types_by_data(_reduced_by_data)
    return op


def _reduced_by_data(x: Atom, axes: Atom, *, keep_dims: bool) -> TensorType:
    """Along as many axes as there are, which differ."""
    if not axes.type.is_static:
        raise TypeMismatch("a reduction along a number of axes that is open has no rank", found=str(axes.type))
    if keep_dims:
        return TensorType(tuple(fresh_size() for _ in x.type.shape), x.type.dtype)
    gone = int(np.prod([int(d) for d in axes.type.shape]))
    return TensorType(sizes_in_any_order(x.type.rank - gone, x.type.shape), x.type.dtype)


def axis_tuple(axes: Any) -> tuple[int, ...]:
    """Axes from an operand that is a scalar or a vector. An axis may be named twice."""
    return tuple(dict.fromkeys(axes)) if isinstance(axes, tuple) else (axes,)


@tfl("MEAN", linear="joint")
def mean(x: Array, axes: Axes, /, *, keep_dims: bool = False) -> Array:
    """The mean along axes, of integers rounded toward zero.   x: number[...] -> number[...]

    Source: tflite/kernels/reduce.cc
    """
    xp = namespace(x)
    axis = axis_tuple(axes)
    if not DType.of(x.dtype).is_integer:
        return xp.mean(x, axis=axis, keepdims=keep_dims, dtype=x.dtype)
    total, count = (xp.sum(v, axis=axis, keepdims=keep_dims, dtype=x.dtype) for v in (x, xp.ones_like(x)))
    return truncated_quotient(total, count)


mean.types_by_data(_reduced_by_data)


sum_ = reduction("SUM", "sum", "The sum", on_shapes=True, linear="joint", keeps_dtype=True)
reduce_prod = reduction("REDUCE_PROD", "prod", "The product", on_shapes=True, keeps_dtype=True)


def _extreme(builtin: str, of_sizes: Callable[[Any, Any], Any], text: str) -> TflOp:
    """Declare the greatest or smallest along axes; of sizes an expression where the run time decides."""
    function = builtin.removeprefix("REDUCE_").lower()
    of_two = np.frompyfunc(of_sizes, 2, 1)

    def body(x: Array, axes: Axes, /, *, keep_dims: bool = False) -> Array:
        if x.dtype == object:
            return np.asarray(of_two.reduce(x, axis=axis_tuple(axes), keepdims=keep_dims), object)
        # With a first value the axes may have any size: N - 1 is not known to be 1 or more.
        least, greatest = _ends(x.dtype)
        first = least if function == "max" else greatest
        return getattr(namespace(x), function)(x, axis=axis_tuple(axes), keepdims=keep_dims, initial=first)

    body.__doc__ = (
        f"{text} along axes; none for no axes.   x: number[...] -> number[...]   Source: tflite/kernels/reduce.cc"
    )
    op = tfl(builtin, on_shapes=True, switch="clip")(body)
    op.types_by_data(_reduced_by_data)
    return op


def _ends(dtype: Any) -> tuple[Any, Any]:
    """The least and the greatest number of a type."""
    if DType.of(dtype).is_float:
        return np.asarray(-np.inf, dtype)[()], np.asarray(np.inf, dtype)[()]
    least, greatest = (np.asarray(end, dtype)[()] for end in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    return least, greatest


reduce_max = _extreme("REDUCE_MAX", max_dim, "The greatest element")
reduce_min = _extreme("REDUCE_MIN", min_dim, "The smallest element")


reduce_any = reduction("REDUCE_ANY", "any", "Whether an element is true")
reduce_all = reduction("REDUCE_ALL", "all", "Whether all elements are true")


@tfl("ARG_MAX", switch="compare")
def arg_max(x: Array, axis: Axes, /, *, output_type: DType = DType.i64) -> Array:
    """The first position of the greatest element.   x: number[...], axis: one -> i32|i64, without the axis

    Source: tflite/kernels/arg_min_max.cc
    """
    return namespace(x).argmax(x, axis=axis_tuple(axis)[0]).astype(output_type.numpy)


@tfl("ARG_MIN", switch="compare")
def arg_min(x: Array, axis: Axes, /, *, output_type: DType = DType.i64) -> Array:
    """The first position of the smallest element.   x: number[...], axis: one -> i32|i64, without the axis

    Source: tflite/kernels/arg_min_max.cc
    """
    return namespace(x).argmin(x, axis=axis_tuple(axis)[0]).astype(output_type.numpy)


@arg_max.types
@arg_min.types
def _without_axis(x: TensorType, axis: Any, *, output_type: DType) -> TensorType:
    """Said without jax, which wants to know that there is an element."""
    return TensorType(with_dim(x.shape, from_front(axis_tuple(axis)[0], x.rank)), output_type)


@arg_max.types_by_data
@arg_min.types_by_data
def _without_some_axis(x: Atom, axis: Atom, *, output_type: DType) -> TensorType:
    return TensorType(sizes_in_any_order(x.type.rank - 1, x.type.shape), output_type)


REDUCTIONS = (sum_, mean, reduce_prod, reduce_max, reduce_min, reduce_any, reduce_all, arg_max, arg_min)
"""The ops that give one number for all along the axes in operand 1."""


@tfl("CUMSUM", linear="joint")
def cumsum(x: Array, axis: Axes, /, *, exclusive: bool = False, reverse: bool = False) -> Array:
    """Running sums along an axis; exclusive leaves the own element out, reverse runs from the end.

    x: number[...], axis: one -> the type of x   Source: tflite/kernels/cumsum.cc
    """
    xp = namespace(x)
    (along,) = axis_tuple(axis)
    ordered = xp.flip(x, along) if reverse else x
    sums = xp.cumsum(ordered, axis=along, dtype=x.dtype)
    if exclusive:
        before, last = (_part(ordered, along, slice(0, 1)), _part(sums, along, slice(0, -1)))
        sums = xp.concatenate([xp.zeros_like(before), last], axis=along)
    return xp.flip(sums, along) if reverse else sums


@cumsum.types_by_data
def _along_some_axis(x: Atom, axis: Atom, **options: bool) -> TensorType:
    return x.type


def _part(x: Array, axis: int, part: slice) -> Array:
    return x[(slice(None),) * (axis % x.ndim) + (part,)]


# Rows of a tensor gathered into segments: their sums, products and extremes.

_limits: Callable[[Any], Any] = jnp.finfo  # of bfloat16 too, which NumPy does not know
_NOWHERE = np.iinfo(np.int32).max  # beyond every segment


def lowest(dtype: Any) -> Any:
    """The smallest finite number of a dtype."""
    return _limits(dtype).min if DType.of(dtype).is_float else np.iinfo(dtype).min


def highest(dtype: Any) -> Any:
    """The largest finite number of a dtype."""
    return _limits(dtype).max if DType.of(dtype).is_float else np.iinfo(dtype).max


@tfl("SEGMENT_SUM", traceable=False)
def segment_sum(data: Array, segment_ids: Array, /) -> Array:
    """The sum of the rows of data that share a segment; segments start at 0 and leave none out.

    data: n[rows, ...]; segment_ids: i32[rows], in ascending order   Source: tflite/kernels/segment_sum.cc
    """
    ids = np.asarray(segment_ids)
    steps = np.diff(ids, prepend=-1)
    if ids.size and (steps[0] != 1 or not np.isin(steps, (0, 1)).all()):
        raise TypeMismatch("segments that leave one out, or do not ascend", found=ids.tolist()[:8])
    result = np.zeros((int(ids[-1]) + 1 if ids.size else 0, *data.shape[1:]), data.dtype)
    np.add.at(result, ids, np.asarray(data))
    return result


@segment_sum.types
def _segment_sum_type(data: TensorType, segment_ids: TensorType) -> TensorType:
    agreed(data.shape[0], segment_ids.shape[0])
    return TensorType((fresh_size(), *data.shape[1:]), data.dtype)


def unsorted_segments(
    builtin: str, function: str, method: str, empty: Callable[[Any], Any], text: str, *, linear: str | None = None
) -> TflOp:
    """Declare a reduction of segments.

    function, method: of NumPy's ufuncs and of jax's indexed updates. empty: what an empty segment becomes, of a dtype.
    """

    def body(data: Array, segment_ids: Segments, num_segments: Static, /) -> Array:
        shape = (_count(num_segments), *data.shape[1:])
        if namespace(data, segment_ids) is np:
            result = np.full(shape, empty(data.dtype), data.dtype)
            is_segment = segment_ids >= 0
            getattr(np, function).at(result, segment_ids[is_segment], data[is_segment])
            return result
        start = jnp.full(shape, empty(data.dtype), data.dtype)
        places = jnp.where(segment_ids < 0, _NOWHERE, segment_ids)
        return getattr(start.at[places], method)(data, mode="drop")

    body.__doc__ = f"""{text} of the rows of data that share a segment; rows of negative segments are left out.

    data: n[rows, ...]; segment_ids: i32[rows], each less than num_segments: i32[] or i32[1].
    Source: tflite/kernels/unsorted_segment.cc
    """
    op = tfl(builtin, linear=linear, sized_by_data=True)(body)

    def types(data: TensorType, segment_ids: TensorType, num_segments: Any) -> TensorType:
        agreed(data.shape[0], segment_ids.shape[0])
        return TensorType((_count(num_segments), *data.shape[1:]), data.dtype)

    op.types(types)
    return op


def _count(num_segments: Any) -> Any:
    return num_segments[0] if isinstance(num_segments, tuple) else num_segments


unsorted_segment_sum = unsorted_segments("UNSORTED_SEGMENT_SUM", "add", "add", lambda _: 0, "The sum", linear="first")
unsorted_segment_prod = unsorted_segments("UNSORTED_SEGMENT_PROD", "multiply", "multiply", lambda _: 1, "The product")
unsorted_segment_max = unsorted_segments("UNSORTED_SEGMENT_MAX", "maximum", "max", lowest, "The greatest")
unsorted_segment_min = unsorted_segments("UNSORTED_SEGMENT_MIN", "minimum", "min", highest, "The smallest")
