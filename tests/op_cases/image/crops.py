"""Rows of lowering/ops/image/patches.py."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, const, f32, given
from tests.op_cases.image.resize import integers


def cropped(boxes: Any, size: tuple[int, int], **attributes: Any) -> Case:
    """Boxes of two images."""
    args = [f32(2, 5, 9, 2), given(boxes), given([1, 0, 1][: len(boxes)], DType.i32), const(size)]
    return case("CropAndResize", args=args, **attributes)


# Sizes are such that places come out without rounding: whether one lies beyond the edge is decided by the last digit.
CORNER = [[0, 0, 1, 1], [0.25, 0.125, 0.75, 0.875], [1, 1, 0, 0]]
BEYOND = [[-0.5, -0.25, 0.5, 0.75], [0.5, 0.5, 1.5, 1.5], [0.3, 0.2, 0.8, 0.9]]

CASES: tuple[Case, ...] = (
    cropped(CORNER, (3, 5), dynamic=True),
    cropped(BEYOND, (4, 3)),
    cropped(BEYOND, (4, 3), method="nearest", extrapolation_value=-1.5),
    cropped(CORNER, (5, 9), method="nearest"),
    cropped(CORNER, (1, 1)),
    cropped(BEYOND[:1], (1, 4), extrapolation_value=7.0),
    case(
        "CropAndResize",
        args=[integers(DType.u8, 1, 4, 4, 3), given(CORNER[:2]), const([0, 0]), const([2, 2])],
    ),
)
