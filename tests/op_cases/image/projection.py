"""Rows of lowering/ops/image/projection.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, given
from tests.op_cases.image.resize import IMAGE, integers

SHIFTS = [[1, 0, -1.5, 0, 1, 0.25, 0, 0], [0.5, 0.25, 1, -0.25, 0.5, 2, 0, 0]]
PERSPECTIVE = [[0.9, 0.2, -3.3, 0.1, 1.2, -7.3, 0.01, 0.02]]


def projected(transforms: Any, interpolation: str, mode: str, image: Operand = IMAGE, **options: Any) -> Case:
    """A transform of IMAGE into another size."""
    args = [image, given(transforms), const((4, 9)), const(np.float32(3.0))]
    attributes: dict[str, Any] = {"interpolation": interpolation, "fill_mode": mode}
    return case("ImageProjectiveTransformV3", args=args, **options, **attributes)


# 1e-5: places far from 0 have lost digits that the difference to the next pixel keeps.
FAR = 1e-5
MODES = ("CONSTANT", "NEAREST", "REFLECT", "WRAP")

CASES: tuple[Case, ...] = (
    *(projected(SHIFTS, "BILINEAR", mode, tolerance=FAR) for mode in MODES),
    *(projected(SHIFTS, "NEAREST", mode) for mode in MODES),
    projected(PERSPECTIVE, "BILINEAR", "CONSTANT", dynamic=True, tolerance=FAR),
    projected(PERSPECTIVE, "BILINEAR", "REFLECT", tolerance=FAR),
    projected(PERSPECTIVE, "NEAREST", "REFLECT", dynamic=True),
    projected(SHIFTS[:1], "NEAREST", "CONSTANT", integers(DType.u8, 2, 3, 4, 1)),
    projected(SHIFTS[:1], "BILINEAR", "CONSTANT", integers(DType.u8, 2, 3, 4, 1)),
    case(
        "ImageProjectiveTransformV2",
        args=[IMAGE, given(SHIFTS), const((3, 4))],
        interpolation="BILINEAR",
        tolerance=FAR,
    ),
)
