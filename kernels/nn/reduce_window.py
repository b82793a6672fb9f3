"""Windows over any axes, of any element type: REDUCE_WINDOW and DILATE."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import lax

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import TensorType
from jfuse.kernels.core.op import Array, Static, tfl
from jfuse.kernels.nn.conv import like
from jfuse.kernels.nn.windows import extent, window_counts

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
