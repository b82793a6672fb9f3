"""Projective transforms of images: rotation, zoom, shift, shear."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.image.pixels import Pixels, known_size, rounded, to_i32, within
from jfuse.lowering.ops.image.resize import as_f32
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.query import dtype
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped
from jfuse.lowering.rules import lowers


@lowers("ImageProjectiveTransformV2")
def lower_projective_transform_v2(
    images: Array, transforms: Array, output_shape: Array, *, interpolation: str, fill_mode: str = "CONSTANT"
) -> Array:
    """As V3, filled with 0."""
    zero = np.float32(0)
    return lower_projective_transform(
        images, transforms, output_shape, zero, interpolation=interpolation, fill_mode=fill_mode
    )


@lowers("ImageProjectiveTransformV3")
def lower_projective_transform(
    images: Array,
    transforms: Array,
    output_shape: Array,
    fill_value: Array,
    *,
    interpolation: str,
    fill_mode: str = "CONSTANT",
) -> Array:
    """Images whose pixel (x, y) is read at ((a x + b y + c) / k, (d x + e y + f) / k) with k = g x + h y + 1.

    images: any[b,h,w,c]; transforms: f32[b or 1,8], a to h; output_shape: i32[2] -> any[b,*output_shape,c]
    """
    height, width = known_size(output_shape, "output_shape")
    bilinear = interpolation == "BILINEAR"
    source = as_f32(images) if bilinear else images
    fill = fill_value if dtype(source) is DType.f32 else ops.cast(fill_value, out_data_type=dtype(source))
    pixels = Pixels(source)
    x, y, is_finite = _places(transforms, height, width)
    move = _MODES[fill_mode]
    x, y = move(x, pixels.width), move(y, pixels.height)
    read = _mixed if bilinear else _nearest
    result = read(pixels, _numbers(images), y, x, fill)
    result = ops.select_v2(ops.expand_dims(is_finite, np.int32(2)), result, fill)
    result = shaped(result, (images.shape[0], height, width, images.shape[3]), images)
    return result if dtype(result) is dtype(images) else ops.cast(result, out_data_type=dtype(images))


def _places(transforms: Array, height: int, width: int) -> tuple[Array, Array, Array]:
    """Where each pixel is read, and whether that is anywhere.   f32[b,pixels], f32[b,pixels], bool[b,pixels]"""
    down, right = (v.reshape(-1).astype(np.float32) for v in np.mgrid[:height, :width])
    a, b, c, d, e, f, g, h = ops.split(np.int32(1), transforms, num_splits=8)

    def plane(by_x: Array, by_y: Array, start: Array) -> Array:
        return ops.add(ops.add(ops.mul(by_x, right), ops.mul(by_y, down)), start)

    scale = plane(g, h, np.float32(1))
    is_finite = ops.not_equal(scale, np.float32(0))
    scale = ops.select_v2(is_finite, scale, np.float32(1))
    return ops.div(plane(a, b, c), scale), ops.div(plane(d, e, f), scale), is_finite


def _numbers(images: Array) -> Array:
    """The number of each image.   i32[b,1]"""
    return ops.expand_dims(counted(images.shape[0], images), np.int32(1))


def _mixed(pixels: Pixels, number: Array, y: Array, x: Array, fill: Array) -> Array:
    """Mixed from the four pixels around each place, those beyond the image filled."""
    top, left = ops.floor(y), ops.floor(x)
    lines = []
    for row in (top, ops.add(top, np.float32(1))):
        first, second = (_read(pixels, number, row, c, fill) for c in (left, ops.add(left, np.float32(1))))
        lines.append(_between(first, second, ops.sub(x, left)))
    upper, lower = lines
    return _between(upper, lower, ops.sub(y, top))


def _between(first: Array, second: Array, share: Array) -> Array:
    share = ops.expand_dims(share, np.int32(2))
    return ops.add(ops.mul(ops.sub(np.float32(1), share), first), ops.mul(share, second))


def _nearest(pixels: Pixels, number: Array, y: Array, x: Array, fill: Array) -> Array:
    """The nearest pixel; halves lie nearer to the one farther from 0, so -0.5 is beyond the image."""
    inside = [
        ops.logical_and(ops.greater(p, np.float32(-0.5)), ops.less(p, np.float32(size - 0.5)))
        for p, size in ((y, pixels.height), (x, pixels.width))
    ]
    row, column = (to_i32(rounded(clipped(p, 0, n - 1))) for p, n in ((y, pixels.height), (x, pixels.width)))
    is_inside = ops.expand_dims(ops.logical_and(*inside), np.int32(2))
    return ops.select_v2(is_inside, pixels.at(number, row, column), fill)


def _read(pixels: Pixels, number: Array, row: Array, column: Array, fill: Array) -> Array:
    """The pixels at whole numbers, or what fills the space around the image."""
    last_row, last_column = pixels.height - 1, pixels.width - 1
    is_inside = ops.logical_and(within(row, 0, last_row), within(column, 0, last_column))
    values = pixels.at(number, to_i32(clipped(row, 0, last_row)), to_i32(clipped(column, 0, last_column)))
    return ops.select_v2(ops.expand_dims(is_inside, np.int32(2)), values, fill)


def _reflected(x: Array, size: int) -> Array:
    """[abcd] continued as [dcba|abcd|dcba]."""
    turn = ops.floor_mod(x, np.float32(2 * size))
    back = ops.sub(np.float32(2 * size - 1), turn)
    return clipped(ops.select_v2(ops.less(turn, np.float32(size)), turn, back), 0, size - 1)


def _wrapped(x: Array, size: int) -> Array:
    """[abcd] continued as [abcd|abcd|abcd], in TensorFlow's way of counting the repetitions."""
    if size == 1:
        return ops.zeros_like(x)
    turns = ops.floor(ops.div(ops.abs_(x), np.float32(size - 1)))
    before = ops.add(x, ops.mul(ops.add(turns, np.float32(1)), np.float32(size)))
    after = ops.sub(x, ops.mul(turns, np.float32(size)))
    inner = ops.select_v2(ops.greater(x, np.float32(size - 1)), after, x)
    return clipped(ops.select_v2(ops.less(x, np.float32(0)), before, inner), 0, size - 1)


_MODES: Mapping[str, Callable[[Array, int], Array]] = {
    "CONSTANT": lambda x, size: x,
    "NEAREST": lambda x, size: clipped(x, 0, size - 1),
    "REFLECT": _reflected,
    "WRAP": _wrapped,
}
