"""Rows of lowering/ops/image/resize.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, i64

IMAGE = f32(2, 3, 4, 2)


def integers(dtype: DType, *shape: int) -> Operand:
    """Small numbers of an integer dtype."""
    return Operand(dtype, shape, 0, 100, usual=False)


def resizes(op: str, *sizes: tuple[int, int], **attributes: Any) -> tuple[Case, ...]:
    """An image made larger, smaller and unevenly."""
    return tuple(case(op, args=[IMAGE, const(size)], dynamic=i == 0, **attributes) for i, size in enumerate(sizes))


HALF: dict[str, Any] = {"half_pixel_centers": True}
CORNERS: dict[str, Any] = {"align_corners": True}
SIZES = ((6, 8), (2, 2), (5, 3), (1, 1))
NEAREST = tuple(DType(name) for name in "f16 bf16 i8 i16 i32 i64 u8 u16".split())

RESIZES = (
    *resizes("ResizeBilinear", *SIZES, (3, 4), **HALF),
    *resizes("ResizeBilinear", *SIZES, **CORNERS),
    *resizes("ResizeBilinear", *SIZES),
    *(case("ResizeBilinear", args=[integers(DType(t), 1, 2, 2, 1), const((3, 3))], **HALF) for t in ("u8", "i32")),
    case("ResizeBilinear", args=[Operand(DType.f16, (1, 2, 2, 1)), const((3, 3))], **HALF),
    *resizes("ResizeNearestNeighbor", *SIZES, (3, 4), **HALF),
    *resizes("ResizeNearestNeighbor", *SIZES, **CORNERS),
    *resizes("ResizeNearestNeighbor", *SIZES),
    *(case("ResizeNearestNeighbor", args=[integers(t, 1, 3, 2, 2), const((5, 3))], **HALF) for t in NEAREST),
    case("ResizeNearestNeighbor", args=[i64(2, 3, 2, 1), const((2, 5))], dynamic=True, **CORNERS),
    *resizes("ResizeBicubic", *SIZES, (3, 4), **HALF),
    *resizes("ResizeBicubic", *SIZES, **CORNERS),
    *resizes("ResizeBicubic", *SIZES),
    case("ResizeBicubic", args=[integers(DType.u8, 1, 4, 4, 3), const((7, 3))], **HALF),
    *resizes("ResizeArea", *SIZES, (3, 4)),
    *resizes("ResizeArea", *SIZES, **CORNERS),
    case("ResizeArea", args=[integers(DType.u8, 1, 5, 7, 3), const((2, 3))]),
)


def scaled(size: tuple[int, int], kernel: str, *, dynamic: bool = False, **attributes: Any) -> Case:
    """tf.image.resize of a 6 by 5 image with a filter."""
    ratio = np.array(size, np.float32) / np.array([6, 5], np.float32)
    args = [f32(2, 6, 5, 3), const(size), const(ratio), const(np.zeros(2, np.float32))]
    return case("ScaleAndTranslate", args=args, dynamic=dynamic, kernel_type=kernel, **attributes)


KERNELS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")
MOVED = [const(np.array([0.7, 1.3], np.float32)), const(np.array([1.5, -2.25], np.float32))]

FILTERS = (
    *(scaled((3, 2), kernel, dynamic=kernel == "triangle") for kernel in KERNELS),
    *(scaled((9, 11), kernel) for kernel in KERNELS),
    *(scaled((4, 4), kernel, antialias=False) for kernel in ("triangle", "keyscubic")),
    case("ScaleAndTranslate", args=[f32(1, 6, 5, 1), const((7, 8)), *MOVED]),
    case("ScaleAndTranslate", args=[integers(DType.u8, 1, 6, 5, 1), const((4, 6)), *MOVED], kernel_type="triangle"),
)

CASES: tuple[Case, ...] = (*RESIZES, *FILTERS)
