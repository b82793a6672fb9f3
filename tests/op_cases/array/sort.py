"""Rows of lowering/ops/array/sort.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Gap, case, const, f32, given, i32, i64, of

TIES = [[1, 3, 3, 2, 3, 1]]

TOPS = (
    case("TopKV2", args=[f32(3, 6), const(2)], dynamic=True),
    case("TopKV2", args=[given(TIES, DType.i32), const(4)]),
    case("TopKV2", args=[given(TIES, DType.i32), const(6, DType.i64)], index_type=DType.i64),
    case("TopKV2", args=[f32(5), const(5)], sorted=True),
    case("TopKV2", args=[f32(2, 2, 5), const(1, DType.i16)], sorted=False),
    case("TopKV2", args=[f32(2, 5), const(0)]),
    case("TopKV2", args=[f32(2, 5), given(3, DType.i32)]),
    case("TopKV2", args=[i64(2, 5), const(2)]),
    case("TopKV2", args=[of(DType.i8, 6), const(2)]),
    case("TopKV2", args=[of(DType.u8, 6), const(2)]),
    case("TopKV2", args=[of(DType.i16, 6), const(2)]),
    case("InTopKV2", args=[f32(4, 5), given([0, 4, 2, 2], DType.i32), const(2)], dynamic=True),
    case("InTopKV2", args=[f32(3, 5), given([0, 9, -1], DType.i64), const(5, DType.i64)]),
    case("InTopKV2", args=[given([[1, np.inf, 0], [1, 2, 3]]), given([0, 1], DType.i32), given(2, DType.i32)]),
    case("InTopK", args=[f32(4, 5), given([0, 4, 2, 2], DType.i32)], k=2),
)

DISTINCT = (
    case("Unique", args=[given([3, 1, 3, 0, 1], DType.i32)], dynamic=True),
    case("Unique", args=[given([3.5, -1, 3.5])], out_idx=DType.i64),
    case("Unique", args=[given([3, 1, 3], DType.i64)]),
    case("Unique", args=[given([3, 1, 3], DType.u8)]),
    case("UniqueV2", args=[given([3, 1, 3, 0, 1], DType.i32), const([0])]),
    case("UniqueV2", args=[given([3, 1, 3, 0, 1], DType.i32), const([], DType.i64)], out_idx=DType.i64),
    *(
        case(op, args=[given([[1, 2], [3, 4], [1, 2], [1, 4], [3, 4]], d), const([axis])], dynamic=True)
        for op in ("UniqueV2", "UniqueWithCountsV2")
        for d, axis in ((DType.i32, 0), (DType.f32, 0), (DType.i32, 1))
    ),
    case("UniqueV2", args=[given([[[1], [2], [1]], [[3], [4], [3]]], DType.i64), const([-2])], out_idx=DType.i64),
    *(
        case("ApproxTopK", args=[f32(2, 3, 5)], compiled=not most, k=2, reduction_dimension=axis, is_max_k=most)
        for axis, most in ((-1, True), (1, False))
    ),
    case("UniqueV2", args=[given([[np.nan, 1], [2, 1], [np.nan, 1]]), const([0])]),
    case("UniqueWithCounts", args=[given([3, 1, 3, 0, 1], DType.i32)], dynamic=True),
    case("UniqueWithCounts", args=[given([3.5, 1, 3.5])], out_idx=DType.i64),
    case("UniqueWithCountsV2", args=[given([3, 1, 3, 0, 1], DType.i64), const([0])]),
    case("ListDiff", args=[given([1, 2, 3, 4, 2], DType.i32), given([4, 1], DType.i32)]),
    case("ListDiff", args=[given([1.0, 2, 3]), given([3.0])], out_idx=DType.i64),
)

PLACES = (
    case("Bucketize", args=[f32(2, 5)], dynamic=True, boundaries=[-1.0, 0.0, 0.5]),
    case("Bucketize", args=[i32(6)], boundaries=[-5.5, 0.0, 3.0]),
    case("Bucketize", args=[i64(6)], boundaries=[0.0]),
    case("Bucketize", args=[of(DType.f64, 6)], boundaries=[0.1, 0.2]),
    case("Bucketize", args=[f32(3)], boundaries=[]),
    *(
        row
        for op in ("LowerBound", "UpperBound")
        for row in (
            case(op, args=[given([[1.0, 2, 2, 5], [0, 0, 1, 9]]), given([[2.0, 0, 9], [0, 1, -1]])], dynamic=True),
            case(op, args=[given([[1, 2, 2, 5]], DType.i32), given([[2, 6]], DType.i32)], out_type=DType.i64),
            case(op, args=[const([[1, 2, 2, 5]], DType.i64), i64(1, 3)]),
        )
    ),
)

CASES: tuple[Case, ...] = (*TOPS, *DISTINCT, *PLACES)

GAPS = (Gap("TopK", "TensorFlow 2 has no kernel for it; its rule is one line over that of TopKV2"),)
