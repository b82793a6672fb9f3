"""Non-maximum suppression of overlapping boxes, one class or all together.

TFLite's kernels differ from TensorFlow's in ways that the rules make up for: an overlap equal to the threshold
suppresses, a box without area is chosen again and again, equal scores come in any order, and results are filled up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.image.resize import as_f32
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.operands import sizes_operand
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, size_tensor
from jfuse.lowering.rules import lowers

_IN_FILE = 1 << 12  # boxes: 64 KiB for four numbers of each
LOWEST = np.finfo(np.float32).min
# Times k, for k up to 2**20: boxes beyond all others, none over another, with areas that are finite.
_FAR_BOX = np.array([1, 0, 1 + 2.0**-20, 1], np.float32) * np.float32(1e12)


@lowers("NonMaxSuppression")
def lower_non_max_suppression(
    boxes: Array, scores: Array, max_output_size: Array, *, iou_threshold: float = 0.5
) -> Array:
    """The places of the chosen boxes, best first.   f32[n,4], f32[n] -> i32[chosen]"""
    return lower_non_max_suppression_v3(boxes, scores, max_output_size, np.float32(iou_threshold), LOWEST)


@lowers("NonMaxSuppressionV2")
def lower_non_max_suppression_v2(boxes: Array, scores: Array, max_output_size: Array, iou_threshold: Array) -> Array:
    """The places of the chosen boxes, best first.   f[n,4], f[n] -> i32[chosen]"""
    return lower_non_max_suppression_v3(boxes, scores, max_output_size, iou_threshold, LOWEST)


@lowers("NonMaxSuppressionV3")
def lower_non_max_suppression_v3(
    boxes: Array, scores: Array, max_output_size: Array, iou_threshold: Array, score_threshold: Array
) -> Array:
    """The places of the chosen boxes, best first.   f[n,4], f[n] -> i32[chosen]"""
    return suppressed(boxes, scores, max_output_size, iou_threshold, score_threshold, padded=False)[0]


@lowers("NonMaxSuppressionV4")
def lower_non_max_suppression_v4(
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    *,
    pad_to_max_output_size: bool = False,
) -> Any:
    """The places of the chosen boxes, and how many they are."""
    return suppressed(boxes, scores, max_output_size, iou_threshold, score_threshold, padded=pad_to_max_output_size)


@lowers("NonMaxSuppressionV5")
def lower_non_max_suppression_v5(
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array,
    soft_nms_sigma: Array,
    *,
    pad_to_max_output_size: bool = False,
) -> Any:
    """Places, scores and number of the chosen boxes.

    Where scores fade with overlap (NON_MAX_SUPPRESSION_V5), TensorFlow suppresses no box for good, whatever the
    threshold is; of boxes that are equal in all corners TFLite chooses one, and of equal scores any.
    """
    if is_constant(soft_nms_sigma) and float(soft_nms_sigma) <= 0:
        indices, count = suppressed(
            boxes, scores, max_output_size, iou_threshold, score_threshold, padded=pad_to_max_output_size
        )
        chosen = ops.gather(_never_empty(scores) if pad_to_max_output_size else scores, indices, axis=0)
        if pad_to_max_output_size:
            chosen = ops.select_v2(_is_chosen(indices, count), chosen, scalar(0, scores))
        return indices, chosen, count
    indices, chosen, count = ops.non_max_suppression_v5(
        with_area(as_f32(boxes)),
        as_f32(scores),
        sizes_operand(max_output_size),
        np.float32(1),
        as_f32(score_threshold),
        as_f32(soft_nms_sigma),
    )
    if not pad_to_max_output_size:
        indices, chosen = _first(count, indices, chosen)
    dtype_ = dtype(scores)
    return indices, chosen if dtype_ is DType.f32 else ops.cast(chosen, out_data_type=dtype_), count


def suppressed(
    boxes: Array,
    scores: Array,
    max_output_size: Array,
    iou_threshold: Array,
    score_threshold: Array | None,
    *,
    padded: bool,
) -> tuple[Array, Array]:
    """NON_MAX_SUPPRESSION_V4 of boxes in the order of their scores, with numbers that all differ for these.

    Of equal scores TensorFlow takes the first, TFLite any. Boxes whose score does not count get the number 0; without
    a threshold all count.
    """
    agreed(boxes.shape[0], scores.shape[0])
    size, scores = sizes_operand(max_output_size), as_f32(scores)
    sorted_scores, order = ops.topk_v2(scores, size_tensor(scores.shape[0], [scores]))
    if score_threshold is None:
        counts = ops.greater_equal(order, np.int32(0))
    else:
        counts = ops.greater(sorted_scores, as_f32(score_threshold))
    if _is_written(scores.shape[0]):
        numbers: Array = np.arange(scores.shape[0], 0, -1, dtype=np.float32)
        numbers = numbers if score_threshold is None else ops.select_v2(counts, numbers, np.float32(0))
    else:
        numbers = ops.cumsum(ops.cast(counts, out_data_type=DType.f32), np.int32(0), reverse=True)
    sorted_boxes = ops.gather(with_area(as_f32(boxes)), order, axis=0)
    computed = not (is_constant(iou_threshold) and float(iou_threshold) < 1)
    threshold = _above_computed(iou_threshold) if computed else above(iou_threshold)
    chosen, count = ops.non_max_suppression_v4(sorted_boxes, numbers, size, threshold, np.float32(0))
    if computed:  # at 1 equal boxes stay too; beyond 1, which would say so, TFLite chooses one box again and again
        is_everything = ops.greater_equal(as_f32(iou_threshold), np.float32(1))
        total = ops.sum_(ops.cast(counts, out_data_type=DType.i32), np.zeros(1, np.int32))
        count = ops.select_v2(is_everything, ops.minimum(total, size), count)
        all_places = ops.minimum(counted(chosen.shape[0], chosen), size_tensor(scores.shape[0], [scores]))
        chosen = ops.select_v2(is_everything, all_places, chosen)
    if not padded:
        return ops.gather(order, _first(count, chosen)[0], axis=0), count
    places = ops.gather(_never_empty(order), chosen, axis=0)
    return ops.select_v2(_is_chosen(chosen, count), places, np.int32(0)), count


def _never_empty(x: Array) -> Array:
    """A vector with one more element, so that filled-up places lie within it where there are no boxes."""
    return ops.pad(x, np.array([[0, 1]], np.int32))


def _is_chosen(results: Array, count: Array) -> Array:
    """Which of the results are not filled up."""
    return ops.less(counted(results.shape[0], results), count)


def above(threshold: Array) -> np.ndarray:
    """The next number above a threshold: TFLite suppresses at it, TensorFlow beyond it."""
    if not is_constant(threshold) or not float(threshold) < 1:
        raise LowerError(
            "TFLite suppresses overlaps at a threshold, TensorFlow beyond it",
            expected="a constant IoU threshold below 1",
            found=str(type_of(threshold)) if not is_constant(threshold) else float(threshold),
            remedy="give iou_threshold as a number below 1; tf.math.top_k chooses without suppression",
        )
    following = np.nextafter(np.asarray(threshold, np.float32), np.float32(2))
    return np.maximum(following, np.finfo(np.float32).tiny)  # devices may take smaller numbers for 0


def _above_computed(threshold: Array) -> Array:
    """As `above` of a threshold from 0 to 1 that is computed, by its bits; 1 for 1."""
    following = ops.add(ops.bitcast(as_f32(threshold), out_data_type=DType.i32), np.int32(1))
    following_float = ops.bitcast(following, out_data_type=DType.f32)
    return ops.minimum(ops.maximum(following_float, np.finfo(np.float32).tiny), np.float32(1))


def with_area(boxes: Array) -> Array:
    """Boxes with those that have no area moved far away, to a place of their own each, where they get one.

    boxes: f32[...,n,4], n up to 2**20. There as before they suppress no other box, and none suppresses them.
    """
    last = np.asarray(rank(boxes) - 1, np.int32)
    corner, opposite = ops.split(last, boxes, num_splits=2)
    area = ops.reduce_prod(ops.sub(opposite, corner), last.reshape(1), keep_dims=True)
    return _moved_away(boxes, ops.equal(area, np.float32(0)))


def apart(boxes: Array) -> Array:
    """As `with_area`, of boxes whose second corner must be beyond the first: others count as without area."""
    last = np.asarray(rank(boxes) - 1, np.int32)
    corner, opposite = ops.split(last, boxes, num_splits=2)
    least = ops.reduce_min(ops.sub(opposite, corner), last.reshape(1), keep_dims=True)
    return _moved_away(boxes, ops.less_equal(least, np.float32(0)))


def _moved_away(boxes: Array, is_flat: Array) -> Array:
    last = np.asarray(rank(boxes) - 1, np.int32)
    count = boxes.shape[-2]
    if _is_written(count):
        number: Array = np.arange(1, count + 1, dtype=np.float32)[:, None]
    else:
        number = ops.cumsum(ops.cast(is_flat, out_data_type=DType.f32), last - np.int32(1))
    return ops.select_v2(is_flat, ops.mul(number, _FAR_BOX), boxes)


def _is_written(count: Dim) -> bool:
    """Whether numbers for so many boxes are rather constants than counted at run time."""
    return is_known(count) and count <= _IN_FILE


def _first(count: Array, *results: Array) -> tuple[Array, ...]:
    """As many elements of results that are filled up as were chosen."""
    one = np.ones(1, np.int32)
    end = ops.reshape(count, one)
    return tuple(ops.strided_slice(r, one - one, end, one, begin_mask=1) for r in results)


# Non-maximum suppression of many classes at once, image by image.

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
