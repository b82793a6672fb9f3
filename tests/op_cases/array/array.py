"""Rows of lowering/ops/array/array.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, boolean, c64, case, const, f32, given, i32, i64, of
from tests.op_cases.every_dtype import MOVED
from tests.op_cases.texts import TEXTS, VECTOR

WORDS = [[b"a", b"bc"], [b"", b"d"]]


def padding(op: str, *more: float, **attributes: Any) -> list[Case]:
    """Padding of floats and integers, of no dimension, of one, of the batch."""
    extra = [const(np.float32(v)) for v in more]
    rows = [
        case(op, args=[f32(2, 3, 4), const(amounts), *extra], dynamic=dynamic, **attributes)
        for amounts, dynamic in (
            ([[0, 0], [1, 2], [2, 0]], True),
            ([[1, 1], [0, 0], [0, 0]], False),
            ([[0, 0], [0, 0], [0, 0]], True),
        )
    ]
    return [*rows, case(op, args=[f32(4), const([[1, 0]], DType.i64), *extra], **attributes)]


RESHAPES = (
    case("Reshape", args=[f32(2, 3, 4), const([-1, 12])], dynamic=True),
    case("Reshape", args=[f32(2, 3, 4), const([-1])], dynamic=True),
    case("Reshape", args=[f32(2, 3, 4), const([4, 6])]),
    case("Reshape", args=[f32(0, 5), const([-1, 0])]),
    case("Reshape", args=[f32(3, 0), const([0, -1])]),
    case("Reshape", args=[f32(0, 4), const([0, -1, 4])]),
    case("Reshape", args=[f32(2, 3, 4), const([2, -1, 2], DType.i64)]),
    case("Reshape", args=[f32(2, 3, 4), const([2, 3, 4])]),
    case("Reshape", args=[f32(1, 1), const([], DType.i32)]),
    case("Reshape", args=[f32(), const([1, 1])]),
    case("Reshape", args=[f32(0, 3), const([3, 0])]),
    case("Reshape", args=[i64(2, 3), const([6])]),
    case("Reshape", args=[given(WORDS), const([-1])]),
    case("ExpandDims", args=[f32(2, 3), const(0)], dynamic=True),
    case("ExpandDims", args=[f32(2, 3), const(-1)], dynamic=True),
    case("ExpandDims", args=[f32(2, 3), const([1])], dynamic=True),
    case("ExpandDims", args=[f32(), const(0)]),
    *(case("ExpandDims", args=[f32(2, 3), given(a, DType.i32)], dynamic=True) for a in (0, 1, -1)),
    case("ExpandDims", args=[i32(3), given([0], DType.i64)]),
    case("Squeeze", args=[f32(1, 3, 1)], squeeze_dims=[]),
    case("Squeeze", args=[f32(2, 1, 3, 1)], dynamic=True, squeeze_dims=[-1]),
    case("Squeeze", args=[f32(2, 1, 3, 1)], dynamic=True, squeeze_dims=[3, 1]),
    case("Squeeze", args=[f32(2, 3)], squeeze_dims=[]),
    case("Transpose", args=[f32(2, 3, 4), const([1, 0, 2])], dynamic=True),
    case("Transpose", args=[f32(2, 3, 4), const([0, 1, 2])], dynamic=True),
    case("Transpose", args=[i32(2, 3, 4, 5), const([3, 1, 0, 2])], dynamic=True),
    case("Transpose", args=[boolean(2, 3), const([1, 0], DType.i64)]),
    case("Transpose", args=[f32(2, 3, 4), given([2, 0, 1], DType.i32)], dynamic=True),
    case("Transpose", args=[i32(2, 2), given([-1, 0], DType.i64)]),
)

JOINS = (
    case("ConcatV2", args=[f32(2, 3), f32(2, 1), f32(2, 4), const(1)], dynamic=True),
    case("ConcatV2", args=[f32(2, 3), f32(2, 4), const(-1)], dynamic=True),
    case("ConcatV2", args=[i32(2, 3), i32(1, 3), const(0)]),
    case("ConcatV2", args=[f32(2, 0), f32(2, 4), const(1)]),
    case("ConcatV2", args=[given(WORDS), given(WORDS), const(0)], litert="CONCATENATION takes no strings"),
    case("Concat", args=[const(1), f32(2, 3), f32(2, 4)], dynamic=True),
    case("Pack", args=[f32(2, 3), f32(2, 3), f32(2, 3)], dynamic=True, axis=0),
    case("Pack", args=[f32(2, 3), f32(2, 3)], dynamic=True, axis=-1),
    case("Pack", args=[i32(2, 3), i32(2, 3)], axis=1),
    case("Pack", args=[i32(), i32(), i32()], axis=0),
    case("Pack", args=[given(b"x"), given(b"yz")], axis=0, litert="PACK takes no strings"),
    case("Unpack", args=[f32(2, 3, 4)], dynamic=True, num=3, axis=1),
    case("Unpack", args=[f32(2, 3, 4)], dynamic=True, num=4, axis=-1),
    case("Unpack", args=[i32(2, 3)], num=2, axis=0),
    case("Unpack", args=[f32(1, 3)], num=1, axis=0),
    case("Split", args=[const(1), f32(2, 6)], dynamic=True, num_split=3),
    case("Split", args=[const(-1), f32(2, 4)], dynamic=True, num_split=1),
    case("Split", args=[const(0), i32(4, 3)], num_split=2),
    *(case("Split", args=[given(a, DType.i32), f32(4, 6)], num_split=2) for a in (0, 1, -1)),
    case("SplitV", args=[f32(2, 6), const([1, 2, 3]), const(1)], dynamic=True, num_split=3),
    case("SplitV", args=[f32(2, 6), const([1, -1], DType.i64), const(-1)], dynamic=True, num_split=2),
    case("SplitV", args=[f32(2, 6), given([1, -1, 3], DType.i32), const(1)], num_split=3),
    case("SplitV", args=[f32(6, 2), given([4, 2], DType.i64), const(0)], num_split=2),
    case("SplitV", args=[f32(6, 2), const([4, 2]), given(0, DType.i32)], num_split=2),
    case("SplitV", args=[f32(2, 6), given([-1, 2], DType.i32), given(-1, DType.i32)], num_split=2),
    case("SplitV", args=[i32(5), const([0, 5]), const(0)], num_split=2),
    case("SplitV", args=[f32(2, 6), const([6]), const(1)], num_split=1),
)

REPEATS = (
    case("Tile", args=[f32(2, 3), const([1, 2])], dynamic=True),
    case("Tile", args=[f32(2, 3), const([3, 1], DType.i64)], dynamic=True),
    case("Tile", args=[f32(2, 3), const([1, 1])], dynamic=True),
    case("Tile", args=[given(WORDS), const([2, 1])]),
    case("BroadcastTo", args=[f32(3), const([2, 3])]),
    case("BroadcastTo", args=[f32(2, 1, 3), const([4, 2, 5, 3], DType.i64)]),
    case("BroadcastTo", args=[f32(2, 3), const([2, 3])]),
    case("BroadcastTo", args=[i32(1), const([0, 2])]),
    case("BroadcastArgs", args=[given([3, 1], DType.i32), given([2, 1, 5], DType.i32)]),
    case("BroadcastArgs", args=[const([3, 1]), const([2, 1, 5])]),
    case("BroadcastGradientArgs", args=[const([2, 1, 3]), const([4, 3])]),
    case("BroadcastGradientArgs", args=[const([2, 1, 1]), const([1, 1])]),
    case("BroadcastGradientArgs", args=[const([2, 3]), const([2, 3])]),
    case("Fill", args=[const([2, 3]), f32()]),
    case("Empty", args=[const([2, 3])], dtype=DType.f32, init=True),
    case("Empty", args=[given([2, 3], DType.i32)], dtype=DType.i32, init=True),
    case("Fill", args=[const([2], DType.i64), const(7)]),
    case("Fill", args=[const([], DType.i32), i32()]),
    case("Fill", args=[const([2]), given(b"xyz")], litert="set_tensor garbles a string that is a scalar"),
)

SEVEN = (2, 1, 2, 1, 2, 1, 3)


def moved(t: DType) -> list[Case]:
    """Layout of a type that not all kernels take."""
    x = of(t, 2, 3)
    return [
        case("Reshape", args=[x, const([-1])], dynamic=True),
        case("Transpose", args=[x, const([1, 0])]),
        case("ConcatV2", args=[x, x, const(1)], dynamic=True),
        case("Pack", args=[x, x], axis=1),
        case("Unpack", args=[x], num=3, axis=1),
        case("Split", args=[const(1), x], num_split=3),
        case("SplitV", args=[x, const([1, 2]), const(1)], num_split=2),
        case("Pad", args=[x, const([[0, 1], [1, 0]])]),
        case("MirrorPad", args=[x, const([[0, 1], [1, 0]])], mode="REFLECT"),
        case("MirrorPad", args=[x, given([[0, 1], [1, 0]], DType.i32)], mode="REFLECT"),
        case("Tile", args=[x, const([2, 1])]),
        case("BroadcastTo", args=[x, const([2, 2, 3])]),
        case("Fill", args=[const([2, 1]), of(t)]),
        case("ExpandDims", args=[x, const(1)]),
        case("Squeeze", args=[of(t, 2, 1)], squeeze_dims=[1]),
    ]


RANKS = (
    case("ConcatV2", args=[f32(*SEVEN), f32(*SEVEN), const(2)], dynamic=True),
    case("Split", args=[const(2), f32(*SEVEN)], dynamic=True, num_split=2),
    case("Transpose", args=[f32(*SEVEN), const([6, 5, 0, 1, 4, 2, 3])]),
    case("Transpose", args=[f32(2, 3, 1, 2, 2, 2), const([5, 0, 1, 4, 2, 3])], dynamic=True),
    case("Pad", args=[f32(2, 1, 2, 1, 2, 3), const([[0, 0], [1, 0], [0, 0], [0, 1], [1, 1], [0, 2]])], dynamic=True),
    case("PadV2", args=[f32(*SEVEN[1:]), const([[1, 1]] * 6), f32()]),
    case("MirrorPad", args=[f32(*SEVEN[2:]), const([[0, 1]] + [[0, 0]] * 3 + [[2, 1]])], mode="SYMMETRIC"),
    case("Tile", args=[f32(*SEVEN), const([1, 2, 1, 2, 1, 1, 2])], dynamic=True),
    case("BroadcastTo", args=[f32(2, 1, 1, 3), const([2, 1, 2, 2, 2, 1, 3])]),
    case("Pack", args=[f32(2, 1, 2, 1, 2, 3)] * 2, axis=3, dynamic=True),
    case("Unpack", args=[f32(2, 1, 2, 1, 2, 3)], axis=4, num=2, dynamic=True),
    case("ConcatV2", args=[f32(2, 1)] * 20 + [const(1)], dynamic=True),
    case("Pack", args=[i32(2)] * 12, axis=1, dynamic=True),
)

EMPTY = (
    case("Unpack", args=[f32(2, 0, 3)], num=2, axis=0),
    case("Unpack", args=[f32(2, 0, 3)], num=0, axis=1),
    case("Split", args=[const(0), f32(2, 0, 3)], num_split=2),
    case("Transpose", args=[f32(2, 0, 3), const([2, 0, 1])]),
    case("Pad", args=[f32(2, 0), const([[0, 0], [1, 2]])]),
    case("Tile", args=[f32(2, 3), const([0, 2])]),
    case("Pack", args=[f32(2, 0), f32(2, 0)], axis=1),
    case("ConcatV2", args=[f32(2, 0), f32(2, 0), const(1)]),
    case("Fill", args=[const([2, 0]), f32()]),
    case("ExpandDims", args=[f32(0, 3), const(1)]),
)

DECIDED_BY_DATA = (
    case("Reshape", args=[f32(2, 3, 4), given([4, -1], DType.i32)]),
    case("Reshape", args=[f32(2, 6), given([3, 4], DType.i64)]),
    case("Reshape", args=[f32(2, 0), given([5, 0], DType.i32)]),
    case("Tile", args=[f32(2, 3), given([1, 2], DType.i32)]),
    case("BroadcastTo", args=[f32(2, 1), given([3, 2, 4], DType.i32)]),
    case("Fill", args=[given([2, 3], DType.i32), f32()]),
    case("PadV2", args=[f32(2, 3), given([[0, 1], [2, 0]], DType.i32), f32()]),
    case("Pad", args=[f32(2, 3), given([[0, 1], [2, 0]], DType.i64)]),
)
COMPLEX = (
    case("ConcatV2", args=[c64(2, 3), c64(2, 3, seed=1), const(1)], dynamic=True),
    case("Pack", args=[c64(2, 3), c64(2, 3, seed=1)], axis=1),
    case("Pad", args=[c64(2, 3), const([[0, 0], [1, 2]])], dynamic=True),
    case("Split", args=[const(1), c64(2, 4)], num_split=2, dynamic=True),
)

STRINGS = (
    case("Reshape", args=[TEXTS, const([3, 2])]),
    case("Reshape", args=[TEXTS, const([-1])], dynamic=True),
    case("ExpandDims", args=[VECTOR, const(-1)], dynamic=True),
    case("Squeeze", args=[given([[b"a"], [b"b"]])], squeeze_dims=[1], dynamic=True),
    case("Tile", args=[TEXTS, const([2, 1])]),
    case("Fill", args=[const([2, 3]), given(b"yes")], litert="a scalar string cannot be set from Python"),
)

CASES: tuple[Case, ...] = (
    case("ConjugateTranspose", args=[f32(2, 3, 4), const([0, 2, 1])]),
    *RESHAPES,
    *JOINS,
    *padding("Pad"),
    *padding("PadV2", 1.5),
    *padding("PadV2", 0.0),
    *padding("MirrorPad", mode="SYMMETRIC"),
    case("MirrorPad", args=[f32(2, 3, 4), const([[0, 0], [2, 1], [0, 3]])], dynamic=True, mode="REFLECT"),
    case("Pad", args=[i32(2, 3), const([[0, 0], [1, 1]])], dynamic=True),
    *REPEATS,
    *RANKS,
    *EMPTY,
    *(row for t in MOVED for row in moved(t)),
    *DECIDED_BY_DATA,
    *COMPLEX,
    *STRINGS,
)
