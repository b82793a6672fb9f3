"""Resizing images: TFLite's two resizes, and products with matrices of weights for all other ways."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.image import resampling
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.rule_tools.operands import known_sizes, sizes_operand
from jfuse.lowering.rule_tools.query import dtype, is_constant, static, type_of
from jfuse.lowering.rules import lowers

_GATHERED = (DType.i64,)  # RESIZE_NEAREST_NEIGHBOR has no kernel for these, and casts would lose digits


@lowers("ResizeBilinear")
def lower_resize_bilinear(
    images: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """RESIZE_BILINEAR in f32, whatever the images are; nothing where the size stays."""
    images = as_f32(images)
    if _stays(images, size):
        return images
    return ops.resize_bilinear(
        images, sizes_operand(size), align_corners=align_corners, half_pixel_centers=half_pixel_centers
    )


@lowers("ResizeNearestNeighbor")
def lower_resize_nearest_neighbor(
    images: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """RESIZE_NEAREST_NEIGHBOR; nothing where the size stays."""
    if _stays(images, size):
        return images
    if dtype(images) in _GATHERED:
        return _gathered(images, size, align_corners, half_pixel_centers)
    return ops.resize_nearest_neighbor(
        images, sizes_operand(size), align_corners=align_corners, half_pixel_centers=half_pixel_centers
    )


@lowers("ResizeBicubic")
def lower_resize_bicubic(
    images: Array, size: Array, *, align_corners: bool = False, half_pixel_centers: bool = False
) -> Array:
    """Two products with the weights of the bicubic filter.   any[b,h,w,c] -> f32[b,*size,c]"""
    pairs = _known_sizes(images, size)
    rows, columns = (resampling.bicubic(*pair, align_corners, half_pixel_centers) for pair in pairs)
    return weighted(as_f32(images), rows, columns)


@lowers("ResizeArea")
def lower_resize_area(images: Array, size: Array, *, align_corners: bool = False) -> Array:
    """Two products with the shares of each pixel in the new ones.   any[b,h,w,c] -> f32[b,*size,c]"""
    pairs = _known_sizes(images, size)
    rows, columns = (resampling.area(*pair, align_corners) for pair in pairs)
    return weighted(as_f32(images), rows, columns)


@lowers("ScaleAndTranslate")
def lower_scale_and_translate(
    images: Array,
    size: Array,
    scale: Array,
    translation: Array,
    *,
    kernel_type: str = "lanczos3",
    antialias: bool = True,
) -> Array:
    """Two products with the weights of a filter: what tf.image.resize does with antialias.

    images: any[b,h,w,c]; size: i32[2]; scale, translation: f32[2] -> f32[b,*size,c]
    """
    pairs = _known_sizes(images, size)
    if not is_constant(scale) or not is_constant(translation):
        raise LowerError(
            "images are scaled by a factor that is computed at run time", expected="a constant scale and translation"
        )
    kernel = resampling.FILTERS[kernel_type]
    rows, columns = (
        resampling.filtered(*pair, by, shift, kernel, antialias)
        for pair, by, shift in zip(pairs, scale, translation, strict=True)
    )
    return weighted(as_f32(images), rows, columns)


def as_f32(x: Array) -> Array:
    """x in f32: what TensorFlow's image ops compute in."""
    return x if dtype(x) is DType.f32 else ops.cast(x, out_data_type=DType.f32)


def weighted(images: Array, rows: np.ndarray, columns: np.ndarray) -> Array:
    """Images whose height and width are multiplied by matrices.

    images: f32[b,h,w,c]; rows: f32[h',h]; columns: f32[w',w] -> f32[b,h',w',c]. The axis in question stands last for
    each product: with constants on the left, and the channels last, it takes two to three times as long.
    """
    order = list(range(4))
    for axis, matrix in _cheapest_first(rows, columns):
        if not _is_identity(matrix):
            images, order = _ordered(images, order, [a for a in order if a != axis] + [axis])
            images = matrix_product(images, matrix, False, True)
    return _ordered(images, order, list(range(4)))[0]


def _cheapest_first(rows: np.ndarray, columns: np.ndarray) -> list[tuple[int, np.ndarray]]:
    (new_height, height), (new_width, width) = rows.shape, columns.shape
    rows_first = width * new_height * (height + new_width)
    columns_first = height * new_width * (width + new_height)
    steps = [(1, rows), (2, columns)]
    return steps if rows_first <= columns_first else steps[::-1]


def _ordered(x: Array, order: list[int], new_order: list[int]) -> tuple[Array, list[int]]:
    """x, whose axes are `order`, with the axes in another order, and that."""
    return x if order == new_order else ops.transpose(
        x, np.array([order.index(a) for a in new_order], np.int32)
    ), new_order


def _is_identity(matrix: np.ndarray) -> bool:
    return matrix.shape[0] == matrix.shape[1] and bool(np.array_equal(matrix, np.eye(len(matrix))))


def _stays(images: Array, size: Array) -> bool:
    sizes = known_sizes(size)
    return sizes is not None and all(same(d, e) is True for d, e in zip(images.shape[1:3], sizes, strict=True))


def _known_sizes(images: Array, size: Array) -> list[tuple[int, int]]:
    """(old, new) of height and width; raises LowerError where one is known at run time only."""
    pairs = list(zip(images.shape[1:3], static(size, "size"), strict=True))
    if not all(is_known(d) for pair in pairs for d in pair):
        raise LowerError(
            "a resize with weights or places that depend on the sizes",
            expected="images of a fixed height and width, and fixed new ones",
            found=f"{type_of(images)} to {static(size, 'size')}",
            remedy='give the input a fixed size, or resize with method="bilinear" or "nearest" without antialias',
        )
    return [(int(old), int(new)) for old, new in pairs]


def _gathered(images: Array, size: Array, align_corners: bool, half_pixel_centers: bool) -> Array:
    """Nearest neighbours by GATHER, which takes more dtypes."""
    for axis, (old, new) in enumerate(_known_sizes(images, size), start=1):
        line = np.arange(old, dtype=np.int32).reshape(1, -1, 1, 1)
        places = ops.resize_nearest_neighbor(
            line, (new, 1), align_corners=align_corners, half_pixel_centers=half_pixel_centers
        )
        images = ops.gather(images, places.reshape(-1), axis=axis)
    return images
