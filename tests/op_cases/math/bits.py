"""Rows of lowering/ops/math/bits.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, i32, i64
from tests.op_cases.every_dtype import INTEGERS, exactly, of_one, of_two
from tests.op_cases.every_rank import ranks

_SHIFTED = [i for i in INTEGERS if i is not DType.u64]


def shifts(op: str, dtype: DType) -> list[Case]:
    """Shifts by tensors, by one constant, and beyond the type's width."""
    width = 8 * dtype.numpy.itemsize
    info = np.iinfo(dtype.numpy)
    x = np.array([info.max, info.min, 100, 5, 77], dtype.numpy)
    return [
        case(op, args=[exactly(np.stack([x, x])), exactly(np.array([0, 1, 3, width - 1, width - 2], dtype.numpy))]),
        case(op, args=[exactly(x), exactly(np.array([2, width, width + 7, 100, 1], dtype.numpy))]),
        case(op, args=[exactly(np.stack([x, x])), const(np.array(3, dtype.numpy))], dynamic=True),
        case(op, args=[exactly(x), const(np.array([0, 1, width - 1, width - 2, 2], dtype.numpy))]),
    ]


def _halves() -> list[Case]:
    """A row for each pair of types of one width, and for some of different widths."""
    rows = []
    for names in ("i8 u8", "i16 u16 f16 bf16", "i32 u32 f32", "i64 u64 f64"):
        for a in names.split():
            for b in names.split():
                if a != b:
                    rows.append(case("Bitcast", args=[given([1, 2, 77, 3], DType(a))], type=DType(b)))
    return rows


CASES: tuple[Case, ...] = (
    *(row for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for row in of_two(op, INTEGERS)),
    *(
        row
        for op in ("BitwiseAnd", "BitwiseOr", "BitwiseXor")
        for row in (
            case(op, args=[i32(2, 3), i32(3)], dynamic=True),
            case(op, args=[i32(2, 1), i32(1, 3)]),
            case(op, args=[i64(2, 3), const(np.int64(6))], dynamic=True),
            case(op, args=[i32(), i32()]),
            case(op, args=[i32(0, 3), i32(3)]),
        )
    ),
    *of_one("Invert", INTEGERS, -1),
    *of_one("PopulationCount", INTEGERS, -1, -7),
    case("PopulationCount", args=[i32(2, 3)], dynamic=True),
    case("PopulationCount", args=[i64()]),
    case("PopulationCount", args=[i32(0, 3)]),
    case("Invert", args=[i32(2, 3)], dynamic=True),
    *(row for dtype in _SHIFTED for row in shifts("LeftShift", dtype)),
    *(row for dtype in _SHIFTED for row in shifts("RightShift", dtype)),
    case("LeftShift", args=[given([1, 5], DType.u64), const(np.array([63, 3], np.uint64))]),
    *_halves(),
    case("Bitcast", args=[f32(2, 3)], dynamic=True, type=DType.i32),
    case("Bitcast", args=[f32(2, 3)], dynamic=True, type=DType.u8),
    case("Bitcast", args=[Operand(DType.u8, (2, 3, 4), 0, 100)], dynamic=True, type=DType.f32),
    case("Bitcast", args=[i64(2)], type=DType.i32),
    case("Bitcast", args=[i32(3, 2)], dynamic=True, type=DType.i64),
    case("Bitcast", args=[i32(3, 2)], type=DType.i32),
    *ranks("BitwiseAnd", i32),
)
