"""Choosing among boxes that overlap: NON_MAX_SUPPRESSION_V4 and NON_MAX_SUPPRESSION_V5."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, Static, namespace, tfl


@tfl("NON_MAX_SUPPRESSION_V4", sized_by_data=True, switch="compare")
def non_max_suppression_v4(
    boxes: Array, scores: Array, max_output_size: Static, iou_threshold: Array, score_threshold: Array, /
) -> tuple[Array, Array]:
    """The best boxes, each only where its overlap with every better one is less than iou_threshold.

    boxes: f[n,4], two opposite corners each; scores: f[n]; max_output_size: i32[]; thresholds: f[]. Results:
    i32[max_output_size], filled up with 0, and how many were chosen, i32[]. Only scores above score_threshold count.
    A box without area overlaps nothing, not even itself: the runtime chooses it over and over again. Of equal scores
    the first is taken here; the runtime's order of them is that of its heap.
    Source: tflite/kernels/non_max_suppression.cc
    """
    sigma = np.zeros((), boxes.dtype)
    indices, _, count = _chosen(boxes, scores, max_output_size, iou_threshold, score_threshold, sigma)
    return indices, count


@tfl("NON_MAX_SUPPRESSION_V5", sized_by_data=True, switch="compare")
def non_max_suppression_v5(
    boxes: Array,
    scores: Array,
    max_output_size: Static,
    iou_threshold: Array,
    score_threshold: Array,
    soft_nms_sigma: Array,
    /,
) -> tuple[Array, Array, Array]:
    """NON_MAX_SUPPRESSION_V4 whose scores fade with each overlap where soft_nms_sigma is above 0.

    A score is multiplied by exp(-overlap^2 / (2 sigma)). Results: i32[max_output_size], the scores that led to the
    choice f[max_output_size], both filled up with 0, and how many were chosen, i32[].
    Source: tflite/kernels/non_max_suppression.cc
    """
    return _chosen(boxes, scores, max_output_size, iou_threshold, score_threshold, soft_nms_sigma)


def _chosen(
    boxes: Array, scores: Array, size: int, iou_threshold: Array, score_threshold: Array, sigma: Array
) -> tuple[Array, Array, Array]:
    xp = namespace(boxes, scores, iou_threshold, score_threshold, sigma)
    none, nothing, zero = np.zeros((), np.int32), np.zeros((), scores.dtype), np.zeros((), boxes.dtype)
    if 0 in (len(boxes), size):
        return np.zeros(size, np.int32), np.zeros(size, scores.dtype), none
    low, high = xp.minimum(boxes[:, :2], boxes[:, 2:]), xp.maximum(boxes[:, :2], boxes[:, 2:])
    area = xp.prod(high - low, axis=1)
    alive = scores > score_threshold
    most = xp.minimum(xp.sum(alive, dtype=np.int32), np.int32(size))
    scale = xp.where(sigma > 0, np.asarray(-0.5, scores.dtype) / xp.where(sigma > 0, sigma, 1), nothing)

    def choose(state: tuple[Array, ...], _: Any = None) -> tuple[tuple[Array, ...], tuple[Array, Array]]:
        alive, scores, count = state
        best = xp.argmax(xp.where(alive, scores, -np.inf)).astype(np.int32)
        goes_on = alive[best] & (count < most)
        shared = xp.minimum(high, high[best]) - xp.maximum(low, low[best])
        common = xp.prod(xp.maximum(shared, zero), axis=1)
        overlap = xp.where((area > 0) & (area[best] > 0), common / (area + area[best] - common), zero)
        faded = xp.where(sigma > 0, scores * xp.exp(scale * overlap * overlap), scores)
        left = alive & ~(overlap >= iou_threshold) & (faded > score_threshold)  # NaN suppresses nothing
        following = (xp.where(goes_on, left, alive), xp.where(goes_on, faded, scores), count + goes_on.astype(np.int32))
        return following, (xp.where(goes_on, best, none), xp.where(goes_on, scores[best], nothing))

    state: tuple[Array, ...] = (alive, scores, none)
    if xp is np:
        rows = []
        for _ in range(size):
            state, row = choose(state)
            rows.append(row)
        indices, chosen = map(np.stack, zip(*rows, strict=True))
    else:
        state, (indices, chosen) = jax.lax.scan(choose, tuple(map(jnp.asarray, state)), length=size)
    return indices, chosen, state[2]


@non_max_suppression_v4.types
def _v4_types(
    boxes: TensorType, scores: TensorType, max_output_size: Any, *thresholds: TensorType
) -> tuple[TensorType, ...]:
    indices, _, count = _chosen_types(boxes, scores, max_output_size, *thresholds)
    return indices, count


@non_max_suppression_v5.types
def _v5_types(
    boxes: TensorType, scores: TensorType, max_output_size: Any, *thresholds: TensorType
) -> tuple[TensorType, ...]:
    return _chosen_types(boxes, scores, max_output_size, *thresholds)


def _chosen_types(
    boxes: TensorType, scores: TensorType, max_output_size: Any, *thresholds: TensorType
) -> tuple[TensorType, TensorType, TensorType]:
    if (boxes.rank, scores.rank) != (2, 1) or any(t.rank for t in thresholds):
        raise TypeMismatch(
            "non-maximum suppression takes boxes f[n,4], scores f[n] and thresholds f[]", found=f"{boxes}, {scores}"
        )
    agreed(boxes.shape[0], scores.shape[0])
    agreed(boxes.shape[1], 4)
    chosen = TensorType((max_output_size,), DType.i32)
    return chosen, TensorType((max_output_size,), scores.dtype), TensorType((), DType.i32)
