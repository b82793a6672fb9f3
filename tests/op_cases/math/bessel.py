"""Rows of lowering/ops/math/special.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, given
from tests.op_cases.math.elementwise import unary

CASES: tuple[Case, ...] = (
    *(row for op in ("BesselI0e", "BesselI1e", "BesselI0", "BesselI1") for row in unary(op, low=-20, high=20)),
    *(
        case(op, args=[given([0.0, 1e-20, 1e-3, -0.5, 1.0, -3.0, 7.99, 8.0, 8.01, -20.0, 30.0])])
        for op in ("BesselI0e", "BesselI1e", "BesselI0", "BesselI1")
    ),
    *(case(op, args=[given([1e3, -1e30])]) for op in ("BesselI0e", "BesselI1e")),
    *(
        case(op, args=[Operand(DType.f16, (2, 3), 0.5, 3)], tolerance=2**-10, dynamic=True)
        for op in ("BesselI0e", "BesselI1")
    ),
)
