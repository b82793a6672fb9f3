"""RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.image.resize import resize_bilinear
from jfuse.kernels.integer.same_scale import takes_same_scale
from jfuse.kernels.integer.tables import is_of_bytes

_F32 = np.float32


def _takes(types: IntegerTypes, options: Params) -> bool:
    return is_of_bytes(types) and takes_same_scale(types, options) and 1 in types.constants


@resize_bilinear.quantized(_takes)
def _resize_bilinear(
    types: IntegerTypes, x: Array, size: Any, /, *, align_corners: bool, half_pixel_centers: bool
) -> Array:
    x = jnp.asarray(x).astype(np.int32)
    sizes = zip(x.shape[1:3], size, strict=True)
    if types.on_default_path:
        return _mixed_by_xnnpack(x, [_between(*n, align_corners, half_pixel_centers) for n in sizes])
    return _mixed(x, [_in_steps(*n, align_corners, half_pixel_centers) for n in sizes])


def _mixed_by_xnnpack(x: Array, places: Any) -> Array:
    """Weights of 11 bits.   Source: XNNPACK/src/s8-ibilinear/s8-ibilinear-scalar.c.in"""
    (upper, lower, down), (left, right, along) = places
    along = along[:, None]

    def row(at: np.ndarray) -> Array:
        line = jnp.take(x, at, axis=1)
        first, second = (jnp.take(line, n, axis=2) for n in (left, right))
        return (first << 11) + (second - first) * along

    top, bottom = row(upper), row(lower)
    total = (top << 11) + (bottom - top) * down[:, None, None]
    return ((total + (1 << 21)) >> 22).astype(np.int8)


def _between(
    size: int, new_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The pixels around each new one, and how far it lies behind the first, in 2^-11.   i32[new_size] each

    Source: XNNPACK/src/indirection.c, xnn_indirection_init_resize_bilinear2d_hwc_q11
    """
    apart = int(align_corners and new_size != 1)
    scale = _F32(size - apart) / _F32(new_size - apart)
    places = np.arange(new_size).astype(_F32)
    if half_pixel_centers:
        shifted = places.astype(np.float64) * scale + (_F32(0.5) * scale - _F32(0.5))
        places = np.clip(shifted.astype(_F32), _F32(0), _F32(size - 1))
    else:
        places = places * scale
    first = np.minimum(places.astype(np.int32), size - 1)
    behind = np.rint((places - first.astype(_F32)) * _F32(2048)).astype(np.int32)
    return first, np.minimum(first + 1, size - 1), behind


def _mixed(x: Array, places: Any) -> Array:
    """Weights of 10 bits, halves away from zero.   Source: tflite/kernels/internal/reference/resize_bilinear.h"""
    total: Array = 0
    (upper, lower, down), (left, right, along) = places
    for at_y, weight_y in ((upper, 1024 - down), (lower, down)):
        for at_x, weight_x in ((left, 1024 - along), (right, along)):
            pixels = jnp.take(jnp.take(x, at_y, axis=1), at_x, axis=2).astype(np.int64)
            total = total + pixels * (weight_y[:, None, None] * weight_x[:, None])
    half = jnp.where(total > 0, 1 << 19, -(1 << 19))
    size = total + half
    return (jnp.sign(size) * (jnp.abs(size) >> 20)).astype(np.int8)


def _in_steps(
    size: int, new_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """As `_between`, in 2^-10.

    Source: tflite/kernels/internal/reference/resize_bilinear.h, ComputeInterpolationValues
    """
    scale = ((1 << 10) * size + new_size // 2) // new_size
    if align_corners and new_size > 1:
        scale = ((1 << 10) * (size - 1) + (new_size - 1) // 2) // (new_size - 1)
    places = np.arange(new_size) * scale
    if half_pixel_centers:
        places = places + scale // 2 - (1 << 9)
    whole = np.sign(places) * (np.abs(places) // 1024)
    first = np.maximum(whole, 0)
    second = np.minimum(-(-places // 1024), size - 1)
    return first, second, places - 1024 * first
