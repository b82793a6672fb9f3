"""Resizing images: TFLite's two resizes, and products with matrices of weights for all other ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.rule_tools.operands import known_sizes, sizes_operand
from jfuse.lowering.rule_tools.query import dtype, is_constant, static, type_of
from jfuse.lowering.rules import lowers

# Resizing along one axis as a matrix of weights, found as TensorFlow finds them: in single precision.

_F32 = np.float32
_NEGLIGIBLE = 1000 * np.finfo(np.float32).tiny  # sums of weights below this are not divided by
_TABLE = 1024  # TensorFlow's bicubic weights come from a table with that many places between two pixels


@dataclass(frozen=True)
class Filter:
    """A resampling filter: its weight at a distance (not negative), 0 beyond its radius."""

    weight: Callable[[np.ndarray], np.ndarray]
    radius: float


def _lanczos(radius: float) -> Filter:
    def weight(x: np.ndarray) -> np.ndarray:
        pi, r = _F32(np.pi), _F32(radius)
        near = np.maximum(x, _F32(1e-3))
        sinc = r * np.sin(pi * near) * np.sin(pi * near / r) / (pi * pi * near * near)
        return np.where(x > r, _F32(0), np.where(x <= _F32(1e-3), _F32(1), sinc))

    return Filter(weight, radius)


def _gaussian(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 1.5, _F32(0), np.exp(-x * x / _F32(2 * 0.5 * 0.5)))


def _box(x: np.ndarray) -> np.ndarray:
    return np.where(x < 0.5, _F32(1), np.where(x == 0.5, _F32(0.5), _F32(0)))


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.where(x < 1, _F32(1) - x, _F32(0))


def _keys_cubic(x: np.ndarray) -> np.ndarray:
    outer = ((_F32(-0.5) * x + _F32(2.5)) * x - _F32(4)) * x + _F32(2)
    inner = (_F32(1.5) * x - _F32(2.5)) * x * x + _F32(1)
    return np.where(x >= 2, _F32(0), np.where(x >= 1, outer, inner))


def _mitchell_cubic(x: np.ndarray) -> np.ndarray:
    outer = ((_F32(-7 / 18) * x + _F32(2)) * x - _F32(10 / 3)) * x + _F32(16 / 9)
    inner = (_F32(7 / 6) * x - _F32(2)) * x * x + _F32(8 / 9)
    return np.where(x >= 2, _F32(0), np.where(x >= 1, outer, inner))


FILTERS: Mapping[str, Filter] = {
    "lanczos1": _lanczos(1),
    "lanczos3": _lanczos(3),
    "lanczos5": _lanczos(5),
    "gaussian": Filter(_gaussian, 1.5),
    "box": Filter(_box, 1),
    "triangle": Filter(_triangle, 1),
    "keyscubic": Filter(_keys_cubic, 2),
    "mitchellcubic": Filter(_mitchell_cubic, 2),
}
"""By the name that TensorFlow's ScaleAndTranslate gives them."""


def filtered(
    size: int, new_size: int, scale: np.float32, translation: np.float32, kernel: Filter, antialias: bool
) -> np.ndarray:
    """The weights of ScaleAndTranslate.   f32[new_size, size]

    A new pixel is the mean of the old ones under the filter, which widens with antialias where the image shrinks.
    Source: tensorflow/core/kernels/image/scale_and_translate_op.cc
    """
    step = _F32(1.0 / np.float64(scale))
    width = max(step, _F32(1)) if antialias else _F32(1)
    places = (np.arange(new_size, dtype=_F32) + _F32(0.5)) * step - step * translation
    reach = _F32(kernel.radius) * width
    first = np.clip(np.ceil(places - reach - _F32(0.5)), 0, size - 1)
    last = np.clip(np.floor(places + reach - _F32(0.5)), 0, size - 1)
    old = np.arange(size, dtype=_F32)
    distance = np.abs((old + _F32(0.5) - places[:, None]) * (_F32(1) / width))
    is_inside = (places >= 0) & (places <= size)
    is_under = (old >= first[:, None]) & (old <= last[:, None]) & is_inside[:, None]
    return _normalized(np.where(is_under, kernel.weight(distance), _F32(0)))


