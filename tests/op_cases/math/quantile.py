"""Rows of lowering/ops/math/quantile.py."""

from __future__ import annotations

import numpy as np

from tests.op_cases.case import Case, case, given
from tests.op_cases.math.elementwise import CLAMPED, unary

CASES: tuple[Case, ...] = (
    *unary("Erfinv", low=-0.99, high=0.99),
    case("Erfinv", args=[given([0.0, 0.1, -0.5, 0.9, -0.99, 1 - 2**-10, 1 - 2**-17, 2**-24 - 1])]),
    case("Erfinv", args=[given([1.5, -2.0, np.nan])]),
    case("Erfinv", args=[given([1.0, -1.0])], litert=CLAMPED),
    *unary("Ndtri", low=0.01, high=0.99),
    case("Ndtri", args=[given([2e-38, 1e-30, 1e-10, 1e-5, 0.1, 0.25, 0.5, 0.9, 0.999, 0.9999999])]),
    case("Ndtri", args=[given([1.5, -2.0, np.nan])]),
    case("Ndtri", args=[given([0.0, 1.0])], litert=CLAMPED),
)
