"""Rows of lowering/ops/math/special.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, given
from tests.op_cases.math.elementwise import CLAMPED, unary

CASES: tuple[Case, ...] = (
    *unary("Lgamma", low=0.05, high=9),
    case("Lgamma", args=[given([1e-30, 1e-6, 0.3, 0.999, 1.0, 1.001, 1.4616, 2.0, 2.5, 2.999, 3.0, 3.001, 7.5])]),
    case("Lgamma", args=[given([10.0, 100.0, 1e4, 1e10, 3e36])]),
    case("Lgamma", args=[given([-0.5, -1.3, -2.0 + 2**-10, -3.7, -10.4, -33.3])]),
    case("Lgamma", args=[given([0.0, -1.0, np.nan])], litert=CLAMPED),
    *unary("Digamma", low=0.05, high=9),
    case("Digamma", args=[given([1e-3, 0.3, 0.999, 1.0, 1.4616, 2.0, 3.0, 7.5, 10.0, 1e4, 1e20])]),
    case("Digamma", args=[given([-0.5, -1.3, -2.0 + 2**-6, -3.7, -10.4, -33.3])]),
    *(
        case(op, args=[Operand(DType.f16, (2, 3), 0.5, 3)], tolerance=2**-10, dynamic=True)
        for op in ("Lgamma", "Digamma")
    ),
)
