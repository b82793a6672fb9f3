"""Rows of lowering/ops/array/scatter.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Gap, Operand, boolean, c64, case, const, f32, given, i32, of, weights
from tests.op_cases.every_dtype import MOVED
from tests.op_cases.texts import TEXTS, VECTOR


def places(*shape: int, size: int, dtype: DType = DType.i32) -> Operand:
    """Indices into a dimension of `size`."""
    drawn = i32(*shape, low=0, high=size)
    return Operand(dtype, shape, 0, size, usual=False) if dtype is not DType.i32 else drawn


GATHERS = (
    case("Gather", args=[f32(4, 3), places(2, size=4)]),
    case("GatherV2", args=[weights(7, 3), places(2, 5, size=7), const(0)], dynamic=True),
    case("GatherV2", args=[weights(7, 3), places(size=7), const(0)]),
    case("GatherV2", args=[f32(2, 4, 3), places(5, size=4), const(1)], dynamic=True),
    case("GatherV2", args=[f32(2, 4, 3), places(2, 2, size=3, dtype=DType.i64), const(-1)]),
    case("GatherV2", args=[f32(2, 4, 3), places(2, 5, size=4), const(1)], batch_dims=1),
    case("GatherV2", args=[f32(2, 4, 3), places(2, 5, 6, size=3), const(2)], dynamic=True, batch_dims=1),
    case("GatherV2", args=[f32(2, 4, 3), places(2, 4, 1, size=3), const(-1)], dynamic=True, batch_dims=2),
    case("GatherV2", args=[f32(2, 4), places(2, 3, size=4), const(-1)], batch_dims=-1),
    case("GatherV2", args=[weights(2, 5, 4), places(2, 3, size=5), const(1)], batch_dims=1),
    case("GatherV2", args=[weights(2, 3, 4), places(2, 6, size=4), const(2)], batch_dims=1),
    case("GatherV2", args=[i32(4), const([3, 0]), const(0)]),
    case("GatherV2", args=[boolean(4, 2), const([3, 0]), const(0)]),
    case("GatherV2", args=[given([b"a", b"bc", b"d"]), places(4, size=3), const(0)]),
    case("GatherV2", args=[f32(2, 3, 4, 5), places(2, 3, 6, size=4), const(2)], dynamic=True, batch_dims=2),
    case("GatherV2", args=[f32(2, 3, 4), places(2, 1, 2, size=4), const(2)], batch_dims=1),
    case("GatherV2", args=[f32(2, 1, 3, 1, 2, 4), places(3, 2, size=4), const(-1)], dynamic=True),
    case("GatherV2", args=[f32(2, 3), places(0, size=2), const(0)]),
    case("GatherV2", args=[f32(2, 0, 3), places(2, size=3), const(2)]),
    case("GatherV2", args=[f32(4), places(2, size=4, dtype=DType.i16), const(0, DType.i64)]),
    case("GatherV2", args=[f32(4), const([[1, 2], [3, 0]], DType.i64), const(0)]),
    case("GatherNd", args=[f32(3, 4, 5, 2), given([[[0, 3, 1], [2, 1, 4]]], DType.i32)]),
    case("GatherNd", args=[f32(3, 4), given(np.zeros((0, 2)), DType.i32)]),
    case("GatherNd", args=[f32(3, 4), given([[0], [1]], DType.i16)]),
    case("GatherNd", args=[boolean(3, 4), given([[0, 1]], DType.i64)]),
    case("GatherNd", args=[f32(3, 4, 5), given([[0, 3], [2, 1]], DType.i32)]),
    case("GatherNd", args=[f32(3, 4, 5), given([[[2]], [[0]]], DType.i64)]),
    case("GatherNd", args=[weights(5, 4), given([[0, 3], [4, 1]], DType.i32)], dynamic=True),
    case("GatherNd", args=[weights(5, 4), given([[4], [0]], DType.i64)]),
    case("GatherNd", args=[i32(3, 4), given([1, 2], DType.i32)]),
    case("GatherNd", args=[f32(3, 4), const([[1], [1]])], dynamic=True),
)

MASK = [[True, False, True], [False, False, True]]

OTHERS = (
    case("OneHot", args=[places(2, 3, size=5), const(4), const(np.float32(1)), const(np.float32(0))], dynamic=True),
    case("OneHot", args=[i32(4, low=-2, high=6), const(4), const(np.float32(3)), const(np.float32(-1))]),
    case("OneHot", args=[given([2**40 + 3, -(2**63), 1, 3, 4], DType.i64), const(4), f32(), f32()]),
    case("OneHot", args=[given([2**40 + 3, -1, 2], DType.i64), given(4, DType.i32), f32(), f32()], axis=0),
    case("OneHot", args=[places(2, 3, size=5), const(4), const(1), const(0)], dynamic=True, axis=0),
    case("OneHot", args=[places(2, 3, size=5), const(4), f32(), f32()], axis=1),
    case("OneHot", args=[places(size=5), const(4), f32(), f32()]),
    case(
        "OneHot",
        args=[places(2, 3, size=5, dtype=DType.i64), const(4), const(True, DType.bool), const(False, DType.bool)],
    ),
    case("OneHot", args=[places(2, size=5, dtype=DType.u8), const(4), f32(), f32()], axis=0),
    case("OneHot", args=[places(2, size=5), const(0), f32(), f32()]),
    case("OneHot", args=[places(0, 2, size=5), const(3), f32(), f32()]),
    case("Where", args=[boolean(2, 3, 2)], dynamic=True),
    *(case("Where", args=[given([0, 2, 1, 0], t)]) for t in (DType.i8, DType.u8, DType.i16, DType.i64, DType.f64)),
    case("OneHot", args=[places(2, 3, size=5), given(4, DType.i32), const(1), const(0)]),
    case("Where", args=[given(MASK, DType.bool)]),
    case("Where", args=[given([0.0, 2.0, 0.0, -1.0])]),
    case(
        "Where", args=[given([False, False], DType.bool)], litert="get_tensor refuses an empty tensor that is dynamic"
    ),
)

COMPLEX = (case("GatherV2", args=[c64(4, 3), const([2, 0]), const(0)]),)

STRINGS = (
    case("GatherV2", args=[VECTOR, const([2, 0]), const(0)], dynamic=True),
    case("GatherV2", args=[const(np.array([b"x", b"", b"zz"], object)), given([[2, 0], [1, 1]], DType.i64), const(0)]),
    case("Gather", args=[VECTOR, const([[3, 1]])]),
    case("GatherNd", args=[TEXTS, const([[1, 0], [0, 2]])], dynamic=True),
    case("GatherNd", args=[TEXTS, const([[1]])], dynamic=True),
)


def moved(t: DType) -> list[Case]:
    """A type that not all kernels take."""
    x = of(t, 2, 3)
    return [
        case("GatherV2", args=[x, const([2, 0]), const(1)]),
        case("GatherNd", args=[x, given([[1, 2], [0, 0]], DType.i32)]),
        case("OneHot", args=[given([1, 0], DType.i32), const(2), of(t), of(t)]),
    ]


CASES: tuple[Case, ...] = (*GATHERS, *OTHERS, *COMPLEX, *STRINGS, *(row for t in MOVED for row in moved(t)))

GAPS = (
    Gap("ResourceGather", "a variable is no operand of a row: tests/lowering/ops/test_array.py"),
    Gap("ResourceGatherNd", "a variable is no operand of a row; its rule is GatherNd's"),
)
