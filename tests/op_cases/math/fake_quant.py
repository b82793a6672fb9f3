"""Rows of lowering/ops/math/fake_quant.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases.case import Case, case, const, f32, given

VALUES = given([-7.0, -6.0, -5.99, -1.0, -0.03, 0.0, 0.01, 0.03, 1.0, 5.97, 6.0, 9.0])
RANGES = [(-6.0, 6.0), (-1.0, 2.5), (0.0, 4.0), (0.3, 4.0), (-3.0, -0.5)]
LOWS, HIGHS = np.array([[-1, -2, 0], [1, 3, 4]], np.float32)
NARROW: dict[str, Any] = {"num_bits": 4, "narrow_range": True}


CASES: tuple[Case, ...] = (
    case("FakeQuantWithMinMaxArgs", args=[VALUES]),
    case("FakeQuantWithMinMaxArgs", args=[f32(2, 3)], dynamic=True, min=-1.0, max=1.5, num_bits=4),
    case("FakeQuantWithMinMaxArgs", args=[f32(2, 3)], narrow_range=True),
    *(
        case("FakeQuantWithMinMaxVars", args=[VALUES, const(np.float32(a)), const(np.float32(b))], **options)
        for a, b in RANGES
        for options in ({}, NARROW)
    ),
    case("FakeQuantWithMinMaxVars", args=[f32(2, 3), const(np.float32(-1)), const(np.float32(1))], dynamic=True),
    case("FakeQuantWithMinMaxVars", args=[f32(2, 3), given(-1.0), given(1.5)], dynamic=True),
    case("FakeQuantWithMinMaxVars", args=[f32(2, 3), const(np.float32(0)), const(np.float32(0))]),
    case("FakeQuantWithMinMaxVarsPerChannel", args=[f32(2, 4, 3), const(LOWS), const(HIGHS)], dynamic=True),
    case("FakeQuantWithMinMaxVarsPerChannel", args=[f32(2, 3), given(LOWS), given(HIGHS)], num_bits=4),
    case("FakeQuantWithMinMaxVarsPerChannel", args=[f32(3), const(LOWS), const(HIGHS)], narrow_range=True),
)
