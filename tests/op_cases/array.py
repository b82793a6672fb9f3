"""Rows of lowering/array.py and lowering/shapes.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, boolean, case, const, f32, given, i32, i64

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
    case("Squeeze", args=[f32(1, 3, 1)], squeeze_dims=[]),
    case("Squeeze", args=[f32(2, 1, 3, 1)], dynamic=True, squeeze_dims=[-1]),
    case("Squeeze", args=[f32(2, 1, 3, 1)], dynamic=True, squeeze_dims=[3, 1]),
    case("Squeeze", args=[f32(2, 3)], squeeze_dims=[]),
    case("Transpose", args=[f32(2, 3, 4), const([1, 0, 2])], dynamic=True),
    case("Transpose", args=[f32(2, 3, 4), const([0, 1, 2])], dynamic=True),
    case("Transpose", args=[i32(2, 3, 4, 5), const([3, 1, 0, 2])], dynamic=True),
    case("Transpose", args=[boolean(2, 3), const([1, 0], DType.i64)]),
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
    case("SplitV", args=[f32(2, 6), const([1, 2, 3]), const(1)], dynamic=True, num_split=3),
    case("SplitV", args=[f32(2, 6), const([1, -1], DType.i64), const(-1)], dynamic=True, num_split=2),
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
    case("Fill", args=[const([2, 3]), f32()]),
    case("Fill", args=[const([2], DType.i64), const(7)]),
    case("Fill", args=[const([], DType.i32), i32()]),
    case("Fill", args=[const([2]), given(b"xyz")], litert="set_tensor garbles a string that is a scalar"),
    case("ReverseV2", args=[f32(2, 3, 4), const([1])], dynamic=True),
    case("ReverseV2", args=[f32(2, 3, 4), const([-1, 0])], dynamic=True),
    case("ReverseV2", args=[f32(2, 3, 4), const([1, 2])], dynamic=True),
    case("ReverseV2", args=[i32(2, 3), const([], DType.i32)]),
    case("ReverseSequence", args=[f32(3, 4), given([0, 3, 4], DType.i32)], dynamic=True, seq_dim=1),
    case("ReverseSequence", args=[f32(4, 3, 2), given([1, 2, 4], DType.i64)], seq_dim=0, batch_dim=1),
    case("InvertPermutation", args=[const([2, 0, 3, 1])]),
)

SHAPES = (
    case("Shape", args=[f32(2, 3)], dynamic=True),
    case("Shape", args=[f32(2, 3)], dynamic=True, out_type=DType.i64),
    case("Shape", args=[f32()]),
    case("ShapeN", args=[f32(2, 3), f32(2)], dynamic=True, out_type=DType.i32),
    case("Size", args=[f32(2, 3)], dynamic=True),
    case("Size", args=[f32(2, 3)], dynamic=True, out_type=DType.i64),
    case("Size", args=[f32()]),
    case("Rank", args=[f32(2, 3)], dynamic=True),
)

CASES: tuple[Case, ...] = (
    *RESHAPES,
    *JOINS,
    *padding("Pad"),
    *padding("PadV2", 1.5),
    *padding("PadV2", 0.0),
    *padding("MirrorPad", mode="SYMMETRIC"),
    case("MirrorPad", args=[f32(2, 3, 4), const([[0, 0], [2, 1], [0, 3]])], dynamic=True, mode="REFLECT"),
    case("Pad", args=[i32(2, 3), const([[0, 0], [1, 1]])], dynamic=True),
    *REPEATS,
    *SHAPES,
)
