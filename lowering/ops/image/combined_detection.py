"""Non-maximum suppression of many classes at once, image by image."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.image.detection import LOWEST, above, with_area
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.query import rank, static, type_of
from jfuse.lowering.rules import lowers

Combine = Callable[[Array, Array], tuple[Array, ...]]
"""Boxes and scores of images to the four results."""


@dataclass(frozen=True)
class _ResultForm:
    """How many boxes are kept of each class and of an image, whether fewer fill the results, and whether boxes are cut.

    pad_per_class: the results hold `most` for each class where that is less than `total`. clip_boxes: to 0 and 1.
    """

    most: int
    total: int
    pad_per_class: bool
    clip_boxes: bool


@lowers("CombinedNonMaxSuppression")
def lower_combined_non_max_suppression(
    boxes: Array,
    scores: Array,
    max_output_size_per_class: Array,
    max_total_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_per_class: bool = False,
    clip_boxes: bool = True,
) -> Any:
    """NON_MAX_SUPPRESSION_V5 for each image and class, and TOPK_V2 of what they choose; a loop over an open batch.

    boxes: f32[b,n,q,4], of all classes together (q = 1) or of each; scores: f32[b,n,classes].
    Results: boxes f32[b,total,4], scores f32[b,total], classes f32[b,total], their number i32[b].
    """
    if not all(map(is_known, (*boxes.shape[1:], scores.shape[2]))):
        raise LowerError(
            "combined non-maximum suppression is one operator for each class",
            expected="a fixed number of classes and boxes",
            found=f"{type_of(boxes)}, {type_of(scores)}",
        )
    most, total = (int(static(v, "size")) for v in (max_output_size_per_class, max_total_size))
    form = _ResultForm(most, total, pad_per_class, clip_boxes)

    def combine(boxes: Array, scores: Array) -> tuple[Array, ...]:
        return _combined(boxes, scores, above(iou_threshold), score_threshold, form)

    return combine(boxes, scores) if is_known(boxes.shape[0]) else _image_by_image(boxes, scores, combine)


def _image_by_image(boxes: Array, scores: Array, combine: Combine) -> tuple[Array, ...]:
    """The results for an open batch: a scan over its images."""

    def one(boxes: Array, scores: Array) -> list[Array]:
        results = combine(*(ops.expand_dims(x, np.int32(0)) for x in (boxes, scores)))
        return [ops.reshape(r, r.shape[1:]) for r in results]

    agreed(boxes.shape[0], scores.shape[0])
    types = [TensorType(x.shape[1:], DType.f32) for x in (boxes, scores)]
    body = trace_graph(one, types, name="image")
    return ops.scan([boxes, scores], (body,), consts=0, carries=0, length=boxes.shape[0])


def _combined(
    boxes: Array, scores: Array, iou_threshold: np.ndarray, score_threshold: Array, form: _ResultForm
) -> tuple[Array, ...]:
    batch, count, kinds, _ = boxes.shape
    classes = scores.shape[2]
    size = min(form.most, count)
    indices, chosen, counts = _of_each_class(boxes, scores, size, iou_threshold, score_threshold)
    is_chosen = ops.less(np.arange(size, dtype=np.int32), ops.reshape(counts, (batch, classes, 1)))
    candidates = ops.reshape(ops.select_v2(is_chosen, chosen, np.float32(LOWEST)), (batch, classes * size))
    places = ops.reshape(indices, (batch, classes, size))
    corners = ops.gather(
        ops.transpose(boxes, (0, 2, 1, 3)), ops.reshape(places, (batch, kinds, -1)), axis=2, batch_dims=2
    )
    most_kept = min(form.total, classes * size)
    best, order = ops.topk_v2(candidates, np.int32(most_kept))
    is_valid = ops.greater(best, np.float32(LOWEST))
    zero = np.float32(0)
    found_boxes = ops.gather(ops.reshape(corners, (batch, classes * size, 4)), order, axis=1, batch_dims=1)
    if form.clip_boxes:
        found_boxes = clipped(found_boxes, 0, 1)
    found_classes = ops.gather(np.repeat(np.arange(classes, dtype=np.float32), size), order)
    results = (
        ops.select_v2(ops.reshape(is_valid, (batch, most_kept, 1)), found_boxes, zero),
        ops.select_v2(is_valid, best, zero),
        ops.select_v2(is_valid, found_classes, zero),
    )
    missing = (min(form.total, form.most * classes) if form.pad_per_class else form.total) - most_kept
    valid = ops.sum_(ops.cast(is_valid, out_data_type=DType.i32), np.array([1], np.int32), keep_dims=False)
    return (*(_filled(r, missing) for r in results), valid)


def _of_each_class(
    boxes: Array, scores: Array, size: int, iou_threshold: np.ndarray, score_threshold: Array
) -> tuple[Array, Array, Array]:
    """Select the boxes of each class.   i32[b,classes,size], f32[b,classes,size], i32[b*classes]"""
    batch, count, kinds, _ = boxes.shape
    classes = scores.shape[2]
    by_class = ops.reshape(ops.transpose(boxes, (0, 2, 1, 3)), (batch * kinds, count, 4))
    all_boxes = _parts(with_area(by_class), batch * kinds)
    all_scores = _parts(ops.reshape(ops.transpose(scores, (0, 2, 1)), (batch * classes, count)), batch * classes)
    per_image = [
        ops.non_max_suppression_v5(
            all_boxes[i if kinds == classes else i // classes],
            own,
            np.int32(size),
            iou_threshold,
            score_threshold,
            np.float32(0),
        )
        for i, own in enumerate(all_scores)
    ]
    indices, chosen, counts = (ops.pack(*results) for results in zip(*per_image, strict=True))
    return indices, ops.reshape(chosen, (batch, classes, size)), counts


def _parts(x: Array, count: int) -> Any:
    return [ops.reshape(x, x.shape[1:])] if count == 1 else ops.unpack(x, axis=0)


def _filled(x: Array, missing: int) -> Array:
    """x with zeros behind axis 1."""
    amounts = np.zeros((rank(x), 2), np.int32)
    amounts[1, 1] = missing
    return ops.pad(x, amounts) if missing else x
