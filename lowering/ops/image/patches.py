"""Windows of images and volumes laid out along the channels; parts cut out of images."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.math.reduce import lowest
from jfuse.kernels.nn.windows import same_padding, window_count
from jfuse.lowering.ops.image.pixels import Pixels, known_size, rounded, to_i32, within
from jfuse.lowering.ops.image.resize import as_f32
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.image_layout import fixed_sides, padded, spatial, taps
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_tensor
from jfuse.lowering.rules import lowers


@lowers("ExtractImagePatches")
def lower_extract_image_patches(
    images: Array, *, ksizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str
) -> Array:
    """Each window of an image as one pixel, its elements in the order row, column, channel.

    any[b,h,w,c] -> any[b,h',w',kh*kw*c]
    """
    return _patches(images, ksizes[1:-1], strides[1:-1], rates[1:-1], padding)


@lowers("ExtractVolumePatches")
def lower_extract_volume_patches(x: Array, *, ksizes: Sequence[int], strides: Sequence[int], padding: str) -> Array:
    """Each window of a volume as one element.   any[b,d,h,w,c] -> any[b,d',h',w',kd*kh*kw*c]"""
    return _patches(x, ksizes[1:-1], strides[1:-1], (1, 1, 1), padding)


def _patches(x: Array, sizes: Sequence[int], strides: Sequence[int], rates: Sequence[int], padding: str) -> Array:
    batch, *extents, channels = x.shape
    axes = zip(extents, sizes, strides, rates, strict=True)
    windows = [_windows(*axis, padding) if is_known(axis[0]) else _open_windows(*axis, padding, x) for axis in axes]
    if dtype(x) is DType.f32 and len(extents) == 2 and _is_grid(extents, sizes, strides, rates):
        return ops.space_to_depth(x, block_size=sizes[0])
    amounts = np.array([(0, 0), *(sides for _, sides in windows), (0, 0)], np.int32)
    x = ops.pad(x, amounts) if amounts.any() else x
    # Channels move along with the last of the axes, so that GATHER copies whole runs of them.
    counts: list[Dim] = []
    elements: list[int] = []
    for places, _ in windows:
        axis = 1 + 2 * len(counts)
        x = ops.gather(x, places, axis=axis)
        counts.append(places.shape[0])
        elements.append(places.shape[1])
    before, inside = range(1, 2 * len(counts), 2), range(2, 2 * len(counts) + 1, 2)
    x = ops.transpose(x, np.array([0, *before, *inside, rank(x) - 1], np.int32))
    return shaped(x, (batch, *counts, int(np.prod(elements)) * channels))


def _is_grid(extents: Sequence[int], sizes: Sequence[int], strides: Sequence[int], rates: Sequence[int]) -> bool:
    """Whether the windows are squares that cover an image without overlap."""
    size = sizes[0]
    is_tiled = {*sizes, *strides} == {size} and size > 1 and set(rates) == {1}
    return is_tiled and all(is_known(e) and e % size == 0 for e in extents)


def _open_windows(
    extent: Dim, size: int, stride: int, rate: int, padding: str, images: Array
) -> tuple[Array, tuple[int, int]]:
    """As `_windows` where the extent is open: all that "SAME" may add is, and the places are computed from there."""
    widest = (size - 1) * rate if padding == "SAME" else 0
    before = same_padding(extent, size, stride, rate)[0] if padding == "SAME" else 0
    starts = ops.mul(counted(window_count(extent, size, stride, rate, padding), images), np.int32(stride))
    if same(before, widest) is not True:
        starts = ops.add(starts, size_tensor(widest - before, [images]))
    return ops.add(ops.expand_dims(starts, np.int32(1)), np.arange(size, dtype=np.int32) * rate), (widest, widest)


def _windows(extent: int, size: int, stride: int, rate: int, padding: str) -> tuple[np.ndarray, tuple[int, int]]:
    """The places that each window takes of a padded axis, and the padding.   i32[windows,size]"""
    reach = (size - 1) * rate + 1
    count = -(-extent // stride) if padding == "SAME" else max(0, (extent - reach) // stride + 1)
    missing = max(0, (count - 1) * stride + reach - extent) if padding == "SAME" else 0
    places = np.arange(count)[:, None] * stride + np.arange(size) * rate
    return places.astype(np.int32), (missing // 2, missing - missing // 2)


# Greyscale morphology: Dilation2D, for which TFLite has no operator (its DILATE is another thing).


@lowers("Dilation2D")
def lower_dilation_2d(x: Array, filters: Array, *, strides: Sequence[int], rates: Sequence[int], padding: str) -> Array:
    """The largest of x + filter over each window, of its elements within the image.

    x: number[b,h,w,c]; filters: number[kh,kw,c] -> number[b,h',w',c]. An ADD and a MAXIMUM for each place of a window.
    """
    steps, spacing, window = spatial(strides, "NHWC"), spatial(rates, "NHWC"), filters.shape[:2]
    if padding == "SAME":
        x = padded(x, fixed_sides(x, window, steps, spacing), _least_finite(x))
    rows = ops.reshape(filters, (window[0] * window[1], 1, 1, 1, filters.shape[2]))
    weights = list(rows) if is_constant(rows) else list(ops.unpack(rows))
    sums = [ops.add(tap, weight) for tap, weight in zip(taps(x, window, steps, spacing), weights, strict=True)]
    return reduce(ops.maximum, sums)


def _least_finite(x: Array) -> float:
    """The number that TensorFlow starts with: finite, since windows beside the image return it."""
    kind = dtype(x)
    if not kind.is_float:
        raise LowerError(
            "a morphological dilation of integers beyond the image",
            expected="floats, or padding VALID: a sum with the least integer would overflow",
            found=str(type_of(x)),
            remedy="cast to float32 before, or pad with what cannot win",
        )
    return float(lowest(kind.numpy))


# CropAndResize: boxes cut out of images and brought to one size.


@lowers("CropAndResize")
def lower_crop_and_resize(
    image: Array,
    boxes: Array,
    box_ind: Array,
    crop_size: Array,
    *,
    method: str = "bilinear",
    extrapolation_value: float = 0,
) -> Array:
    """Each box of its image in one size; `extrapolation_value` where a box reaches beyond.

    image: any[b,h,w,c]; boxes: f32[n,4], 0 to 1; box_ind: i32[n]; crop_size: i32[2] -> f32[n,*crop_size,c]
    """
    sizes = known_size(crop_size, "crop_size")
    pixels = Pixels(as_f32(image))
    y1, x1, y2, x2 = ops.split(np.int32(1), boxes, num_splits=4)
    rows = _places(y1, y2, pixels.height, sizes[0])
    columns = ops.expand_dims(_places(x1, x2, pixels.width, sizes[1]), np.int32(1))
    rows = ops.expand_dims(rows, np.int32(2))
    number = ops.reshape(as_i32(box_ind), np.array([-1, 1, 1], np.int32))
    y, x = clipped(rows, 0, pixels.height - 1), clipped(columns, 0, pixels.width - 1)
    crops = (_mixed if method == "bilinear" else _nearest)(pixels, number, y, x)
    is_inside = ops.logical_and(within(rows, 0, pixels.height - 1), within(columns, 0, pixels.width - 1))
    return ops.select_v2(ops.expand_dims(is_inside, np.int32(3)), crops, np.float32(extrapolation_value))


def _places(first: Array, last: Array, size: int, count: int) -> Array:
    """`count` places from one share of an axis to another, in TensorFlow's order of rounding.

    first, last: f32[n,1] -> f32[n,count]
    """
    reach = np.float32(size - 1)
    if count == 1:
        return ops.mul(ops.mul(ops.add(first, last), np.float32(0.5)), reach)
    step = ops.div(ops.mul(ops.sub(last, first), reach), np.float32(count - 1))
    return ops.add(ops.mul(first, reach), ops.mul(step, np.arange(count, dtype=np.float32)))


def _mixed(pixels: Pixels, number: Array, y: Array, x: Array) -> Array:
    """Pixels mixed from the four around each place.   i32[...], f32[...], f32[...] -> f32[...,c]"""
    top, left = ops.floor(y), ops.floor(x)
    down, right = (ops.expand_dims(ops.sub(p, before), np.int32(rank(p))) for p, before in ((y, top), (x, left)))
    columns = to_i32(left), to_i32(ops.ceil(x))
    lines = []
    for row in (to_i32(top), to_i32(ops.ceil(y))):
        first, second = (pixels.at(number, row, column) for column in columns)
        lines.append(ops.add(first, ops.mul(ops.sub(second, first), right)))
    upper, lower = lines
    return ops.add(upper, ops.mul(ops.sub(lower, upper), down))


def _nearest(pixels: Pixels, number: Array, y: Array, x: Array) -> Array:
    return pixels.at(number, to_i32(rounded(y)), to_i32(rounded(x)))
