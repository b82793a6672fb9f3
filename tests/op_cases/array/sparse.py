"""Rows of lowering/ops/array/sparse.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, i32

PLACES = given([[0, 1], [0, 3], [2, 0], [2, 2]], DType.i64)
UNORDERED = given([[3, 1], [0, 3], [3, 0], [0, 2], [2, 2]], DType.i64)
VOLUME = given([[0, 1, 1], [1, 0, 0], [1, 2, 1]], DType.i64)
NONE = given(np.zeros((0, 2)), DType.i64)


def sizes(*shape: int) -> Operand:
    return const(shape, DType.i64)


CASES: tuple[Case, ...] = (
    case("SparseReshape", args=[PLACES, sizes(4, 6), sizes(2, 12)]),
    case("SparseReshape", args=[PLACES, given([4, 6], DType.i64), given([3, -1], DType.i64)]),
    case("SparseReshape", args=[VOLUME, sizes(2, 3, 2), sizes(-1, 2)]),
    case("SparseReshape", args=[PLACES, sizes(4, 6), sizes(24)]),
    case("SparseReshape", args=[PLACES, sizes(4, 6), sizes(2, 1, 3, 4)]),
    case("SparseReshape", args=[NONE, sizes(4, 6), sizes(3, -1)]),
    case("SparseFillEmptyRows", args=[PLACES, f32(4), sizes(5, 4), const(np.float32(-1))]),
    case("SparseFillEmptyRows", args=[PLACES, i32(4), given([3, 4], DType.i64), i32()]),
    case("SparseFillEmptyRows", args=[UNORDERED, f32(5), sizes(6, 4), f32()]),
    case("SparseFillEmptyRows", args=[VOLUME, f32(3), sizes(2, 3, 2), f32()]),
    case("SparseFillEmptyRows", args=[NONE, f32(0), sizes(3, 2), f32()]),
)
