"""Resizing images: RESIZE_BILINEAR and RESIZE_NEAREST_NEIGHBOR."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import TensorType
from jfuse.kernels.core.op import Array, Sizes, namespace, tfl

_F32 = np.float32  # the runtime finds places in single precision, which decides between neighbours


def _scale(size: int, new_size: int, align_corners: bool) -> np.float32:
    """How far apart two new pixels are among the old ones."""
    return _F32(size - 1) / _F32(new_size - 1) if align_corners and new_size > 1 else _F32(size) / _F32(new_size)


def _nearest(size: int, new_size: int, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    """The old pixel that each new one repeats.   i32[new_size]"""
    places = np.arange(new_size, dtype=_F32) + _F32(0.5 if half_pixel_centers else 0)
    places = places * _scale(size, new_size, align_corners)
    # In f64: the greatest f32 below 0.5 plus 0.5 would be 1.
    rounded = np.floor(places.astype(np.float64) + (0.5 if align_corners else 0))
    return np.clip(rounded.astype(np.int32), 0, size - 1)


def _between(
    size: int, new_size: int, align_corners: bool, half_pixel_centers: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The old pixels around each new one, and how far it lies behind the first.   i32, i32, f32 [new_size]"""
    places, scale = np.arange(new_size, dtype=_F32), _scale(size, new_size, align_corners)
    places = (places + _F32(0.5)) * scale - _F32(0.5) if half_pixel_centers else places * scale
    lower = np.maximum(np.floor(places).astype(np.int32), 0)
    upper = np.minimum(np.ceil(places).astype(np.int32), size - 1)
    return lower, upper, places - lower.astype(_F32)


@tfl("RESIZE_NEAREST_NEIGHBOR", sized_by_data=True, linear="first", sized_at_allocation=True)
def resize_nearest_neighbor(
    x: Array, size: Sizes, /, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """Images in another size, each new pixel a copy of an old one.

    x: any[b,h,w,c]; size: i32[2] -> any[b,*size,c]   Source: tflite/kernels/resize_nearest_neighbor.cc
    """
    xp = namespace(x)
    for axis, new_size in enumerate(size, start=1):
        x = xp.take(x, _nearest(x.shape[axis], new_size, align_corners, half_pixel_centers), axis=axis)
    return x


@tfl("RESIZE_BILINEAR", sized_by_data=True, linear="first", sized_at_allocation=True)
def resize_bilinear(
    x: Array, size: Sizes, /, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """Images in another size, each new pixel mixed from the four old ones around it.

    x: f[b,h,w,c]; size: i32[2] -> f[b,*size,c]   Source: tflite/kernels/resize_bilinear.cc
    """
    xp = namespace(x)
    for axis, new_size in enumerate(size, start=1):
        lower, upper, behind = _between(x.shape[axis], new_size, align_corners, half_pixel_centers)
        weight = behind.astype(x.dtype).reshape((-1,) + (1,) * (3 - axis))
        x = xp.take(x, lower, axis=axis) * (1 - weight) + xp.take(x, upper, axis=axis) * weight
    return x


@resize_nearest_neighbor.types
@resize_bilinear.types
def _resized_type(x: TensorType, size: Any, *, align_corners: bool, half_pixel_centers: bool) -> TensorType:
    if x.rank != 4 or len(size) != 2:
        raise TypeMismatch("a resize takes images [b,h,w,c] and two sizes", found=f"{x}, {size}")
    if align_corners and half_pixel_centers:
        raise TypeMismatch("a resize aligns corners or has half-pixel centers, not both")
    return TensorType((x.shape[0], *size, x.shape[3]), x.dtype)
