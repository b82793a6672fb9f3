"""Rows of lowering/ops/image/detection.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, given


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    """Boxes that overlap now and then.   f32[*shape,4]"""
    rng = np.random.default_rng(seed)
    centre, size = rng.uniform(0, 1, (*shape, 2)), rng.uniform(0.1, 0.6, (*shape, 2))
    return np.concatenate([centre - size / 2, centre + size / 2], axis=-1).astype(np.float32)


def ranked(*shape: int, seed: int = 1) -> np.ndarray:
    """Scores that all differ: which of equal ones comes first is nobody's promise."""
    size = int(np.prod(shape))
    order = np.random.default_rng(seed).permutation(size)
    return ((order + 0.5) / size).astype(np.float32).reshape(shape)


BOXES, SCORES = given(drawn(20)), given(ranked(20))
# Two that touch, the same two with other corners first, one without area twice, one without width, one inside.
ODD = given(
    [[0, 0, 1, 1], [1, 0, 2, 1], [1, 1, 0, 0], [2, 0, 1, 1], [5, 5, 5, 5], [5, 5, 5, 5], [0, 3, 1, 3], [0, 0, 1, 0.5]]
)
ODD_SCORES = given(ranked(8))
# Their overlap is 0.5 exactly: the threshold itself does not suppress.
HALVES = given([[0, 0, 1, 1], [0, 0, 1, 2]]), given([0.9, 0.8])
TIED = given([1, 0.5, 1, 0.5, 1, 1, 0.5, 0.5, 1, 1, 0.25, 1, 0.5, 1, 1, 1, 0.5, 1, 1, 0.5])
EMPTY = Operand(DType.f32, (0, 4)), Operand(DType.f32, (0,))
SIGMA = const(np.float32(0))


def threshold(value: float) -> Operand:
    """A constant scalar."""
    return const(np.float32(value))


HALF_BOXES = given(np.round(drawn(9) * 64) / 64, DType.f16), given(ranked(9), DType.f16)


def half(value: float) -> Operand:
    """A constant scalar in f16."""
    return const(np.float16(value))


PADDED: dict[str, Any] = {"pad_to_max_output_size": True}
NONE = "get_tensor refuses an empty tensor that is dynamic"

CASES: tuple[Case, ...] = (
    case("NonMaxSuppression", args=[BOXES, SCORES, const(6)], iou_threshold=0.3),
    *(
        case("NonMaxSuppressionV4", args=[boxes, scores, const(20), given(np.float32(t)), threshold(0.1)], **PADDED)
        for boxes, scores in ((BOXES, TIED), (ODD, ODD_SCORES))
        for t in (0.0, 0.4, 1.0)
    ),
    case("NonMaxSuppressionV3", args=[BOXES, SCORES, const(4), threshold(1), threshold(0.3)]),
    case("NonMaxSuppressionV3", args=[*HALVES, const(2), given(np.float32(0.5)), threshold(0)]),
    case("NonMaxSuppressionV3", args=[BOXES, SCORES, const(4), given(np.float32(1)), threshold(0.3)]),
    case("NonMaxSuppressionV2", args=[BOXES, SCORES, const(6), threshold(0.3)]),
    case("NonMaxSuppressionV3", args=[BOXES, SCORES, const(6), threshold(0.3), threshold(-np.inf)], dynamic=True),
    case("NonMaxSuppressionV3", args=[BOXES, SCORES, const(20), threshold(0.6), threshold(0.4)]),
    case("NonMaxSuppressionV5", args=[*HALF_BOXES, const(5), *map(half, (0.5, 0.1, 0))], **PADDED),
    case("NonMaxSuppressionV3", args=[ODD, ODD_SCORES, const(8), threshold(0.2), threshold(0)], dynamic=True),
    *(case("NonMaxSuppressionV3", args=[BOXES, TIED, const(20), threshold(t), threshold(0.3)]) for t in (0.1, 0.8)),
    case("NonMaxSuppressionV4", args=[BOXES, TIED, const(20), threshold(0.3), threshold(0.3)], dynamic=True, **PADDED),
    case("NonMaxSuppressionV3", args=[*HALVES, const(2), threshold(0.5), threshold(0)]),
    case("NonMaxSuppressionV3", args=[ODD, ODD_SCORES, const(8), threshold(0), threshold(0)]),
    case("NonMaxSuppressionV3", args=[BOXES, SCORES, const(4), threshold(0.5), threshold(2)], litert=NONE),
    case("NonMaxSuppressionV3", args=[*EMPTY, const(4), threshold(0.5), threshold(0)], litert=NONE),
    *(
        case("NonMaxSuppressionV4", args=[BOXES, SCORES, const(9), threshold(t), threshold(s)], dynamic=True, **PADDED)
        for t, s in ((0.1, 0.2), (0.5, -np.inf), (0.9, 0.5))
    ),
    case("NonMaxSuppressionV4", args=[BOXES, SCORES, const(9), threshold(0.4), threshold(0.1)]),
    case("NonMaxSuppressionV4", args=[ODD, ODD_SCORES, const(12), threshold(0.4), threshold(0.1)], **PADDED),
    case("NonMaxSuppressionV4", args=[*EMPTY, const(4), threshold(0.5), threshold(0)], **PADDED),
    case("NonMaxSuppressionV5", args=[BOXES, SCORES, const(9), threshold(0.4), threshold(0.1), SIGMA], **PADDED),
    case("NonMaxSuppressionV5", args=[BOXES, SCORES, const(9), threshold(0.4), threshold(0.1), SIGMA], dynamic=True),
    case("NonMaxSuppressionV5", args=[ODD, ODD_SCORES, const(12), threshold(0.4), threshold(0.1), SIGMA], **PADDED),
    *(
        case(
            "NonMaxSuppressionV5",
            args=[BOXES, SCORES, const(n), threshold(0.4), threshold(0.1), threshold(s)],
            **PADDED,
        )
        for n, s in ((9, 0.5), (20, 0.2))
    ),
)
