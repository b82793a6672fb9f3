"""Rows of lowering/ops/image/resize.py, colour.py, patches.py and crops.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, i64, weights

IMAGE = f32(2, 3, 4, 2)
COLOURS = f32(2, 2, 5, 3, low=0, high=1)
# Grey, black, white, pure and mixed colours, and two equal channels of each pair.
PIXELS = [
    *([0.5, 0.5, 0.5], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.2, 0.7], [0.7, 0.2, 0.2]),
    *([0.2, 0.7, 0.2], [0.7, 0.7, 0.1], [0.1, 0.7, 0.7], [0.7, 0.1, 0.7], [0.3, 0.9, 0.6], [0.9, 0.3, 0.5]),
]


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

COLOUR = (
    case("RGBToHSV", args=[COLOURS], dynamic=True),
    case("RGBToHSV", args=[given(PIXELS)]),
    # 4e-3: each of a dozen steps rounds to 11 bits, in TensorFlow all of them at once.
    case("RGBToHSV", args=[given(PIXELS[:3], DType.f16)], tolerance=4e-3),
    case("HSVToRGB", args=[given(PIXELS[-3:], DType.f16)], tolerance=4e-3),
    case("HSVToRGB", args=[COLOURS], dynamic=True),
    case("HSVToRGB", args=[given([[h, s, v] for h in (0, 0.25, 0.5, 0.9, 1) for s in (0, 0.4, 1) for v in (0, 0.7)])]),
    # 4e-6: hue goes round by way of sixths of the circle, up to 6.
    *(case("AdjustHue", args=[COLOURS, const(np.float32(d))], dynamic=True, tolerance=4e-6) for d in (0.3, -0.9)),
    case("AdjustHue", args=[given([PIXELS]), f32(low=-1, high=1)], tolerance=4e-6),
    *(case("AdjustSaturation", args=[COLOURS, const(np.float32(s))], dynamic=True) for s in (0.4, 0, 3)),
    case("AdjustSaturation", args=[given([PIXELS]), f32(low=0, high=2)]),
    case("AdjustContrastv2", args=[IMAGE, const(np.float32(1.7))], dynamic=True),
    case("AdjustContrastv2", args=[f32(3, 4, 3), f32()]),
)


def patches(images: Operand, size: int, stride: int, rate: int, padding: str, *, dynamic: bool = False) -> Case:
    """Square windows."""
    sizes: dict[str, Any] = {
        "ksizes": [1, size, size, 1],
        "strides": [1, stride, stride, 1],
        "rates": [1, rate, rate, 1],
    }
    return case("ExtractImagePatches", args=[images], dynamic=dynamic, padding=padding, **sizes)


def cropped(boxes: Any, size: tuple[int, int], **attributes: Any) -> Case:
    """Boxes of two images."""
    args = [f32(2, 5, 9, 2), given(boxes), given([1, 0, 1][: len(boxes)], DType.i32), const(size)]
    return case("CropAndResize", args=args, **attributes)


PATCHES = (
    patches(f32(2, 6, 5, 2), 2, 2, 1, "VALID", dynamic=True),
    patches(f32(2, 6, 9, 2), 3, 3, 1, "SAME", dynamic=True),
    patches(f32(2, 6, 5, 2), 3, 1, 1, "SAME", dynamic=True),
    patches(f32(1, 7, 7, 1), 3, 2, 2, "VALID"),
    patches(f32(1, 7, 6, 1), 2, 3, 2, "SAME"),
    patches(f32(1, 2, 2, 1), 3, 1, 1, "VALID"),
    *(patches(integers(DType(t), 1, 4, 4, 1), 2, 2, 1, "SAME") for t in ("u8", "i32", "i64")),
    case(
        "ExtractVolumePatches",
        args=[f32(1, 3, 4, 3, 2)],
        dynamic=True,
        ksizes=[1, 2, 2, 1, 1],
        strides=[1, 1, 2, 1, 1],
        padding="SAME",
    ),
)

# Sizes are such that places come out without rounding: whether one lies beyond the edge is decided by the last digit.
CORNER = [[0, 0, 1, 1], [0.25, 0.125, 0.75, 0.875], [1, 1, 0, 0]]
BEYOND = [[-0.5, -0.25, 0.5, 0.75], [0.5, 0.5, 1.5, 1.5], [0.3, 0.2, 0.8, 0.9]]

CROPS = (
    cropped(CORNER, (3, 5), dynamic=True),
    cropped(BEYOND, (4, 3)),
    cropped(BEYOND, (4, 3), method="nearest", extrapolation_value=-1.5),
    cropped(CORNER, (5, 9), method="nearest"),
    cropped(CORNER, (1, 1)),
    cropped(BEYOND[:1], (1, 4), extrapolation_value=7.0),
    case(
        "CropAndResize",
        args=[integers(DType.u8, 1, 4, 4, 3), given(CORNER[:2]), const([0, 0]), const([2, 2])],
    ),
)

SHIFTS = [[1, 0, -1.5, 0, 1, 0.25, 0, 0], [0.5, 0.25, 1, -0.25, 0.5, 2, 0, 0]]
PERSPECTIVE = [[0.9, 0.2, -3.3, 0.1, 1.2, -7.3, 0.01, 0.02]]


def projected(transforms: Any, interpolation: str, mode: str, image: Operand = IMAGE, **options: Any) -> Case:
    """A transform of IMAGE into another size."""
    args = [image, given(transforms), const((4, 9)), const(np.float32(3.0))]
    attributes: dict[str, Any] = {"interpolation": interpolation, "fill_mode": mode}
    return case("ImageProjectiveTransformV3", args=args, **options, **attributes)


# 1e-5: places far from 0 have lost digits that the difference to the next pixel keeps.
FAR = 1e-5
MODES = ("CONSTANT", "NEAREST", "REFLECT", "WRAP")

PROJECTIONS = (
    *(projected(SHIFTS, "BILINEAR", mode, tolerance=FAR) for mode in MODES),
    *(projected(SHIFTS, "NEAREST", mode) for mode in MODES),
    projected(PERSPECTIVE, "BILINEAR", "CONSTANT", dynamic=True, tolerance=FAR),
    projected(PERSPECTIVE, "BILINEAR", "REFLECT", tolerance=FAR),
    projected(PERSPECTIVE, "NEAREST", "REFLECT", dynamic=True),
    projected(SHIFTS[:1], "NEAREST", "CONSTANT", integers(DType.u8, 2, 3, 4, 1)),
    projected(SHIFTS[:1], "BILINEAR", "CONSTANT", integers(DType.u8, 2, 3, 4, 1)),
    case(
        "ImageProjectiveTransformV2",
        args=[IMAGE, given(SHIFTS), const((3, 4))],
        interpolation="BILINEAR",
        tolerance=FAR,
    ),
)

BOXES = given([[[0.2, 0.1, 0.7, 0.6], [-0.5, 0.3, 1.5, 0.8], [0.9, 0.9, 0.1, 0.1], [0.5, 0, 0.5, 2]]] * 2)
DRAWINGS = (
    case("DrawBoundingBoxes", args=[f32(2, 6, 7, 3), BOXES]),
    case("DrawBoundingBoxes", args=[f32(2, 6, 7, 1), BOXES]),
    case("DrawBoundingBoxesV2", args=[f32(2, 6, 7, 3), BOXES, weights(2, 4)]),
    case("DrawBoundingBoxesV2", args=[f32(2, 9, 8, 3), f32(2, 12, 4, low=-0.2, high=1.2), f32(3, 3)]),
)

CASES: tuple[Case, ...] = (*DRAWINGS, *RESIZES, *FILTERS, *COLOUR, *PATCHES, *CROPS, *PROJECTIONS)
