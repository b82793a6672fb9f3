"""Rows of lowering/ops/array/array.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, f32
from tests.op_cases.texts import TEXTS

CASES: tuple[Case, ...] = (
    case("EnsureShape", args=[f32(2, 3)], shape=(-1, 3)),
    case("Shape", args=[f32(2, 3)], dynamic=True),
    case("Shape", args=[f32(2, 3)], dynamic=True, out_type=DType.i64),
    case("Shape", args=[f32()]),
    case("ShapeN", args=[f32(2, 3), f32(2)], dynamic=True, out_type=DType.i32),
    case("Size", args=[f32(2, 3)], dynamic=True),
    case("Size", args=[f32(2, 3)], dynamic=True, out_type=DType.i64),
    case("Size", args=[f32()]),
    case("Rank", args=[f32(2, 3)], dynamic=True),
    case("Shape", args=[TEXTS], dynamic=True),
    case("Size", args=[TEXTS], dynamic=True),
    case("Rank", args=[TEXTS]),
)
