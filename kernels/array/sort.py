"""Ops that order or tell apart elements: the greatest ones, distinct ones, buckets."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, Static, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size


@tfl("TOPK_V2", sized_by_data=True, switch="select", chooses=True, entries=("x",))
def topk_v2(x: Array, k: Static, /) -> tuple[Array, Array]:
    """The k largest elements along the last dimension, largest first, and their places; of equals the first one.

    x: n[..., size]; k: i32[]; results: n[..., k], i32[..., k]   Source: tflite/kernels/topk_v2.cc
    """
    values, places = jax.lax.top_k(x, k)
    return values, places.astype(np.int32)


@topk_v2.types
def _topk_v2_type(x: TensorType, k: Any) -> tuple[TensorType, TensorType]:
    shape = (*x.shape[:-1], k)
    return TensorType(shape, x.dtype), TensorType(shape, DType.i32)


@tfl("UNIQUE", traceable=False, chooses=True)
def unique(x: Array, /, *, idx_out_type: DType = DType.i32) -> tuple[Array, Array]:
    """The distinct elements in the order in which they come, and which of them each element is.

    x: n[size] -> n[count], i32|i64[size]   Source: tflite/kernels/unique.cc
    """
    _, first, inverse = np.unique(np.asarray(x), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.asarray(x)[first[order]], np.argsort(order)[inverse.reshape(-1)].astype(idx_out_type.numpy)


@unique.types
def _unique_type(x: TensorType, *, idx_out_type: DType) -> tuple[TensorType, TensorType]:
    return TensorType((fresh_size(),), x.dtype), TensorType(x.shape, idx_out_type)


@tfl("BUCKETIZE", elementwise=True, switch="compare")
def bucketize(x: Array, /, *, boundaries: tuple[float, ...]) -> Array:
    """How many of the boundaries, which ascend, are not greater than the element.

    x: f32|f64|i32|i64[...] -> i32[...]. Integers are compared as floats.   Source: tflite/kernels/bucketize.cc
    """
    xp = namespace(x)
    limits = np.asarray(boundaries, np.float32)
    numbers = x if DType.of(x.dtype).is_float else x.astype(np.float32)
    wide = xp.promote_types(numbers.dtype, np.float32)
    return xp.searchsorted(xp.asarray(limits.astype(wide)), numbers.astype(wide), side="right").astype(np.int32)
