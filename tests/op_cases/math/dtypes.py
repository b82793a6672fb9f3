"""Rows of elementwise ops on every type: overflow at both ends, signs, NaN and infinities where they are defined."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations, product
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, given, i32, i64

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
        rows.append(case(op, args=[_operand(x), _operand(y)], litert=litert, **attributes))
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
        rows.append(case(op, args=[_operand(x), _operand(y)]))
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


def _operand(array: np.ndarray) -> Operand:
    return Operand(DType.of(array.dtype), array.shape, values=array)


_SMALL = tuple(map(DType, "i8 i16 i32 u8 u16 u32".split()))
_ORDERED = (*SIGNED, *map(DType, "u8 u16 u32".split()))  # u64 has neither a kernel nor a type that holds it
_EXACT = (*SIGNED, *UNSIGNED[:-1], DType.bool)  # what floats are cast to and from: not u64
_FLOATS = (DType.f32, DType.f64, *NARROW_FLOATS)
_BOOLS = [given([True, True, False, False], DType.bool), given([True, False, True, False], DType.bool)]

CASES: tuple[Case, ...] = (
    *(row for op in ("AddV2", "Sub", "Mul") for row in of_two(op, INTEGERS)),
    *of_two("SquaredDifference", (DType.i32, DType.i64)),
    *(row for op in ("Maximum", "Minimum") for row in of_two(op, _ORDERED)),
    *(row for op in ("Less", "LessEqual", "Greater", "GreaterEqual") for row in of_two(op, _ORDERED)),
    *(row for op in ("Equal", "NotEqual") for row in of_two(op, INTEGERS)),
    case("NotEqual", args=_BOOLS),
    *of_one("Abs", SIGNED, -1, -7),
    *of_one("Neg", SIGNED, -1, -7),
    *of_one("Sign", SIGNED, -1, -7),
    *of_one("Square", INTEGERS, -7),
    *of_one("Relu", INTEGERS[:-1], -1, -7),
    *of_one("Relu6", INTEGERS[:-1], -1, -7),
    *of_one("ZerosLike", INTEGERS),
    *of_one("OnesLike", INTEGERS),
    *(
        case(op, args=[given([1.5, np.nan], d)])
        for op in ("ZerosLike", "OnesLike")
        for d in (*NARROW_FLOATS, DType.f64)
    ),
    *(case(op, args=[_BOOLS[0]]) for op in ("ZerosLike", "OnesLike")),
    *(row for op in ("FloorDiv", "FloorMod", "TruncateDiv") for row in divided(op, _ORDERED)),
    *(
        case("FloorDiv", args=[_operand(np.array(ends(DType.i64, -1, -7, 7), np.int64)), const(np.int64(n))])
        for n in (1, 2, 3, -3, 10**9 + 7, 2**62, -(2**62), 2**63 - 1, -(2**63))
    ),
    case("FloorDiv", args=[i64(2, 3, low=-(2**60), high=2**60), const(np.int64(7))], dynamic=True),
    *(row for op in ("Mod", "TruncateMod") for row in divided(op, (DType.i32, DType.i64))),
    *(row for op in ("FloorDiv", "FloorMod", "TruncateDiv", "TruncateMod") for row in by_constants(op)),
    *(
        case("Pow", args=[given([10, -10, 3, -2, 7, 2, 0, 5], d), given([10, 9, 40, 31, 13, 3, 0, 1], d)])
        for d in SIGNED
    ),
    case("Pow", args=[i32(2, 3), i32(3, low=0, high=9)], dynamic=True),
    case("Pow", args=[const(np.int32(3)), i32(2, 3, low=0, high=40)], dynamic=True),
    case("Pow", args=[i64(2, 3), const(np.array([0, 1, 21], np.int64))], dynamic=True),
    *(case("AddN", args=[_operand(np.array(ends(d), d.numpy))] * 3) for d in INTEGERS),
    *(
        case("SelectV2", args=[_BOOLS[0], given([1, 2, 3, 4], d), given([5, 6, 7, 8], d)])
        for d in (*INTEGERS, *NARROW_FLOATS, DType.f64)
    ),
    case("SelectV2", args=[_BOOLS[0], _BOOLS[1], _BOOLS[0]]),
    *(
        case("Cast", args=[given([0, 1, 100, 127], a)], DstT=b)
        for types in (*permutations((*INTEGERS, DType.bool), 2), *product(_FLOATS, _EXACT), *product(_EXACT, _FLOATS))
        for a, b in (types,)
        if DType.i32 in types or DType.f32 in types or DType.u64 in types
    ),
    *(
        case("Cast", args=[_operand(np.array(ends(a, -1), a.numpy))], DstT=b)
        for a in (DType.i64, DType.i32, DType.u64)
        for b in INTEGERS
        if a is not b
    ),
    *(row for op in ("AddV2", "Sub", "Mul", "RealDiv", "Maximum", "SquaredDifference") for row in of_floats(op, 2)),
    *(row for op in ("Minimum", "FloorMod", "Less", "GreaterEqual", "Equal", "Atan2") for row in of_floats(op, 2)),
    *of_floats("Pow", 2, low=0.5, high=3),
    *of_floats("FloorDiv", 2, low=0.5, high=3),
    *of_floats("AddN", 3),
    *(row for op in ("Abs", "Neg", "Exp", "Sin", "Cos", "Square", "Floor", "Ceil", "Round") for row in of_floats(op)),
    *(row for op in ("Sign", "Relu", "Relu6", "Tanh", "Softplus", "Softsign", "LeakyRelu") for row in of_floats(op)),
    *(row for op in ("Elu", "Selu", "Sigmoid", "Softmax", "LogSoftmax") for row in of_floats(op, roundings=COARSE)),
    *(row for op in ("IsNan", "IsInf", "IsFinite", "Expm1", "Tan", "Asinh", "Erf", "Erfc") for row in of_floats(op)),
    *(row for op in ("Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal") for row in of_floats(op, low=0.1, high=4)),
    *(
        row
        for op in ("AddV2", "Sub", "Mul", "RealDiv", "Pow", "Maximum", "Less", "FloorMod")
        for row in in_double(op, 2)
    ),
    *(row for op in ("Exp", "Log", "Tanh", "Sqrt", "Abs", "Sigmoid", "Relu", "Sin", "Floor") for row in in_double(op)),
    *(row for op in ("Tan", "Asin", "Acos", "Sinh", "Cosh", "Asinh", "Atanh") for row in in_double(op)),
)
