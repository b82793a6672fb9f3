"""Pools over images: AVERAGE_POOL_2D, L2_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, Static, tfl
from jfuse.kernels.nn.activation import activate
from jfuse.kernels.nn.conv import like
from jfuse.kernels.nn.windows import extent, window_counts


def _pooled_type(x: TensorType, **options: Any) -> TensorType:
    if x.rank != 4:
        raise TypeMismatch("an image of rank 4 is needed", found=str(x))
    window = (options["filter_height"], options["filter_width"])
    strides = (options["stride_h"], options["stride_w"])
    sizes = window_counts(x.shape[1:3], window, strides, (1, 1), options["padding"])
    return TensorType((x.shape[0], *sizes, x.shape[3]), x.dtype)


@tfl("AVERAGE_POOL_2D", linear="joint", clamps=True)
def average_pool_2d(
    x: Array,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    filter_width: int,
    filter_height: int,
    fused_activation_function: str = "NONE",
) -> Array:
    """The mean of each window, of its elements within the image.   f[b,h,w,c] -> f[b,h',w',c]

    Source: tflite/kernels/pooling.cc
    """
    mean = _mean(x, padding, (filter_height, filter_width), (stride_h, stride_w))
    return activate(like(mean, x), fused_activation_function)


@tfl("L2_POOL_2D", clamps=True)
def l2_pool_2d(
    x: Array,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    filter_width: int,
    filter_height: int,
    fused_activation_function: str = "NONE",
) -> Array:
    """The root of the mean square of each window, of its elements within the image.   f[b,h,w,c] -> f[b,h',w',c]

    Source: tflite/kernels/pooling.cc
    """
    mean = _mean(x * x, padding, (filter_height, filter_width), (stride_h, stride_w))
    return activate(like(jnp.sqrt(mean), x), fused_activation_function)


@tfl("MAX_POOL_2D", clamps=True, switch="clip")
def max_pool_2d(
    x: Array,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    filter_width: int,
    filter_height: int,
    fused_activation_function: str = "NONE",
) -> Array:
    """The largest element of each window.   number[b,h,w,c] -> number[b,h',w',c]   Source: tflite/kernels/pooling.cc"""
    dtype = DType.of(x.dtype)
    least = np.array(np.iinfo(x.dtype).min if dtype.is_integer else -np.inf, x.dtype)
    window = (1, filter_height, filter_width, 1), (1, stride_h, stride_w, 1), padding
    return activate(like(lax.reduce_window(jnp.asarray(x), least, lax.max, *window), x), fused_activation_function)


for _pool in (average_pool_2d, l2_pool_2d, max_pool_2d):
    _pool.types(_pooled_type)


def _mean(x: Array, padding: str, sizes: tuple[int, int], strides: tuple[int, int]) -> Array:
    window = (1, *sizes, 1), (1, *strides, 1), padding
    zero = np.zeros((), x.dtype)
    total = lax.reduce_window(jnp.asarray(x), zero, lax.add, *window)
    count = lax.reduce_window(jnp.ones((1, *x.shape[1:3], 1), x.dtype), zero, lax.add, *window)
    return total / count


# Windows over any axes, of any element type: REDUCE_WINDOW and DILATE.

_REDUCERS = {
    "ADD": lax.add,
    "MUL": lax.mul,
    "MINIMUM": lax.min,
    "MAXIMUM": lax.max,
    "ALL": lax.bitwise_and,
    "ANY": lax.bitwise_or,
}


@tfl("REDUCE_WINDOW", switch="clip")
def reduce_window(
    x: Array,
    init_value: Array,
    window_shape: Static,
    window_strides: Static,
    window_dilations: Static,
    /,
    *,
    reduce_function: str,
) -> Array:
    """The elements of each window that lies within x, and init_value, reduced to one.

    x: number[...] or bool[...]; init_value: the same dtype[]; the others: i64[rank].
    reduce_function: ADD, MUL, MINIMUM, MAXIMUM, ALL or ANY.   Source: tflite/kernels/reduce_window.cc
    """
    result = lax.reduce_window(
        jnp.asarray(x),
        jnp.asarray(init_value),
        _REDUCERS[reduce_function],
        window_shape,
        window_strides,
        "VALID",
        window_dilation=window_dilations,
    )
    return like(result, x, init_value)


@reduce_window.types
def _reduce_window_type(
    x: TensorType, init_value: TensorType, shape: Any, strides: Any, dilations: Any, *, reduce_function: str
) -> TensorType:
    if reduce_function not in _REDUCERS or init_value.dtype is not x.dtype:
        raise TypeMismatch(
            f"a reduction by {reduce_function} of {x}", expected=sorted(_REDUCERS), found=str(init_value)
        )
    return TensorType(window_counts(x.shape, shape, strides, dilations, "VALID"), x.dtype)


@tfl("DILATE", linear="joint")
def dilate(x: Array, dilations: Static, padding_value: Array, /) -> Array:
    """x with `padding_value` between its elements, which stand `dilations` apart along each axis.

    x: number[...]; dilations: i32[rank]; padding_value: the same dtype[]   Source: tflite/kernels/dilate.cc
    """
    result = lax.pad(jnp.asarray(x), jnp.asarray(padding_value), [(0, 0, d - 1) for d in dilations])
    return like(result, x, padding_value)


@dilate.types
def _dilate_type(x: TensorType, dilations: Any, padding_value: TensorType) -> TensorType:
    return TensorType(tuple(extent(d, f) for d, f in zip(x.shape, dilations, strict=True)), x.dtype)
