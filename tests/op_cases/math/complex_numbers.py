"""Rows of lowering/ops/math/complex_numbers.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, c64, case, f32, given

AXES = given([1, -1, 1j, -1j, 0, 3 - 4j, -1e20 + 1e20j, 1e-20j], DType.c64)

CASES: tuple[Case, ...] = (
    case("Real", args=[c64(2, 3)], dynamic=True),
    case("Imag", args=[c64(2, 3)], dynamic=True),
    case("Real", args=[AXES]),
    case("Imag", args=[AXES]),
    case("ComplexAbs", args=[c64(2, 3)], dynamic=True),
    case("ComplexAbs", args=[AXES]),
    *(
        case(op, args=[given([[1 + 2j, -3j], [4, 0]], DType.c128)], Tout=DType.f64)
        for op in ("Real", "Imag", "ComplexAbs")
    ),
    case("ComplexAbs", args=[c64()]),
    case("Angle", args=[c64(2, 3)], dynamic=True),
    case("Angle", args=[AXES]),
    case("Conj", args=[c64(2, 3)], dynamic=True),
    case("Complex", args=[f32(2, 3), f32(2, 3)], dynamic=True),
    case("Complex", args=[f32(), f32()]),
    case("Complex", args=[f32(2, 1, 2, 1, 3), f32(2, 1, 2, 1, 3)]),
    case("Complex", args=[f32(2, 3), f32(3)]),
    case("Complex", args=[given([1.5, -2e30, 1e-30, 0]), given([-1.25, 1e20, 3e-31, -7])]),
)
