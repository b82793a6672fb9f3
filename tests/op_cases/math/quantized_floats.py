"""Rows of lowering/ops/math/fake_quant.py."""

from __future__ import annotations

import numpy as np

from tests.op_cases.case import Case, case, const, f32, given
from tests.op_cases.math.fake_quant import VALUES

BOUNDS = [const(np.float32(-1)), const(np.float32(1.5))]


def symmetric(op: str) -> list[Case]:
    """Ranges given and found, signed and not, rounded both ways, along an axis."""
    return [
        case(op, args=[VALUES, *BOUNDS], range_given=True),
        case(op, args=[VALUES, *BOUNDS], range_given=True, signed_input=False, num_bits=4),
        case(op, args=[VALUES, *BOUNDS], range_given=True, narrow_range=True, round_mode="HALF_UP"),
        case(op, args=[VALUES, const(np.float32(-3)), const(np.float32(0.5))], range_given=True),
        case(op, args=[f32(2, 3), *BOUNDS], dynamic=True, range_given=False),
        case(op, args=[f32(2, 3), given(-1.0), given(1.5)], dynamic=True, range_given=True),
        case(op, args=[f32(2, 3, 2), *BOUNDS], dynamic=True, range_given=False, axis=1),
    ]


CASES: tuple[Case, ...] = (
    *symmetric("QuantizeAndDequantizeV2"),
    *symmetric("QuantizeAndDequantizeV4"),
    case("QuantizeAndDequantizeV3", args=[VALUES, *BOUNDS, const(np.int32(8))], range_given=True),
    case("QuantizeAndDequantizeV3", args=[f32(2, 3), *BOUNDS, const(np.int32(5))], dynamic=True, range_given=False),
)
