"""`tf.image.non_max_suppression_padded` as one operator, on request: `rules=[fuse_padded_suppression]`.

TensorFlow's loops add 1e-8 to the union of two boxes before they divide by it. Where the union is 1/4 or more, as in
pixels, that rounds to the union itself; smaller boxes whose overlap is as near to the threshold as that are told apart
differently. So the rule is no default.
"""

from __future__ import annotations

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.image.detection import apart
from jfuse.lowering.rule_tools.query import dtype, rank, type_of
from jfuse.lowering.rules import fuses, need

_LOOPS = {"compare", "select", "cast", "clip", "round", "mod"}


@fuses("non_max_suppression_padded_v2", claims=_LOOPS, makes=("NON_MAX_SUPPRESSION_V4",), default=False)
def fuse_padded_suppression(
    boxes: Array,
    scores: Array,
    *,
    max_output_size: int,
    iou_threshold: float,
    score_threshold: float = -np.inf,
    sorted_input: bool = False,
    canonicalized_coordinates: bool = False,
    tile_size: int = 512,
) -> tuple[Array, Array]:
    """The places of the chosen boxes, best first and filled up with 0, and their number -> NON_MAX_SUPPRESSION_V4.

    boxes: f32[n,4], scores: f32[n] -> i32[1,max_output_size], i32[]. As in TensorFlow, all boxes have
    their corners in the order of the first box. Boxes without area overlap nothing. Boxes without a coordinate above 0
    suppress others and are not chosen.
    """
    types = f"{type_of(boxes)}, {type_of(scores)}"
    need(rank(boxes) == 2 and rank(scores) == 1, "suppression_operands", want="the boxes of one image", got=types)
    need(dtype(boxes) is dtype(scores) is DType.f32, "suppression_operands", want="f32", got=types)
    count = boxes.shape[0]
    need(is_known(count) and count > 0, "suppression_operands", want="a known number of boxes", got=types)
    need(0 < iou_threshold < 1, "suppression_operands", want="an IoU threshold between 0 and 1", got=iou_threshold)
    need(max_output_size > 0, "suppression_operands", want="a result of one box or more", got=max_output_size)
    n = int(count)
    if score_threshold != -np.inf:
        counts = ops.cast(ops.greater(scores, np.float32(score_threshold)), out_data_type=DType.f32)
        scores, boxes = ops.mul(scores, counts), ops.mul(boxes, ops.expand_dims(counts, np.int32(1)))
    if not canonicalized_coordinates:
        boxes = _in_the_order_of_the_first(boxes)
    order = np.arange(n, dtype=np.int32)
    if not sorted_input:
        _, order = ops.topk_v2(scores, np.int32(n))
        boxes = ops.gather(boxes, order, axis=0)
    places, total = ops.non_max_suppression_v4(
        apart(boxes),
        np.arange(n, 0, -1, dtype=np.float32),
        np.int32(n),
        np.float32(iou_threshold),
        np.float32(0),
    )
    has_place = ops.reduce_any(ops.greater(boxes, np.float32(0)), np.array([1], np.int32))
    numbers = np.arange(n, dtype=np.int32)
    is_chosen = ops.logical_and(ops.less(numbers, total), ops.gather(has_place, places, axis=0))
    chosen = ops.sum_(ops.cast(is_chosen, out_data_type=DType.i32), np.zeros(1, np.int32))
    # The chosen ones come first, in their order.
    best, _ = ops.topk_v2(ops.select_v2(is_chosen, n - numbers, np.int32(0)), np.int32(min(n, max_output_size)))
    is_found = ops.greater(best, np.int32(0))
    at = ops.gather(places, ops.select_v2(is_found, ops.sub(np.int32(n), best), np.int32(0)), axis=0)
    result = ops.select_v2(is_found, at if sorted_input else ops.gather(order, at, axis=0), np.int32(0))
    if max_output_size > n:
        result = ops.pad(result, np.array([[0, max_output_size - n]], np.int32))
    return ops.expand_dims(result, np.int32(0)), ops.minimum(chosen, np.int32(max_output_size))


def _in_the_order_of_the_first(boxes: Array) -> Array:
    """Boxes f32[n,4] whose corners change places along each axis where they must do so in the first box."""
    one, other = ops.split(np.int32(1), boxes, num_splits=2)
    begin, end, ones = (np.array(v, np.int32) for v in ([0, 0], [1, 2], [1, 1]))
    first, opposite = (ops.strided_slice(corner, begin, end, ones) for corner in (one, other))
    ordered = ops.less_equal(first, opposite)
    return ops.concatenation(ops.select_v2(ordered, one, other), ops.select_v2(ordered, other, one), axis=1)
