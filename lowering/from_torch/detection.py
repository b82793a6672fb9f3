"""torchvision's operators for boxes: non-maximum suppression, features of regions."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.sampling import pixel_numbers, taps, weighted_pixels
from jfuse.lowering.from_torch.shapes import lower_select, lower_slice_, lower_unsqueeze, transposed
from jfuse.lowering.ops.image.detection import suppressed
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import is_constant, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped, size_tensor
from jfuse.lowering.rules import lowers_torch


@lowers_torch("torchvision.nms")
def lower_nms(boxes: Array, scores: Array, iou_threshold: float) -> Array:
    """The places of the boxes that no better one overlaps by more than the threshold, best first.

    boxes: f[n, 4]; scores: f[n] -> i64[chosen]. A box whose corners are in another order overlaps nothing.
    Source: torchvision:csrc/ops/cpu/nms_kernel.cpp
    """
    if not 0 <= iou_threshold:
        raise LowerError("a negative IoU threshold", found=iou_threshold, remedy="a threshold from 0 on")
    size = size_tensor(scores.shape[0], [scores, boxes, *sources()])
    if iou_threshold >= 1:  # no overlap is greater
        return as_type(ops.topk_v2(as_type(scores, DType.f32), size)[1], DType.i64)
    threshold = np.float32(iou_threshold)  # PyTorch compares overlaps with the double
    threshold = np.nextafter(threshold, np.float32(-1)) if float(threshold) > iou_threshold else threshold
    low, high = lower_slice_(boxes, 1, 0, 2), lower_slice_(boxes, 1, 2, 4)
    boxes = ops.concatenation(low, ops.maximum(low, high), axis=1)  # TFLite puts corners in order
    return as_type(suppressed(boxes, scores, size, threshold, None, padded=False)[0], DType.i64)


@lowers_torch("torchvision.roi_align")
def lower_roi_align(
    x: Array, rois: Array, scale: float, height: int, width: int, sampling_ratio: int, aligned: bool
) -> Array:
    """The mean of some places in each part of each region, between pixels by bilinear interpolation.

    x: f[n, c, h, w]; rois: f[k, 5], number of the image and corners -> f[k, c, height, width]
    sampling_ratio: how many places a part has along each axis; -1, as many as pixels: of regions that are constant.
    Source: torchvision:csrc/ops/cpu/roi_align_kernel.cpp
    """
    _, c, h, w = x.shape
    if sampling_ratio <= 0 and not is_constant(rois):
        raise LowerError(
            "regions that are computed, with as many places in each part as it has pixels",
            expected="sampling_ratio above 0, or regions that are constant",
            found=f"sampling_ratio={sampling_ratio}, regions {type_of(rois)}",
            remedy="sampling_ratio=2",
        )
    corners = ops.sub(ops.mul(lower_slice_(rois, 1, 1, 5), np.float32(scale)), np.float32(0.5 if aligned else 0))
    rows, row_shares = _along(corners, 1, height, h, x, sampling_ratio, aligned)
    columns, column_shares = _along(corners, 0, width, w, x, sampling_ratio, aligned)
    image = as_type(lower_select(rois, 1, 0), DType.i32)
    places = pixel_numbers(_outer(rows, True), _outer(columns, False), x)
    shares = ops.mul(_outer(row_shares, True), _outer(column_shares, False))
    shape = (rois.shape[0], height * width, int(rows.shape[2]) * int(columns.shape[2]))
    flat_places, flat_shares = (shaped(v, shape, rois, *sources()) for v in (places, shares))
    pixels = weighted_pixels(x, image, flat_places, flat_shares)
    return transposed(shaped(pixels, (rois.shape[0], height, width, c), rois, x, *sources()), (0, 3, 1, 2))


def _outer(x: Array, is_row: bool) -> Array:
    """f[k, parts, places] of rows as f[k, parts, 1, places, 1], of columns as f[k, 1, parts, 1, places]."""
    k, parts, count = x.shape
    return shaped(x, (k, parts, 1, count, 1) if is_row else (k, 1, parts, 1, count), x, *sources())


def _along(
    corners: Array, axis: int, parts: int, size: object, x: Array, sampling_ratio: int, aligned: bool
) -> tuple[Array, Array]:
    """The pixels of each part along one axis of regions, and their shares: i32 and f32[k, parts, 2 * places]."""
    start, end = lower_select(corners, 1, axis), lower_select(corners, 1, axis + 2)
    length = ops.sub(end, start) if aligned else ops.maximum(ops.sub(end, start), np.float32(1))
    part = ops.div(length, np.float32(parts))
    if sampling_ratio > 0:
        count: Array = np.full(1, sampling_ratio, np.float32)
        most = sampling_ratio
    else:
        count = np.maximum(np.ceil(np.asarray(part)), 0)
        most = max(int(count.max(initial=0)), 1)
    number = np.arange(most, dtype=np.float32)
    within = ops.div(number + np.float32(0.5), lower_unsqueeze(np.maximum(count, 1), 1))  # [1 or k, places]
    numbers = np.arange(parts, dtype=np.float32)[:, None]
    steps = ops.add(numbers, lower_unsqueeze(within, 1))  # [1 or k, parts, places]
    place = ops.add(_column(start), ops.mul(steps, _column(part)))
    last = as_type(size_tensor(size - 1, [x, *sources()]), DType.f32)  # type: ignore[operator]
    is_near = ops.logical_and(
        ops.greater_equal(place, np.float32(-1)), ops.less_equal(place, ops.add(last, np.float32(1)))
    )
    share = np.where(number < np.asarray(count)[:, None], 1 / np.maximum(np.asarray(count), 1)[:, None], 0)
    weight = ops.select_v2(is_near, share.astype(np.float32)[:, None], np.float32(0))
    pixels, shares = taps(ops.minimum(ops.maximum(place, np.float32(0)), last), size, x)
    flat = (corners.shape[0], parts, 2 * most)
    shares = ops.mul(shares, lower_unsqueeze(weight, 3))
    return shaped(pixels, flat, corners, *sources()), shaped(shares, flat, corners, *sources())


def _column(x: Array) -> Array:
    return lower_unsqueeze(lower_unsqueeze(x, 1), 2)
