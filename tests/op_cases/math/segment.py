"""Rows of lowering/ops/math/segment.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, const, f32, given, i32, of

SORTED = [0, 0, 2, 2, 2]  # segment 1 has no rows


def segment(op: str) -> list[Case]:
    """Segments that ascend: computed and constant, with and without gaps."""
    return [
        case(op, args=[f32(5, 2), given(SORTED, DType.i32)]),
        case(op, args=[f32(5), given(SORTED, DType.i64)]),
        case(op, args=[f32(5, 2, 3), const(SORTED)]),
        case(op, args=[f32(3), const([0, 1, 1], DType.i64)]),
    ]


def unsorted(op: str) -> list[Case]:
    """Segments in any order: negative, absent, of several dimensions, constant, none at all."""
    return [
        case(op, args=[f32(4, 2), given([2, 0, -1, 2], DType.i32), const(4)]),
        case(op, args=[f32(2, 2, 3), given([[2, 0], [0, 2]], DType.i64), const(3, DType.i64)]),
        case(op, args=[f32(2, 2), given([[2, 0], [0, 2]], DType.i32), const(3)]),
        case(op, args=[f32(4), const([2, 0, -1, 2]), const(3)]),
        case(op, args=[i32(4, 2), given([2, 0, 1, 2], DType.i32), const(4)]),
        case(op, args=[of(DType.i8, 4), given([2, 0, 0, 2], DType.i32), const(3)]),
        case(op, args=[of(DType.u8, 4, low=0, high=4), given([2, 0, 0, 2], DType.i32), const(3)]),
        case(op, args=[of(DType.f16, 4), given([2, 0, 0, 2], DType.i32), const(3)], tolerance=1e-3),  # 11 bits
        case(op, args=[f32(0, 2), given(np.zeros(0), DType.i32), const(3)]),
        case(op, args=[f32(3), given([1, 0, 1], DType.i32), const(2)], dynamic=True),
        case(op, args=[f32(3), given([1, 0, 1], DType.i32), given(2, DType.i32)]),
    ]


NO_ROWS = [f32(0), given(np.zeros(0), DType.i32)]
EMPTY = (
    case("SegmentMean", args=NO_ROWS, dynamic=True),
    case(
        "SegmentSum",
        args=NO_ROWS,
        dynamic=True,
        litert="its Python binding does not read an output that UNSORTED_SEGMENT_SUM made empty",
    ),
)
INDICES = given([3, 0, 1, 0, 2], DType.i32)

CASES: tuple[Case, ...] = (
    *(row for kind in ("Sum", "Prod", "Min", "Max", "Mean") for row in segment(f"Segment{kind}")),
    *(case(f"Segment{kind}", args=[i32(5), given(SORTED, DType.i32)]) for kind in ("Sum", "Prod", "Min", "Max")),
    *EMPTY,
    *(row for kind in ("Sum", "Prod", "Min", "Max") for row in unsorted(f"UnsortedSegment{kind}")),
    *(case(f"SparseSegment{k}", args=[f32(4, 2), INDICES, given(SORTED, DType.i32)]) for k in ("Sum", "Mean", "SqrtN")),
    *(
        case(f"SparseSegment{k}WithNumSegments", args=[f32(4, 2), INDICES, given(SORTED, DType.i32), const(4)])
        for k in ("Sum", "Mean", "SqrtN")
    ),
    case("Bincount", args=[given([1, 3, 1, 7, 0], DType.i32), const(4), const([], DType.i32)]),
    case("Bincount", args=[given([[1, 3], [1, 7]], DType.i32), const(4), f32(2, 2)]),
    case("Bincount", args=[given([1, 3, 1], DType.i32), given(3, DType.i32), const([], DType.f32)]),
    case("DenseBincount", args=[given([1, 3, 1, 7, 0], DType.i32), const(4), const([], DType.i32)]),
    case("DenseBincount", args=[given([[1, 3], [1, 7]], DType.i32), const(4), f32(2, 2)], dynamic=True),
    case("DenseBincount", args=[given([[1, 3], [1, 1]], DType.i32), const(4), const([], DType.f32)], dynamic=True),
    case(
        "DenseBincount",
        args=[given([[1, 3], [1, 1]], DType.i64), const(4, DType.i64), const([], DType.f32)],
        binary_output=True,
    ),
)
