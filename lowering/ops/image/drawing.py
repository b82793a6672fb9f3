"""Boxes drawn into images."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype
from jfuse.lowering.rule_tools.shape_tensors import counted, size_tensor
from jfuse.lowering.rules import lowers

_COLOURS = (  # red, green, blue and opacity, as TensorFlow takes them in turn
    (1, 1, 0, 1),
    (0, 0, 1, 1),
    (1, 0, 0, 1),
    (0, 1, 0, 1),
    (0.5, 0, 0.5, 1),
    (0.5, 0.5, 0, 1),
    (0.5, 0, 0, 1),
    (0, 0, 0.5, 1),
    (0, 1, 1, 1),
    (1, 0, 1, 1),
)


@lowers("DrawBoundingBoxes")
def lower_draw_bounding_boxes(images: Array, boxes: Array) -> Array:
    """As DrawBoundingBoxesV2, in ten colours; white in images of one channel."""
    return lower_draw_bounding_boxes_v2(images, boxes, np.zeros((0, 0), np.float32))


@lowers("DrawBoundingBoxesV2")
def lower_draw_bounding_boxes_v2(images: Array, boxes: Array, colors: Array) -> Array:
    """SELECT_V2 between the image and the colour of the last box whose border a pixel stands on.

    images: f[b,h,w,c]; boxes: f32[b,n,4], from 0 to 1; colors: f32[m,4 or c], in turn -> f[b,h,w,c]
    """
    channels = images.shape[3]
    if 0 in colors.shape:
        colors = np.array(_COLOURS, np.float32) if channels != 1 else np.ones((1, 1), np.float32)
    top, left, bottom, right = ops.split(np.int32(2), boxes, num_splits=4)
    in_rows, on_rows = _line(top, bottom, images, 1)
    in_columns, on_columns = (ops.expand_dims(v, np.int32(2)) for v in _line(left, right, images, 2))
    in_rows, on_rows = (ops.expand_dims(v, np.int32(3)) for v in (in_rows, on_rows))
    on_border = ops.logical_or(ops.logical_and(on_rows, in_columns), ops.logical_and(in_rows, on_columns))
    number = ops.reshape(ops.add(counted(boxes.shape[1], boxes), np.int32(1)), np.array([1, -1, 1, 1], np.int32))
    last = ops.reduce_max(ops.select_v2(on_border, number, np.int32(0)), np.array([1], np.int32))
    count = size_tensor(colors.shape[0], [colors])
    turn = ops.floor_mod(ops.maximum(ops.sub(last, np.int32(1)), np.int32(0)), count)
    table = ops.strided_slice(colors, [0, 0], [0, channels], [1, 1], begin_mask=3, end_mask=1)
    table = table if dtype(images) is DType.f32 else ops.cast(table, out_data_type=dtype(images))
    is_drawn = ops.expand_dims(ops.greater(last, np.int32(0)), np.int32(3))
    return ops.select_v2(is_drawn, ops.gather(table, turn, axis=0), images)


def _line(first: Array, last: Array, images: Array, axis: int) -> tuple[Array, Array]:
    """Which places of an axis lie between two ends, and which of those are an end.   f32[b,n,1] -> bool[b,n,size]"""
    places = counted(images.shape[axis], images)
    reach = ops.sub(size_tensor(images.shape[axis], [images]), np.int32(1))
    reach = ops.cast(reach, out_data_type=DType.f32)
    low, high = (ops.cast(ops.mul(end, reach), out_data_type=DType.i32) for end in (first, last))
    between = ops.logical_and(ops.greater_equal(places, low), ops.less_equal(places, high))
    at_end = ops.logical_or(ops.equal(places, low), ops.equal(places, high))
    return between, ops.logical_and(between, at_end)
