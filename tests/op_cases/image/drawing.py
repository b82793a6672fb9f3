"""Rows of lowering/ops/image/drawing.py."""

from __future__ import annotations

from tests.op_cases.case import Case, case, f32, given, weights

BOXES = given([[[0.2, 0.1, 0.7, 0.6], [-0.5, 0.3, 1.5, 0.8], [0.9, 0.9, 0.1, 0.1], [0.5, 0, 0.5, 2]]] * 2)

CASES: tuple[Case, ...] = (
    case("DrawBoundingBoxes", args=[f32(2, 6, 7, 3), BOXES]),
    case("DrawBoundingBoxes", args=[f32(2, 6, 7, 1), BOXES]),
    case("DrawBoundingBoxesV2", args=[f32(2, 6, 7, 3), BOXES, weights(2, 4)]),
    case("DrawBoundingBoxesV2", args=[f32(2, 9, 8, 3), f32(2, 12, 4, low=-0.2, high=1.2), f32(3, 3)]),
)
