"""Rows of lowering/ops/math/special.py."""

from __future__ import annotations

import numpy as np

from tests.op_cases.case import Case, case, given
from tests.op_cases.every_dtype import of_floats
from tests.op_cases.math.elementwise import unary

WIDE = [-9.0, -4.0, -3.7, -1.0, -0.3, -1e-3, -1e-20, 0.0, 1e-20, 1e-3, 0.3, 0.9, 1.0, 2.0, 3.7, 4.0]

CASES: tuple[Case, ...] = (
    *unary("Erf", low=-4, high=4),
    case("Erf", args=[given([*WIDE, 9.0])]),
    case("Erf", args=[given([np.inf, -np.inf])]),
    case("Erf", args=[given([np.nan])], litert="LiteRT's MAXIMUM and MINIMUM lose NaN"),
    *unary("Erfc", low=-4, high=4),
    case("Erfc", args=[given(WIDE)]),
    *(case("Erfc", args=[given([x])]) for x in (4.5, 5.0, 6.5, 8.0, 9.0)),  # alone: small beside the others
    *(row for op in ("Erf", "Erfc") for row in of_floats(op)),
)
