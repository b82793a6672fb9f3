"""Rows of lowering/ops/array/sparse.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.array.sparse import NONE, PLACES, UNORDERED, VOLUME, sizes
from tests.op_cases.case import Case, case, const, f32, given, i32

OPEN = given([4, 4], DType.i64)

CASES: tuple[Case, ...] = (
    case("SparseReorder", args=[UNORDERED, f32(5), sizes(4, 4)]),
    case("SparseReorder", args=[given([[1, 2, 1], [0, 1, 1], [1, 0, 0]], DType.i64), i32(3), sizes(2, 3, 2)]),
    case("SparseReorder", args=[NONE, f32(0), sizes(4, 6)]),
    case("SparseTensorDenseMatMul", args=[UNORDERED, f32(5), sizes(4, 4), f32(4, 3)]),
    case("SparseTensorDenseMatMul", args=[UNORDERED, f32(5), OPEN, f32(4, 3)], adjoint_a=True),
    case("SparseTensorDenseMatMul", args=[PLACES, f32(4), sizes(3, 5), f32(2, 5)], adjoint_b=True),
    case("SparseTensorDenseMatMul", args=[PLACES, f32(4), sizes(3, 5), f32(2, 3)], adjoint_a=True, adjoint_b=True),
    case("SparseTensorDenseMatMul", args=[NONE, f32(0), sizes(4, 6), f32(6, 2)]),
    *(
        case(op, args=[places, f32(count), shape, const(axes)], keep_dims=keep)
        for op in ("SparseReduceSum", "SparseReduceMax")
        for places, count, shape, axes, keep in (
            (PLACES, 4, sizes(4, 4), [1], False),
            (UNORDERED, 5, OPEN, [0], True),
            (VOLUME, 3, sizes(2, 3, 2), [-1, 0], False),
            (VOLUME, 3, sizes(2, 3, 2), [0, 1, 2], True),
        )
    ),
    *(
        case(op, args=[PLACES, f32(4, low=1), sizes(3, 4), dense])
        for op in ("SparseDenseCwiseMul", "SparseDenseCwiseDiv", "SparseDenseCwiseAdd")
        for dense in (f32(3, 4, low=1), f32(4, low=1), f32(3, 1, low=1))
    ),
    case("SparseSoftmax", args=[PLACES, f32(4), sizes(3, 4)]),
    case("SparseSoftmax", args=[PLACES, given([80, -90, 1e4, 1e4]), given([3, 4], DType.i64)]),
)
