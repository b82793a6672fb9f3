"""Rows on strings: comparing, picking, reshaping and repeating them."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, const, given

TEXTS = given([[b"a", b"bb", b""], [b"ccc", "größe".encode(), b"a"]])
OTHERS = given([[b"a", b"b", b""], [b"ccc", b"zz", b"b"]])
VECTOR = given([b"a", b"", b"jfuse", b"a"])

CASES: tuple[Case, ...] = (
    case("Equal", args=[TEXTS, OTHERS], dynamic=True),
    case("Equal", args=[VECTOR, const(b"a")], dynamic=True),
    case("Equal", args=[given([[b"a"], [b"b"]]), given([b"b", b"c", b"a"])]),
    case("NotEqual", args=[TEXTS, OTHERS], dynamic=True),
    case("NotEqual", args=[VECTOR, const(b"")], dynamic=True),
    case("Identity", args=[TEXTS]),
    case("GatherV2", args=[VECTOR, const([2, 0]), const(0)], dynamic=True),
    case("GatherV2", args=[const(np.array([b"x", b"", b"zz"], object)), given([[2, 0], [1, 1]], DType.i64), const(0)]),
    case("Gather", args=[VECTOR, const([[3, 1]])]),
    case("GatherNd", args=[TEXTS, const([[1, 0], [0, 2]])], dynamic=True),
    case("GatherNd", args=[TEXTS, const([[1]])], dynamic=True),
    case("Reshape", args=[TEXTS, const([3, 2])]),
    case("Reshape", args=[TEXTS, const([-1])], dynamic=True),
    case("ExpandDims", args=[VECTOR, const(-1)], dynamic=True),
    case("Squeeze", args=[given([[b"a"], [b"b"]])], squeeze_dims=[1], dynamic=True),
    case("Slice", args=[TEXTS, const([0, 1]), const([-1, 2])], dynamic=True),
    case("StridedSlice", args=[TEXTS, const([1, 0]), const([2, 3]), const([1, 2])], shrink_axis_mask=1),
    case("StridedSlice", args=[VECTOR, const([-1]), const([0]), const([-1])], end_mask=1),
    case("Tile", args=[TEXTS, const([2, 1])]),
    case("Fill", args=[const([2, 3]), given(b"yes")], litert="a scalar string cannot be set from Python"),
    case("Shape", args=[TEXTS], dynamic=True),
    case("Size", args=[TEXTS], dynamic=True),
    case("Rank", args=[TEXTS]),
    case("StringToHashBucketFast", args=[TEXTS], num_buckets=1, dynamic=True),
    case("StringToHashBucket", args=[given([[b"q"]])], num_buckets=1),
    case("StringToHashBucketStrong", args=[VECTOR], num_buckets=1, key=[1, 2]),
)
