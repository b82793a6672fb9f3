"""`tf.image.non_max_suppression_padded` as one operator: TensorFlow's answers for boxes of any kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import NotFused
from jfuse.lowering.composites.suppression import fuse_padded_suppression
from tests.end_to_end.invokes import check_invokes

Random = np.random.Generator


def corners(low: float, high: float) -> Callable[[Random, int], np.ndarray]:
    """Boxes whose second corner is beyond the first."""
    return lambda rng, n: np.sort(rng.uniform(low, high, (n, 2, 2)), axis=1).reshape(n, 4)


def crowded(rng: Random, n: int) -> np.ndarray:
    """Boxes around few centres."""
    centres = rng.uniform(0, 1, (2, 2))[np.arange(n) % 2] + rng.normal(0, 0.02, (n, 2))
    return np.concatenate([centres - 0.1, centres + 0.1], 1)


KINDS: dict[str, Callable[[Random, int], np.ndarray]] = {
    "shares": corners(0, 1),
    "pixels": corners(0, 600),
    "below-0": corners(-2, 0.3),
    "any-order": lambda rng, n: rng.normal(size=(n, 4)),
    "swapped": lambda rng, n: corners(0, 1)(rng, n)[:, [2, 3, 0, 1]],
    "flat": lambda rng, n: np.repeat(rng.uniform(0, 1, (n, 2)), 2, axis=1)[:, [0, 2, 1, 3]],
    "crowded": crowded,
}
OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"score_threshold": 0.3},
    {"canonicalized_coordinates": True},
    {"sorted_input": True},
    {"max_output_size": 9},
)


@pytest.mark.parametrize("kind", KINDS)
def test_as_tensorflow(kind: str) -> None:
    rng = np.random.default_rng(0)
    for options in OPTIONS:
        for _ in range(3):
            boxes = KINDS[kind](rng, 7).astype(np.float32)
            scores = np.round(rng.uniform(0, 1, 7), 1).astype(np.float32)
            scores = -np.sort(-scores) if "sorted_input" in options else scores
            given = {"max_output_size": 4, "iou_threshold": 0.4, **options}
            wanted = tf.image.non_max_suppression_padded(boxes, scores, pad_to_max_output_size=True, **given)
            (found,), count = fuse_padded_suppression(boxes, scores, **given)
            np.testing.assert_array_equal(found, wanted[0])
            assert count == wanted[1]


@pytest.mark.slow
def test_in_the_file() -> None:
    def chosen(boxes: Any, scores: Any) -> Any:
        places, count = tf.image.non_max_suppression_padded(boxes, scores, 3, 0.4, 0.1, pad_to_max_output_size=True)
        return {"boxes": tf.gather(boxes, places), "count": count}

    specs = [tf.TensorSpec([6, 4], name="boxes"), tf.TensorSpec([6], name="scores")]
    source = tf.function(chosen, input_signature=specs, autograph=False)
    lite = jfuse.convert(source, rules=[fuse_padded_suppression])
    assert (lite.report.operators["non_max_suppression_v4"], "while" in lite.report.operators) == (1, False)
    assert lite.report.fused[0].samples == 64
    rng = np.random.default_rng(1)
    check_invokes(lite, lambda n: {"boxes": crowded(rng, 6).astype(np.float32), "scores": rng.random(6, np.float32)})


@pytest.mark.parametrize(
    ("boxes", "given"),
    [
        ((2, 5, 4), {}),
        ((0, 4), {}),
        ((5, 4), {"iou_threshold": 0.0}),
        ((5, 4), {"max_output_size": 0}),
    ],
)
def test_what_is_no_operator_is_refused(boxes: Any, given: dict[str, Any]) -> None:
    operands = [np.zeros(shape, np.float32) for shape in (boxes, boxes[:-1])]
    with pytest.raises(NotFused, match="suppression_operands"):
        fuse_padded_suppression(*operands, **{"max_output_size": 3, "iou_threshold": 0.5, **given})
