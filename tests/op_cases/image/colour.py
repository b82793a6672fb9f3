"""Rows of lowering/ops/image/colour.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, const, f32, given

IMAGE = f32(2, 3, 4, 2)
COLOURS = f32(2, 2, 5, 3, low=0, high=1)
# Grey, black, white, pure and mixed colours, and two equal channels of each pair.
PIXELS = [
    *([0.5, 0.5, 0.5], [0, 0, 0], [1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1], [0.2, 0.2, 0.7], [0.7, 0.2, 0.2]),
    *([0.2, 0.7, 0.2], [0.7, 0.7, 0.1], [0.1, 0.7, 0.7], [0.7, 0.1, 0.7], [0.3, 0.9, 0.6], [0.9, 0.3, 0.5]),
]

CASES: tuple[Case, ...] = (
    case("RGBToHSV", args=[COLOURS], dynamic=True),
    case("RGBToHSV", args=[given(PIXELS)]),
    # 4e-3: each of a dozen steps rounds to 11 bits, in TensorFlow all of them at once.
    case("RGBToHSV", args=[given(PIXELS[:3], DType.f16)], tolerance=4e-3),
    case("HSVToRGB", args=[given(PIXELS[-3:], DType.f16)], tolerance=4e-3),
    case("HSVToRGB", args=[COLOURS], dynamic=True),
    case("HSVToRGB", args=[given([[h, s, v] for h in (0, 0.25, 0.5, 0.9, 1) for s in (0, 0.4, 1) for v in (0, 0.7)])]),
    # 4e-6: hue goes round by way of sixths of the circle, up to 6.
    *(case("AdjustHue", args=[COLOURS, const(np.float32(d))], dynamic=True, tolerance=4e-6) for d in (0.3, -0.9)),
    case("AdjustHue", args=[given([PIXELS]), f32(low=-1, high=1)], tolerance=4e-6),
    *(case("AdjustSaturation", args=[COLOURS, const(np.float32(s))], dynamic=True) for s in (0.4, 0, 3)),
    case("AdjustSaturation", args=[given([PIXELS]), f32(low=0, high=2)]),
    case("AdjustContrastv2", args=[IMAGE, const(np.float32(1.7))], dynamic=True),
    case("AdjustContrastv2", args=[f32(3, 4, 3), f32()]),
)
