"""Rows of ops on every type: both ends of integers, which overflow, and narrow and wide floats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, given

SIGNED = tuple(map(DType, "i8 i16 i32 i64".split()))
UNSIGNED = tuple(map(DType, "u8 u16 u32 u64".split()))
INTEGERS = SIGNED + UNSIGNED
NARROW_FLOATS = (DType.f16, DType.bf16)
# f16 and bf16 keep 11 and 8 bits: a result may round to the neighbour where two libraries differ in the last digit.
ROUNDING = {DType.f16: 2**-10, DType.bf16: 2**-7}
COARSE = 8  # times that, where TensorFlow rounds exponentials to 16 bits before it adds, subtracts or divides them
NO_F64 = "the runtime's kernels have no f64, and nothing narrower would be right"


def ends(dtype: DType, *more: int) -> list[int]:
    """Both ends of an integer type, their neighbours, and more values, cut to the type."""
    info = np.iinfo(dtype.numpy)
    values = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 5, 100, *more]
    return [v for v in values if info.min <= v <= info.max]


def of_one(op: str, dtypes: Iterable[DType], *more: int, **attributes: Any) -> list[Case]:
    """A function of one integer tensor."""
    return [case(op, args=[given(ends(dtype, *more), dtype)], **attributes) for dtype in dtypes]


def of_two(op: str, dtypes: Iterable[DType], *, litert: str | None = None, **attributes: Any) -> list[Case]:
    """A function of two integer tensors: each end of the type with small numbers and with itself."""
    rows = []
    for dtype in dtypes:
        values = np.array(ends(dtype, -1, -7), dtype.numpy)
        x, y = np.meshgrid(values, values)
        rows.append(case(op, args=[exactly(x), exactly(y)], litert=litert, **attributes))
    return rows


def divided(op: str, dtypes: Iterable[DType]) -> list[Case]:
    """A quotient or remainder of integers of both signs, at the ends of the type too, and the least over -1."""
    rows = []
    for dtype in dtypes:
        info = np.iinfo(dtype.numpy)
        pairs = [
            (x, y)
            for x in ends(dtype, -1, -7, 6, info.max // 3, info.min // 3)
            for y in (1, 2, 3, 7, -1, -2, -7, 10, info.max, info.min, info.max // 2 + 1)
            if y and info.min <= y
        ]
        x, y = (np.array(side, dtype.numpy) for side in zip(*pairs, strict=True))
        rows.append(case(op, args=[exactly(x), exactly(y)]))
    return rows


def by_constants(op: str) -> list[Case]:
    """A quotient or remainder of integers by constants with -1 among them, and by -1 alone."""
    least = {d: np.iinfo(d.numpy).min for d in (DType.i32, DType.i64)}
    rows = [case(op, args=[given([x, 7, x], d), const(np.array([-1, -1, 3], d.numpy))]) for d, x in least.items()]
    return [*rows, *(case(op, args=[given([x, -7], d), const(np.array(-1, d.numpy))]) for d, x in least.items())]


def of_floats(op: str, count: int = 1, *, low: float = -2, high: float = 2, roundings: int = 1) -> list[Case]:
    """A function of 16-bit floats."""
    return [
        case(
            op, args=[Operand(d, (2, 3), low, high)] * count, tolerance=roundings * ROUNDING[d], dynamic=d is DType.f16
        )
        for d in NARROW_FLOATS
    ]


def in_double(op: str, count: int = 1, *, low: float = 0.1, high: float = 0.9, **attributes: Any) -> list[Case]:
    """A function of f64, which is right wherever the runtime has it."""
    return [case(op, args=[Operand(DType.f64, (2, 3), low, high)] * count, litert=NO_F64, **attributes)]


def exactly(array: np.ndarray) -> Operand:
    """An input with the values of an array."""
    return Operand(DType.of(array.dtype), array.shape, values=array)


ORDERED = (*SIGNED, *map(DType, "u8 u16 u32".split()))  # u64 has neither a kernel nor a type that holds it
# Those whose layout not all kernels know.
MOVED = (DType.f16, DType.bf16, DType.f64, DType.i8, DType.i16, DType.i64, DType.u8)
