"""torchvision's operators for boxes where torchvision is not installed: their schemas, and what they compute.

Written from the documentation of torchvision.ops: the reference bodies are plain loops.
"""

from __future__ import annotations

import importlib
import math
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch


@cache
def operators() -> Any:
    """torch.ops.torchvision with `nms`, `roi_align` and `roi_pool`."""
    if find_spec("torchvision") is not None:
        importlib.import_module("torchvision")
    else:
        _define()
    return torch.ops.torchvision


def _define() -> None:
    library = torch.library
    library.define("torchvision::nms", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define(
        "torchvision::roi_align",
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, "
        "int sampling_ratio, bool aligned) -> Tensor",
    )
    library.define(
        "torchvision::roi_pool",
        "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) "
        "-> (Tensor, Tensor)",
    )
    library.impl("torchvision::roi_pool", "CPU")(roi_pool)
    library.register_fake("torchvision::roi_pool")(
        lambda x, rois, scale, height, width: (
            x.new_empty((rois.shape[0], x.shape[1], height, width)),
            x.new_empty((rois.shape[0], x.shape[1], height, width), dtype=torch.int32),
        )
    )
    library.impl("torchvision::nms", "CPU")(nms)
    library.impl("torchvision::roi_align", "CPU")(roi_align)
    library.register_fake("torchvision::nms")(
        lambda dets, scores, iou_threshold: dets.new_empty(
            torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64
        )
    )
    library.register_fake("torchvision::roi_align")(
        lambda x, rois, scale, height, width, ratio, aligned: x.new_empty((rois.shape[0], x.shape[1], height, width))
    )


def overlap(a: Any, b: Any) -> Any:
    """Intersection over union of two boxes, f32[4]."""
    zero = a.new_zeros(())
    sides = torch.maximum(torch.minimum(a[2:], b[2:]) - torch.maximum(a[:2], b[:2]), zero)
    common = sides[0] * sides[1]
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (a, b)]
    return common / (areas[0] + areas[1] - common)


def nms(dets: Any, scores: Any, iou_threshold: float) -> Any:
    """The places of boxes that no better one overlaps by more than the threshold, best first."""
    kept: list[int] = []
    for place in scores.sort(stable=True, descending=True).indices.tolist():
        if not any(float(overlap(dets[k], dets[place])) > iou_threshold for k in kept):
            kept.append(place)
    return torch.tensor(kept, dtype=torch.int64)


def roi_align(x: Any, rois: Any, scale: float, height: int, width: int, ratio: int = -1, aligned: bool = False) -> Any:
    """The mean of values at places in each part of each region."""
    found = x.new_zeros((len(rois), x.shape[1], height, width))
    for k, (image, *corners) in enumerate(rois.tolist()):
        x0, y0, x1, y1 = (c * scale - (0.5 if aligned else 0.0) for c in corners)
        least = -math.inf if aligned else 1.0
        w, h = max(x1 - x0, least) / width, max(y1 - y0, least) / height
        rows, columns = ratio if ratio > 0 else math.ceil(h), ratio if ratio > 0 else math.ceil(w)
        for p in range(height):
            for q in range(width):
                for i in range(rows):
                    for j in range(columns):
                        at = y0 + (p + (i + 0.5) / rows) * h, x0 + (q + (j + 0.5) / columns) * w
                        found[k, :, p, q] += value_at(x[int(image)], *at) / (rows * columns)
    return found


def value_at(image: Any, y: float, x: float) -> Any:
    """The values of an image between pixels, 0 from one pixel beyond its edges on.   f32[c]"""
    _, height, width = image.shape
    if not (-1 <= y <= height and -1 <= x <= width):
        return image.new_zeros(image.shape[0])
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, along = y - top, x - left
    above = (1 - along) * image[:, top, left] + along * image[:, top, right]
    below = (1 - along) * image[:, bottom, left] + along * image[:, bottom, right]
    return (1 - down) * above + down * below


def roi_pool(x: Any, rois: Any, scale: float, height: int, width: int) -> Any:
    """The largest element of each part of each region, and where it stands in its map; 0 and -1 where it has none."""
    size = (len(rois), x.shape[1], height, width)
    found, places = x.new_zeros(size), torch.full(size, -1, dtype=torch.int32)
    for k, (image, *corners) in enumerate(rois.tolist()):
        left, top, right, bottom = (math.floor(abs(c * scale) + 0.5) * (1 if c >= 0 else -1) for c in corners)
        each = (max(bottom - top + 1, 1) / height, max(right - left + 1, 1) / width)
        for i in range(height):
            for j in range(width):
                rows, columns = (
                    range(
                        *(
                            min(max(edge, 0), limit)
                            for edge in (math.floor(n * step) + low, math.ceil((n + 1) * step) + low)
                        )
                    )
                    for n, step, low, limit in ((i, each[0], top, x.shape[2]), (j, each[1], left, x.shape[3]))
                )
                if len(rows) and len(columns):
                    part = x[int(image), :, rows.start : rows.stop, columns.start : columns.stop].flatten(1)
                    found[k, :, i, j] = part.max(1).values
    return found, places
