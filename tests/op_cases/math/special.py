"""Rows of lowering/ops/math/special.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, given
from tests.op_cases.math.elementwise import CLAMPED, unary

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
    *unary("Lgamma", low=0.05, high=9),
    case("Lgamma", args=[given([1e-30, 1e-6, 0.3, 0.999, 1.0, 1.001, 1.4616, 2.0, 2.5, 2.999, 3.0, 3.001, 7.5])]),
    case("Lgamma", args=[given([10.0, 100.0, 1e4, 1e10, 3e36])]),
    case("Lgamma", args=[given([-0.5, -1.3, -2.0 + 2**-10, -3.7, -10.4, -33.3])]),
    case("Lgamma", args=[given([0.0, -1.0, np.nan])], litert=CLAMPED),
    *unary("Digamma", low=0.05, high=9),
    case("Digamma", args=[given([1e-3, 0.3, 0.999, 1.0, 1.4616, 2.0, 3.0, 7.5, 10.0, 1e4, 1e20])]),
    case("Digamma", args=[given([-0.5, -1.3, -2.0 + 2**-6, -3.7, -10.4, -33.3])]),
    *(row for op in ("BesselI0e", "BesselI1e", "BesselI0", "BesselI1") for row in unary(op, low=-20, high=20)),
    *(
        case(op, args=[given([0.0, 1e-20, 1e-3, -0.5, 1.0, -3.0, 7.99, 8.0, 8.01, -20.0, 30.0])])
        for op in ("BesselI0e", "BesselI1e", "BesselI0", "BesselI1")
    ),
    *(case(op, args=[given([1e3, -1e30])]) for op in ("BesselI0e", "BesselI1e")),
    *(
        case(op, args=[Operand(DType.f16, (2, 3), 0.5, 3)], tolerance=2**-10, dynamic=True)
        for op in ("Lgamma", "Digamma", "BesselI0e", "BesselI1")
    ),
)
