"""Rows of lowering/ops/array/sequence.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, boolean, case, const, f32, given, i32, i64, of
from tests.op_cases.every_dtype import MOVED

RANGES = (
    case("Range", args=[const(2), const(11), const(3)]),
    case("Range", args=[const(5), const(-1), const(-2)]),
    case("Range", args=[const(np.float32(0)), const(np.float32(1)), const(np.float32(0.3))]),
    case("Range", args=[const(3), const(3), const(1)]),
    case("Range", args=[const(np.float32(0)), const(np.float32(0.3)), const(np.float32(0.1))]),
    case("Range", args=[const(np.float32(0.1)), const(np.float32(4)), const(np.float32(0.1))]),
    case("Range", args=[const(np.int64(0)), const(np.int64(4)), const(np.int64(1))]),
    case("Range", args=[const(0), given(4, DType.i32), const(1)]),
    case("Range", args=[given(5, DType.i64), given(-4, DType.i64), given(-3, DType.i64)]),
    case("Range", args=[const(np.float32(0.5)), given(4.0), const(np.float32(1.5))]),
    case("Range", args=[given(3.0), given(-4.0), given(-0.25)]),
    case("LinSpace", args=[const(np.float32(-1)), const(np.float32(2)), const(7)]),
    case("LinSpace", args=[const(np.float32(-1)), const(np.float32(2)), const(1)]),
    case("LinSpace", args=[f32(), f32(), const(5)]),
    case("LinSpace", args=[f32(), f32(), const(1, DType.i64)]),
)

ORDERS = (
    case("ReverseV2", args=[f32(2, 3, 4), const([1])], dynamic=True),
    case("ReverseV2", args=[f32(2, 3, 4), const([-1, 0])], dynamic=True),
    case("ReverseV2", args=[f32(2, 3, 4), const([1, 2])], dynamic=True),
    case("ReverseV2", args=[i32(2, 3), const([], DType.i32)]),
    case("ReverseV2", args=[f32(2, 3, 4), given([-1, 0], DType.i32)], dynamic=True),
    case("ReverseV2", args=[f32(2, 0, 3), const([0, 2])]),
    case("ReverseV2", args=[boolean(2, 3), const([1], DType.i64)]),
    case("ReverseV2", args=[f32(2, 1, 3, 1, 2, 2), const([0, 2, 5])]),
    case("Reverse", args=[f32(2, 3), const([False, True], DType.bool)], dynamic=True),
    case("ReverseSequence", args=[f32(3, 4), given([0, 3, 4], DType.i32)], dynamic=True, seq_dim=1),
    case("ReverseSequence", args=[f32(4, 3, 2), given([1, 2, 4], DType.i64)], seq_dim=0, batch_dim=1),
    case("ReverseSequence", args=[i32(2, 3, 4), given([1, 4], DType.i32)], dynamic=True, seq_dim=2),
    case("Roll", args=[f32(2, 5), const(2), const(1)], dynamic=True),
    case("Roll", args=[f32(3, 5), const([7, -1]), const([1, 0])], dynamic=True),
    case("Roll", args=[f32(3, 5), const([1, 1], DType.i64), const([-1, -1])]),
    case("Roll", args=[f32(3, 5), const([1, 2]), given([-1, 0], DType.i32)], dynamic=True),
    case("Roll", args=[i32(3, 5), given(4, DType.i64), given(1, DType.i64)]),
    case("Roll", args=[f32(3, 5), const(5), const(1)], dynamic=True),
    case("Roll", args=[i64(5), given(-2, DType.i32), const(0)]),
    case("Roll", args=[f32(3, 5), given([1, 12], DType.i32), const([0, 1])], dynamic=True),
    case("Roll", args=[f32(0, 5), const(2), const(0)]),
    case("InvertPermutation", args=[const([2, 0, 3, 1])]),
    case("InvertPermutation", args=[given([2, 0, 3, 1], DType.i32)], dynamic=True),
    case("InvertPermutation", args=[given([2, 0, 1], DType.i64)]),
    case("UnravelIndex", args=[given([7, 0, 23], DType.i32), const([2, 3, 4])], dynamic=True),
    case("UnravelIndex", args=[given(5, DType.i32), const([2, 3])]),
)

TOTALS = (
    case("Cumprod", args=[f32(2, 3, 4), const(1)], dynamic=True),
    case("Cumprod", args=[f32(2, 3, 4), const(-1)], dynamic=True, exclusive=True),
    case("Cumprod", args=[f32(2, 3, 4), const(0)], dynamic=True, reverse=True),
    case("Cumprod", args=[i32(5), const(0)], dynamic=True, exclusive=True, reverse=True),
    case("Cumprod", args=[of(DType.i64, 2, 3), const(1)]),
    case("CumulativeLogsumexp", args=[f32(2, 3, 4), const(1)], dynamic=True),
    case(
        "CumulativeLogsumexp",
        args=[f32(2, 3), const(-1)],
        exclusive=True,
        litert="ADD gives the lowest number for -inf without delegates",
    ),
    case("CumulativeLogsumexp", args=[f32(2, 3), const(0)], dynamic=True, reverse=True),
)

TYPES = tuple(
    row
    for t in MOVED
    for row in (
        case("ReverseV2", args=[of(t, 2, 3), const([1])]),
        case("Roll", args=[of(t, 2, 3), const(1), const(1)]),
    )
)

CASES: tuple[Case, ...] = (*RANGES, *ORDERS, *TOTALS, *TYPES)
