"""Rows of lowering/ops/math/trigonometry.py."""

from __future__ import annotations

import numpy as np

from tests.op_cases.case import Case, case, f32, given
from tests.op_cases.every_dtype import in_double, of_floats
from tests.op_cases.every_rank import empty, ranks
from tests.op_cases.math.elementwise import CLAMPED, unary

TINY = [0.0, 1e-30, -1e-30, 1e-7, -1e-7, 3e-4, -0.01]
LIMITS = [np.inf, -np.inf, np.nan]

CASES: tuple[Case, ...] = (
    case("Atan2", args=[f32(2, 3), f32(2, 3)], dynamic=True),
    case("Atan2", args=[f32(2, 1), f32(1, 3)]),
    case("Atan2", args=[f32(2, 3), f32(3)], dynamic=True),
    case("Atan2", args=[f32(), f32(2, 1, 2)]),
    case("Atan2", args=[given([0.0, -0.0, 0.0, -0.0, 1.0, -1.0]), given([1.0, 1.0, -1.0, -1.0, 0.0, 0.0])]),
    case("Atan2", args=[given([np.inf, np.inf, 1.0, -1.0, np.nan]), given([np.inf, -np.inf, np.inf, -np.inf, 1.0])]),
    *unary("Atan", low=-9, high=9),
    case("Atan", args=[given([*TINY, *LIMITS, 1e30])]),
    *unary("Asin", low=-1, high=1),
    case("Asin", args=[given([*TINY, 1.0, -1.0, 0.9999999, -0.9999999])]),
    case("Asin", args=[given([1.5, -2.0, np.nan])]),
    *unary("Acos", low=-1, high=1),
    case("Acos", args=[given([*TINY, 1.0, -1.0, 0.9999999, -0.9999999])]),
    case("Acos", args=[given([1.5, -2.0, np.nan])]),
    *unary("Tan", low=-1.5, high=1.5),
    case("Tan", args=[given([*TINY, 3.0, -3.2, 100.0])]),
    case("Tan", args=[given(LIMITS)], litert=CLAMPED),
    *unary("Sinh", low=-9, high=9),
    case("Sinh", args=[given([*TINY, 1.0, -1.0])]),
    *(case("Sinh", args=[given([x])]) for x in (89.0, -89.0)),
    case("Sinh", args=[given(LIMITS)], litert=CLAMPED),
    *unary("Cosh", low=-9, high=9),
    case("Cosh", args=[given([*TINY, 1.0, -1.0])]),
    *(case("Cosh", args=[given([x])]) for x in (89.0, -89.0)),
    case("Cosh", args=[given(LIMITS)], litert=CLAMPED),
    *unary("Asinh", low=-9, high=9),
    *(case("Asinh", args=[given([x])]) for x in TINY),
    case("Asinh", args=[given([1e3, 1e4, 2e4, 1e19, 1e30, -1e38])]),
    case("Asinh", args=[given(LIMITS)], litert=CLAMPED),
    *unary("Acosh", low=1, high=9),
    *(case("Acosh", args=[given([x])]) for x in (1.0, 1.0000001, 1.001)),
    case("Acosh", args=[given([1e3, 1e4, 2e4, 1e19, 1e30, 1e38])]),
    case("Acosh", args=[given([0.5, -2.0, *LIMITS])], litert=CLAMPED),
    *unary("Atanh", low=-0.99, high=0.99),
    *(case("Atanh", args=[given([x])]) for x in (*TINY, 0.9999999, -0.9999999)),
    case("Atanh", args=[given([1.0, -1.0, 2.0, np.nan])], litert=CLAMPED),
    *ranks("Atan2", f32),
    *empty("Atan2", f32),
    *of_floats("Atan2", 2),
    *(row for op in ("Tan", "Asinh") for row in of_floats(op)),
    *(row for op in ("Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Atanh") for row in in_double(op)),
)
