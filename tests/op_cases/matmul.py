"""Rows of lowering/matmul.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, f32, weights

CASES: tuple[Case, ...] = (
    case("MatMul", args=[f32(2, 8), weights(8, 4)], dynamic=True),
    case("MatMul", args=[f32(2, 8), weights(4, 8)], dynamic=True, transpose_b=True),
    case("MatMul", args=[f32(8, 2), weights(8, 4)], transpose_a=True),
    case("MatMul", args=[f32(2, 8), f32(8, 4)]),
    case("MatMul", args=[f32(8, 2), f32(4, 8)], transpose_a=True, transpose_b=True),
    case("MatMul", args=[weights(2, 8), f32(8, 4)]),
    case("MatMul", args=[f32(1, 1), weights(1, 1)]),
    case("MatMul", args=[f32(0, 8), weights(8, 4)]),
    case("BatchMatMulV2", args=[f32(2, 3, 8), f32(2, 8, 4)], dynamic=True),
    case("BatchMatMulV2", args=[f32(2, 3, 8), weights(8, 4)], dynamic=True),
    case("BatchMatMulV2", args=[f32(2, 3, 8), weights(4, 8)], dynamic=True, adj_y=True),
    case("BatchMatMulV2", args=[f32(2, 8, 3), weights(8, 4)], adj_x=True),
    case("BatchMatMulV2", args=[f32(2, 5, 3, 8), f32(2, 5, 4, 8)], dynamic=True, adj_y=True),
    case("BatchMatMulV2", args=[f32(2, 1, 3, 8), f32(5, 8, 4)]),
    case("BatchMatMulV2", args=[f32(2, 3, 8), weights(2, 8, 4)]),
    case("BatchMatMul", args=[f32(2, 3, 8), f32(2, 8, 4)]),
    case("BatchMatMulV3", args=[f32(2, 3, 8), f32(2, 8, 4)], Tout=DType.f32),
)
