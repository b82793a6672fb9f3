"""Rows of lowering/ops/math/elementwise.py."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import ROUNDING, Case, Gap, boolean, c64, case, const, f32, given, i32, i64, weights
from tests.op_cases.every_dtype import (
    INTEGERS,
    NARROW_FLOATS,
    SIGNED,
    UNSIGNED,
    ends,
    exactly,
    in_double,
    of_floats,
    of_one,
    of_two,
)
from tests.op_cases.every_rank import SIZES, empty, positive, ranks
from tests.op_cases.texts import OTHERS, TEXTS, VECTOR

SPECIAL = [0.0, -0.0, 1e-30, 1e30, np.inf, -np.inf]
CLAMPED = "LiteRT's ADD, SUB, MUL and DIV turn infinities into the largest float"


def unary(op: str, *, low: float = -2, high: float = 2, tolerance: float = ROUNDING) -> list[Case]:
    """A function of one operand: rank 2 with unknown batch, scalar, rank 4, empty."""
    shapes = [(2, 3), (), (1, 2, 3, 2), (0, 3)]
    return [case(op, args=[f32(*s, low=low, high=high)], dynamic=s == (2, 3), tolerance=tolerance) for s in shapes]


def arithmetic(op: str) -> list[Case]:
    """A function of two floats: alike, broadcast both ways, scalar, rank 4, constant, empty."""
    pairs = [
        ((2, 3), (2, 3)),
        ((2, 3), (3,)),
        ((2, 1), (1, 3)),
        ((), (2,)),
        ((1, 2, 3, 2), (2, 1, 2)),
        ((0, 3), (1, 3)),
    ]
    rows = [case(op, args=[f32(*a), f32(*b)], dynamic=a == (2, 3)) for a, b in pairs]
    return [*rows, case(op, args=[f32(2, 3), weights(3)], dynamic=True)]


def integers(op: str, *, i64: str | None = None) -> list[Case]:
    """A function of two integers, of both signs, not zero on the right. i64: why LiteRT cannot do it."""
    left, right = [7, -7, 7, -7, 6, 0], [2, 2, -2, -2, 3, 5]
    return [
        case(op, args=[given(left, dtype), given(right, dtype)], litert=reason)
        for dtype, reason in ((DType.i32, None), (DType.i64, i64))
    ]


def comparison(op: str) -> list[Case]:
    """A comparison: equal and unequal elements, floats and integers, broadcast."""
    return [
        case(op, args=[given([1.0, 2.0, np.nan]), given([1.0, 3.0, np.nan])]),
        case(op, args=[i32(2, 3, low=0, high=3), i32(2, 3, low=0, high=3)], dynamic=True),
        case(op, args=[i64(2, 3, low=0, high=3), i64(3, low=0, high=3)]),
        case(op, args=[f32(2, 1), f32(1, 3)]),
        case(op, args=[f32(), f32()]),
    ]


def logical(op: str) -> list[Case]:
    """A function of two bools."""
    return [
        case(
            op, args=[given([[False, False, True, True]], DType.bool), given([[False, True, False, True]], DType.bool)]
        ),
        case(op, args=[boolean(2, 3), boolean(3)], dynamic=True),
    ]


def choice(rank: int) -> list[Case]:
    """SelectV2 where each operand is broadcast along other axes."""
    full = SIZES[:rank]
    thirds = [tuple(d if axis % 3 == k else 1 for axis, d in enumerate(full)) for k in range(3)]
    return [
        case("SelectV2", args=[boolean(*thirds[0]), f32(*thirds[1]), f32(*thirds[2])]),
        case("SelectV2", args=[boolean(*full), i32(), i32(*full[-1:])]),
    ]


EXACT = (*SIGNED, *UNSIGNED[:-1], DType.bool)  # what floats are cast to and from: not u64
FLOATS = (DType.f32, DType.f64, *NARROW_FLOATS)
BOOLS = [given([True, True, False, False], DType.bool), given([True, False, True, False], DType.bool)]

CASTS = (
    *(
        case("Cast", args=[given([0, 1, 100, 127], a)], DstT=b)
        for types in (*permutations((*INTEGERS, DType.bool), 2), *product(FLOATS, EXACT), *product(EXACT, FLOATS))
        for a, b in (types,)
        if DType.i32 in types or DType.f32 in types or DType.u64 in types
    ),
    *(
        case("Cast", args=[exactly(np.array(ends(a, -1), a.numpy))], DstT=b)
        for a in (DType.i64, DType.i32, DType.u64)
        for b in INTEGERS
        if a is not b
    ),
)

DTYPES = (
    *(row for op in ("AddV2", "Sub", "Mul") for row in of_two(op, INTEGERS)),
    *of_two("SquaredDifference", (DType.i32, DType.i64)),
    *(row for op in ("Maximum", "Minimum") for row in of_two(op, INTEGERS)),
    *(row for op in ("Less", "LessEqual", "Greater", "GreaterEqual") for row in of_two(op, INTEGERS)),
    *(row for op in ("Equal", "NotEqual") for row in of_two(op, INTEGERS)),
    case("NotEqual", args=BOOLS),
    *of_one("Abs", SIGNED, -1, -7),
    *of_one("Neg", SIGNED, -1, -7),
    *of_one("Sign", SIGNED, -1, -7),
    *of_one("Square", INTEGERS, -7),
    *of_one("ZerosLike", INTEGERS),
    *of_one("OnesLike", INTEGERS),
    *(
        case(op, args=[given([1.5, np.nan], d)])
        for op in ("ZerosLike", "OnesLike")
        for d in (*NARROW_FLOATS, DType.f64)
    ),
    *(case(op, args=[BOOLS[0]]) for op in ("ZerosLike", "OnesLike")),
    *(case("AddN", args=[exactly(np.array(ends(d), d.numpy))] * 3) for d in INTEGERS),
    *(
        case("SelectV2", args=[BOOLS[0], given([1, 2, 3, 4], d), given([5, 6, 7, 8], d)])
        for d in (*INTEGERS, *NARROW_FLOATS, DType.f64)
    ),
    case("SelectV2", args=[BOOLS[0], BOOLS[1], BOOLS[0]]),
    *(row for op in ("AddV2", "Sub", "Mul", "Maximum", "SquaredDifference") for row in of_floats(op, 2)),
    *(row for op in ("Minimum", "Less", "GreaterEqual", "Equal") for row in of_floats(op, 2)),
    *of_floats("AddN", 3),
    *(row for op in ("Abs", "Neg", "Exp", "Sin", "Cos", "Square", "Floor", "Ceil", "Round") for row in of_floats(op)),
    *(row for op in ("Sign", "IsNan", "IsInf", "IsFinite", "Expm1") for row in of_floats(op)),
    *(row for op in ("Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal") for row in of_floats(op, low=0.1, high=4)),
    *(row for op in ("AddV2", "Sub", "Mul", "Maximum", "Less") for row in in_double(op, 2)),
    *(row for op in ("Exp", "Log", "Sqrt", "Abs", "Sin", "Floor") for row in in_double(op)),
)

RANKS = (
    *(row for op in ("AddV2", "Less") for row in ranks(op, f32)),
    *(row for op in ("Mul", "Maximum", "Equal") for row in ranks(op, i32)),
    *ranks("SquaredDifference", positive),
    *empty("AddV2", f32),
    *(row for rank in range(1, 7) for row in choice(rank)),
    case("AddV2", args=[f32(2, 3, 2, 1, 2, 1, 2, 2, 1, 2), f32(2, 2, 1, 2)]),
    case("Maximum", args=[f32(2, 3, 2, 1, 2, 1, 2, 2, 1, 2), f32(3, 2, 1, 2, 1, 1, 1, 1, 1)]),
    case("Less", args=[i32(2, 3, 2, 1, 2, 1, 2, 2, 1, 2), i32(2)], dynamic=True),
)

COMPLEX = (
    case("Cast", args=[f32(2, 3)], DstT=DType.c64),
    case("Mul", args=[c64(2, 3), c64(3, seed=1)]),
    case("AddV2", args=[c64(2, 3), c64(3, seed=1)], dynamic=True),
    case("Sub", args=[c64(2, 3), c64(1, 3, seed=1)]),
    case("Neg", args=[c64(2, 3)], dynamic=True),
    case("Exp", args=[c64(2, 3)], dynamic=True),
    case("Square", args=[c64(2, 3)]),
)

STRINGS = (
    case("Equal", args=[TEXTS, OTHERS], dynamic=True),
    case("Equal", args=[VECTOR, const(b"a")], dynamic=True),
    case("Equal", args=[given([[b"a"], [b"b"]]), given([b"b", b"c", b"a"])]),
    case("NotEqual", args=[TEXTS, OTHERS], dynamic=True),
    case("NotEqual", args=[VECTOR, const(b"")], dynamic=True),
    case("Identity", args=[TEXTS]),
)

CASES: tuple[Case, ...] = (
    *arithmetic("Add"),
    *arithmetic("AddV2"),
    *arithmetic("Sub"),
    *arithmetic("Mul"),
    *arithmetic("Maximum"),
    *arithmetic("Minimum"),
    *arithmetic("SquaredDifference"),
    *(row for op in ("AddV2", "Sub", "Mul", "Maximum", "Minimum") for row in integers(op)),
    case("DivNoNan", args=[given([1.0, 0.0, 3.0]), given([0.0, 0.0, 2.0])]),
    case("DivNoNan", args=[f32(2, 3), f32(3)], dynamic=True),
    case("MulNoNan", args=[given([1.0, 0.0, 3.0, np.inf, np.nan]), given([0.0, 0.0, 2.0, 0.0, 0.0])]),
    case("MulNoNan", args=[f32(2, 3), f32(3)], dynamic=True),
    case("Xdivy", args=[given([1.0, 0.0, 0.0, 3.0]), given([2.0, 0.0, np.nan, -2.0])]),
    case("Xdivy", args=[f32(2, 3), f32(3, low=1, high=2)], dynamic=True),
    case("Xlogy", args=[given([1.0, 0.0, 0.0, 3.0]), given([2.0, 0.0, -1.0, 0.5])]),
    case("Xlogy", args=[f32(2, 3), f32(3, low=0.1, high=2)], dynamic=True),
    case("Xlog1py", args=[given([1.0, 0.0, 0.0, 3.0]), given([2.0, -1.0, -3.0, 1e-6])]),
    case("Xlog1py", args=[f32(2, 3), f32(3, low=-0.9, high=2)], dynamic=True),
    case("ClipByValue", args=[f32(2, 3), const(np.float32(-1)), const(np.float32(0.5))], dynamic=True),
    case("ClipByValue", args=[f32(2, 3), f32(), f32()]),
    case("ClipByValue", args=[f32(2, 3), const(np.float32(2)), const(np.float32(1))]),
    case("ClipByValue", args=[i64(2, 3), const(np.int64(-2)), const(np.int64(3))], dynamic=True),
    case("ApproximateEqual", args=[given([1.0, 2.0, 3.0]), given([1.0, 2.5, 3.000001])]),
    case("ApproximateEqual", args=[f32(2, 3), f32(2, 3)], dynamic=True),
    *unary("L2Loss"),
    case("Cross", args=[f32(2, 3), f32(2, 3)], dynamic=True),
    case("Cross", args=[f32(3), f32(3)]),
    case("Cross", args=[i32(2, 1, 3), i32(2, 1, 3)]),
    *unary("Abs"),
    *unary("Neg"),
    *unary("Exp"),
    *unary("Log", low=0.01, high=9),
    *unary("Log1p", low=-0.9, high=9),
    *(case("Log1p", args=[given([x])]) for x in (0.0, 1e-30, 1e-7, -1e-7, 3e-4, 0.1, -0.29, 0.31, -0.4, 1.0, 1e9)),
    case("Log1p", args=[given([-1.0, -2.0, np.inf, np.nan])], litert=CLAMPED),
    *unary("Expm1"),
    case("Expm1", args=[given([0.0, 1e-7, -1e-7, 3e-4, 0.1, -30.0, 80.0, -np.inf])]),
    case("Expm1", args=[given([np.inf, np.nan])], litert=CLAMPED),
    *unary("Sqrt", low=0, high=9),
    *unary("Rsqrt", low=0.01, high=9),
    *unary("Square"),
    case("Square", args=[i32(2, 3)]),
    *unary("Reciprocal", low=0.1, high=9),
    case("Inv", args=[f32(2, 3, low=0.1, high=9)]),
    *unary("Sin", low=-9, high=9),
    *unary("Cos", low=-9, high=9),
    *unary("Floor", low=-9, high=9),
    *unary("Ceil", low=-9, high=9),
    *unary("Rint", low=-9, high=9),
    *unary("Round", low=-9, high=9),
    case("Round", args=[given([0.5, 1.5, 2.5, -0.5, -1.5, 1e9])]),
    *unary("Sign"),
    case("Sign", args=[given([0.0, -3.0, 1e-30])]),
    case("Abs", args=[i32(2, 3)]),
    case("Neg", args=[i32(2, 3)]),
    case("Neg", args=[i64(2, 3)]),
    case("Exp", args=[given([*SPECIAL, -100.0, 80.0])]),
    case("Exp", args=[given([np.nan])], litert="XNNPACK's exp of NaN is 0"),
    case("Log", args=[given([0.0, -0.0, 1e-30, 1e30])]),
    case("Log", args=[given([np.inf, -np.inf, np.nan])], litert="XNNPACK's log of infinity and NaN is 88 on some CPUs"),
    case("Sqrt", args=[given([*SPECIAL, np.nan])]),
    *(row for op in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual") for row in comparison(op)),
    case("Equal", args=[given([b"a", b"", b"ab"]), given([b"a", b"b", b"abc"])]),
    case("NotEqual", args=[given([b"a", b"", b"ab"]), given([b"a", b"b", b"abc"])]),
    case("Equal", args=[boolean(2, 3), boolean(2, 3)]),
    *logical("LogicalAnd"),
    *logical("LogicalOr"),
    case("LogicalNot", args=[boolean(2, 3)], dynamic=True),
    case("Select", args=[boolean(2, 3), f32(2, 3), f32(2, 3)], dynamic=True),
    case("Select", args=[given([True, False], DType.bool), f32(2, 3, 2), f32(2, 3, 2)]),
    case("Select", args=[given(True, DType.bool), i32(2), i32(2)]),
    case("SelectV2", args=[boolean(2, 3), f32(2, 3), f32(2, 3)], dynamic=True),
    case("SelectV2", args=[boolean(2, 1), f32(3), f32()]),
    case("SelectV2", args=[boolean(3), f32(2, 3), const(np.float32(0))]),
    case("SelectV2", args=[boolean(2, 1, 3), i64(2, 1), i64(1, 2, 3)]),
    case("Cast", args=[given([-2.7, -0.5, 0.0, 0.5, 2.7])], DstT=DType.i32),
    case("Cast", args=[given([-2.7, 0.0, -0.0, 2.7])], DstT=DType.bool),
    case("Cast", args=[i32(2, 3)], dynamic=True, DstT=DType.f32),
    case("Cast", args=[i64(2, 3)], DstT=DType.i32),
    case("Cast", args=[boolean(2, 3)], DstT=DType.f32),
    case("Cast", args=[boolean(2, 3)], DstT=DType.i32),
    case("Cast", args=[f32(2, 3)], DstT=DType.f32),
    case("Cast", args=[f32(2, 3)], DstT=DType.f16),
    case("ZerosLike", args=[f32(2, 3)], dynamic=True),
    case("ZerosLike", args=[i32()]),
    case("OnesLike", args=[f32(2, 3)], dynamic=True),
    case("OnesLike", args=[i64(2)]),
    case("IsNan", args=[given([*SPECIAL, np.nan])]),
    case("IsInf", args=[given([*SPECIAL, np.nan])]),
    case("IsFinite", args=[given([*SPECIAL, np.nan])]),
    case("AddN", args=[f32(2, 3), f32(2, 3), f32(2, 3)], dynamic=True),
    case("AddN", args=[f32(2, 3)]),
    case("AddN", args=[i32(2), i32(2)]),
    case("BiasAdd", args=[f32(2, 4, 5, 3), weights(3)], dynamic=True),
    case("BiasAdd", args=[f32(2, 3), f32(3)]),
    case("BiasAdd", args=[f32(2, 3, 4, 5), weights(3)], dynamic=True, data_format="NCHW"),
    case("BiasAdd", args=[f32(2, 3, 4, 4, 2), f32(3)], data_format="NCHW"),
    case("BiasAdd", args=[f32(2, 3), weights(3)], data_format="NCHW"),
    case("BiasAddV1", args=[f32(2, 4, 5, 3), weights(3)], dynamic=True),
    case("Identity", args=[f32(2, 3)], dynamic=True),
    case("Identity", args=[given([b"a"])]),
    case("StopGradient", args=[f32(2, 3)]),
    case("PreventGradient", args=[f32(2, 3)], message="no"),
    case("Snapshot", args=[f32(2, 3)]),
    case("IdentityN", args=[f32(2, 3), i32(2)]),
    case("CheckNumerics", args=[f32(2, 3)], message="no"),
    case("CheckNumericsV2", args=[f32(2, 3)], message="no"),
    case("GuaranteeConst", args=[f32(2, 3)]),
    *(case(op, args=[f32(2, 3)]) for op in ("DeepCopy", "DebugGradientIdentity")),
    *CASTS,
    *DTYPES,
    *RANKS,
    *COMPLEX,
    *STRINGS,
)

GAPS = (Gap("AccumulateNV2", "TensorFlow has no kernel for it: its graphs get AddN in its place before they run"),)