def _normalized(weights: np.ndarray) -> np.ndarray:
    """Rows divided by their sum; zeros where that is negligible."""
    total = weights.sum(axis=1, keepdims=True, dtype=_F32)
    is_enough = np.abs(total) >= _NEGLIGIBLE
    return np.where(is_enough, weights * (_F32(1) / np.where(is_enough, total, _F32(1))), _F32(0))


def bicubic(size: int, new_size: int, align_corners: bool, half_pixel_centers: bool) -> np.ndarray:
    """The weights of ResizeBicubic.   f32[new_size, size]

    With half-pixel centers Keys' filter, which leaves out what lies outside of the image; else an older one, which
    repeats the edge.
    Source: tensorflow/core/kernels/image/resize_bicubic_op.cc
    """
    places, scale = np.arange(new_size, dtype=_F32), _pixel_scale(size, new_size, align_corners)
    places = (places + _F32(0.5)) * scale - _F32(0.5) if half_pixel_centers else places * scale
    before = np.floor(places)
    inner, outer = _cubic_tables(-0.5 if half_pixel_centers else -0.75)
    offset = np.rint((places - before) * _F32(_TABLE)).astype(np.int64)
    taps = np.stack([outer[offset], inner[offset], inner[_TABLE - offset], outer[_TABLE - offset]], axis=1)
    columns = before.astype(np.int64)[:, None] + np.arange(-1, 3)
    nearest = np.clip(columns, 0, size - 1)
    if half_pixel_centers:
        taps = _normalized(np.where(columns == nearest, taps, _F32(0)))
    return _summed(size, nearest, taps)


def _cubic_tables(a: float) -> tuple[np.ndarray, np.ndarray]:
    """Weights of a pixel nearer than 1 and of one farther away, by the place in between.   f32[1025] each"""
    x = (np.arange(_TABLE + 1) / _TABLE).astype(_F32).astype(np.float64)
    y = x + 1
    inner = ((a + 2) * x - (a + 3)) * x * x + 1
    outer = ((a * y - 5 * a) * y + 8 * a) * y - 4 * a
    return inner.astype(_F32), outer.astype(_F32)


def area(size: int, new_size: int, align_corners: bool) -> np.ndarray:
    """The weights of ResizeArea: how much of a new pixel each old one covers.   f32[new_size, size]

    Source: tensorflow/core/kernels/image/resize_area_op.cc
    """
    scale = _pixel_scale(size, new_size, align_corners)
    begin, end = (np.arange(k, new_size + k, dtype=_F32)[:, None] * scale for k in (0, 1))
    first, last = np.floor(begin), np.ceil(end)
    old = first + np.arange(int((last - first).max()), dtype=_F32)
    covered = np.where(
        old < begin,
        np.where(old + 1 > end, scale, old + 1 - begin),
        np.where(old + 1 > end, end - old, _F32(1)),
    )
    weights = np.where(old < last, covered, _F32(0)) * (_F32(1) / scale)
    return _summed(size, np.clip(old, 0, size - 1).astype(np.int64), weights)


def _pixel_scale(size: int, new_size: int, align_corners: bool) -> np.float32:
    return _F32(size - 1) / _F32(new_size - 1) if align_corners and new_size > 1 else _F32(size) / _F32(new_size)


def _summed(size: int, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """A matrix with the weights [new, taps] at the old places [new, taps]."""
    matrix = np.zeros((len(places), size), _F32)
    np.add.at(matrix, (np.arange(len(places))[:, None], places), weights)
    return matrix


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
    rows, columns = (bicubic(*pair, align_corners, half_pixel_centers) for pair in pairs)
    return weighted(as_f32(images), rows, columns)


@lowers("ResizeArea")
def lower_resize_area(images: Array, size: Array, *, align_corners: bool = False) -> Array:
    """Two products with the shares of each pixel in the new ones.   any[b,h,w,c] -> f32[b,*size,c]"""
    pairs = _known_sizes(images, size)
    rows, columns = (area(*pair, align_corners) for pair in pairs)
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
    kernel = FILTERS[kernel_type]
    rows, columns = (
        filtered(*pair, by, shift, kernel, antialias) for pair, by, shift in zip(pairs, scale, translation, strict=True)
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
