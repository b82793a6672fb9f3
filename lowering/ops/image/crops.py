"""CropAndResize: boxes cut out of images and brought to one size."""

from __future__ import annotations

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.image.pixels import Pixels, known_size, rounded, to_i32, within
from jfuse.lowering.ops.image.resize import as_f32
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import rank
from jfuse.lowering.rules import lowers


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
