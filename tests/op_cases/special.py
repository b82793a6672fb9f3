"""Rows of lowering/special.py."""

from __future__ import annotations

import numpy as np

from tests.op_cases.case import Case, case, given
from tests.op_cases.elementwise import CLAMPED, unary

WIDE = [-9.0, -4.0, -3.7, -1.0, -0.3, -1e-3, -1e-20, 0.0, 1e-20, 1e-3, 0.3, 0.9, 1.0, 2.0, 3.7, 4.0]
CASES: tuple[Case, ...] = (
    *unary("Erf", low=-4, high=4),
    case("Erf", args=[given([*WIDE, 9.0])]),
    case("Erf", args=[given([np.inf, -np.inf])]),
    case("Erf", args=[given([np.nan])], litert="LiteRT's MAXIMUM and MINIMUM lose NaN"),
    *unary("Erfc", low=-4, high=4),
    case("Erfc", args=[given(WIDE)]),
    *(case("Erfc", args=[given([x])]) for x in (4.5, 5.0, 6.5, 8.0, 9.0)),  # alone: small beside the others
    *unary("Erfinv", low=-0.99, high=0.99),
    case("Erfinv", args=[given([0.0, 0.1, -0.5, 0.9, -0.99, 1 - 2**-10, 1 - 2**-17, 2**-24 - 1])]),
    case("Erfinv", args=[given([1.5, -2.0, np.nan])]),
    case("Erfinv", args=[given([1.0, -1.0])], litert=CLAMPED),
    *unary("Ndtri", low=0.01, high=0.99),
    case("Ndtri", args=[given([2e-38, 1e-30, 1e-10, 1e-5, 0.1, 0.25, 0.5, 0.9, 0.999, 0.9999999])]),
    case("Ndtri", args=[given([1.5, -2.0, np.nan])]),
    case("Ndtri", args=[given([0.0, 1.0])], litert=CLAMPED),
)
