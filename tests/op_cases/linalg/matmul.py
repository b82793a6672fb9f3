"""Rows of lowering/ops/linalg/matmul.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, c64, case, const, f32, given, i32, of, weights

NARROW = 1e-2  # sums of 8 products, each rounded to the 8 bits of bf16

# Sums of so many of them are more than floats hold.
BYTES = np.where(np.arange(700 * 40).reshape(700, 40) % 7, 127, -128).astype(np.int8)

CASES: tuple[Case, ...] = (
    case("MatMul", args=[f32(2, 8), weights(8, 4)], dynamic=True),
    case("MatMul", args=[f32(2, 8), weights(4, 8)], dynamic=True, transpose_b=True),
    case("MatMul", args=[f32(8, 2), weights(8, 4)], transpose_a=True),
    case("MatMul", args=[f32(8, 2), f32(8, 4)], transpose_a=True, grad_b=True),
    case("MatMul", args=[f32(2, 8), f32(4, 8)], transpose_b=True, grad_a=True),
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
    case("MatMul", args=[f32(8, 2), f32(8, 4)], transpose_a=True),
    case("MatMul", args=[f32(2, 8), f32(4, 8)], transpose_b=True),
    case("MatMul", args=[weights(2, 8), weights(8, 4)]),
    case("MatMul", args=[weights(8, 2), f32(4, 8)], transpose_a=True, transpose_b=True),
    case("MatMul", args=[f32(2, 0), f32(0, 4)]),
    case("MatMul", args=[f32(2, 8), f32(8, 0)]),
    *(case("MatMul", args=[of(t, 2, 8), of(t, 8, 4)]) for t in (DType.i32, DType.i64)),
    case(
        "MatMul",
        args=[i32(8, 2), const(np.arange(32, dtype=np.int32).reshape(4, 8))],
        transpose_a=True,
        transpose_b=True,
    ),
    *(case("MatMul", args=[of(t, 2, 8), of(t, 8, 4)], tolerance=NARROW) for t in (DType.f16, DType.bf16)),
    case("MatMul", args=[of(DType.f64, 2, 8), of(DType.f64, 8, 4)], litert="no kernel multiplies matrices of f64"),
    *(
        case("BatchMatMulV2", args=[f32(2, *x), f32(2, *y)], adj_x=i, adj_y=j)
        for i, x in ((False, (3, 8)), (True, (8, 3)))
        for j, y in ((False, (8, 4)), (True, (4, 8)))
    ),
    case("BatchMatMulV2", args=[weights(3, 8), f32(2, 8, 4)]),
    case("BatchMatMulV2", args=[f32(2, 1, 2, 1, 3, 4), f32(1, 2, 1, 2, 4, 2)]),
    case("BatchMatMulV2", args=[f32(2, 1, 2, 1, 3, 4), f32(2, 1, 2, 1, 2, 4)], dynamic=True, adj_y=True),
    case("BatchMatMulV2", args=[f32(2, 1, 2, 3, 4), f32(2, 4, 2)]),
    case("BatchMatMulV2", args=[i32(2, 3, 4), i32(2, 5, 4)], dynamic=True, adj_y=True),
    case("BatchMatMulV2", args=[i32(2, 1, 3, 4), i32(3, 4, 2)]),
    case("BatchMatMulV2", args=[f32(2, 0, 3), f32(2, 3, 4)]),
    case("BatchMatMulV2", args=[f32(0, 2, 3), f32(0, 3, 4)]),
    case("BatchMatMulV3", args=[f32(2, 3, 8), f32(2, 8, 4)], Tout=DType.f32),
    case("BatchMatMulV3", args=[given(BYTES[:2], DType.i8), const(BYTES[:40])], Tout=DType.i32),
    case("BatchMatMulV3", args=[given(BYTES.T[None], DType.i8), const(BYTES)], Tout=DType.i32),
    case("BatchMatMulV3", args=[given(BYTES[None], DType.i8), const(BYTES)], Tout=DType.i32, adj_y=True),
    case("MatMul", args=[c64(2, 3), c64(3, 4, seed=1)], dynamic=False),
    case("MatMul", args=[c64(2, 3), const(np.array([[1 + 2j], [0.5], [-1j]], np.complex64))]),
    case("BatchMatMulV2", args=[c64(2, 3, 2), c64(2, 3, 4, seed=1)], adj_x=True),
    case("BatchMatMulV2", args=[c64(2, 3, 2), c64(2, 4, 2, seed=1)], adj_y=True),
)
