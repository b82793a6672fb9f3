"""Rows of lowering/ops/array/slicing.py: TensorFlow's way of writing slices, every mask, places known and computed."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, boolean, case, const, f32, given, i32, i64, of
from tests.op_cases.every_dtype import MOVED
from tests.op_cases.texts import TEXTS, VECTOR


def strided(
    x: Operand,
    begin: Any,
    end: Any,
    strides: Any = None,
    *,
    dynamic: bool = True,
    dtype: DType = DType.i32,
    **masks: Any,
) -> Case:
    """One row of constant bounds; strides of 1 where they are not given."""
    strides = [1] * len(begin) if strides is None else strides
    return case("StridedSlice", args=[x, *(const(v, dtype) for v in (begin, end, strides))], dynamic=dynamic, **masks)


def element(x: Operand, *places: Any, shrink: int, **masks: Any) -> Case:
    """One row of elements at places that are inputs."""
    begin = given(list(places), DType.i32)
    end = given([p + 1 for p in places], DType.i32)
    return case("StridedSlice", args=[x, begin, end, const([1] * len(places))], shrink_axis_mask=shrink, **masks)


def stepped(x: Operand, begin: list[int], end: list[int], strides: list[int], **masks: Any) -> Case:
    """One row of bounds and strides that are inputs."""
    return case("StridedSlice", args=[x, *(given(v, DType.i32) for v in (begin, end, strides))], **masks)


def bounds(x: Operand, begin: list[int], end: list[int], strides: list[int] | None = None, **masks: Any) -> Case:
    """One row of bounds that are inputs."""
    ends = [given(v, DType.i32) for v in (begin, end)]
    return case("StridedSlice", args=[x, *ends, const(strides or [1] * len(begin))], **masks)


STRIDED = (
    stepped(f32(3, 4, 5), [0, 3, 0], [3, 0, 9], [2, -2, 1]),
    stepped(f32(3, 4, 5), [0, 0], [0, 0], [-1, 3], begin_mask=3, end_mask=3, dynamic=True),
    stepped(f32(3, 4, 5), [0, 1, 0], [0, 2, 0], [1, 1, 2], ellipsis_mask=1, shrink_axis_mask=2, end_mask=4),
    strided(f32(3, 4, 5), [0, 1, 2], [3, 3, 4]),
    strided(f32(3, 4, 5), [0, 0], [0, 0], begin_mask=1, end_mask=1),
    strided(f32(3, 4, 5), [0], [0]),
    strided(f32(3, 4, 5), [0, 3], [0, 1], begin_mask=1, end_mask=1),
    strided(f32(3, 4, 5), [0, 1], [0, -1], [1, -1], begin_mask=1, end_mask=1),
    strided(f32(3, 4, 5), [0, -1], [0, 0], begin_mask=1, end_mask=1, shrink_axis_mask=2),
    strided(f32(3, 4, 5), [1], [2], shrink_axis_mask=1),
    strided(f32(3, 4, 5), [-1], [0], shrink_axis_mask=1),
    strided(f32(3, 4, 5), [0, 0], [0, -1], begin_mask=3, end_mask=1),
    strided(f32(3, 4, 5), [0, 1], [0, 0], begin_mask=1, end_mask=3),
    strided(f32(3, 4, 5), [0, 0], [0, 0], [1, -1], begin_mask=3, end_mask=3),
    strided(f32(3, 4, 5), [0, -2], [0, -9], [1, -2], begin_mask=1, end_mask=1),
    strided(f32(3, 4, 5), [0, 0], [0, 0], [2, 3], begin_mask=3, end_mask=3),
    strided(f32(3, 4, 5), [0, 0], [0, 0], [-1, 1], begin_mask=3, end_mask=3),
    strided(f32(3, 4, 5), [0, 2], [0, 4], ellipsis_mask=1),
    strided(f32(3, 4, 5), [0, 0, 1], [0, 0, 2], ellipsis_mask=2, begin_mask=1, end_mask=1, shrink_axis_mask=4),
    strided(f32(3, 4, 5), [0, 0], [0, 0], new_axis_mask=2, begin_mask=1, end_mask=1),
    strided(f32(3, 4, 5), [0, 0, 0], [0, 0, 0], new_axis_mask=5, ellipsis_mask=2),
    strided(f32(3, 4, 5), [0, 0, 2], [0, 0, 3], new_axis_mask=1, ellipsis_mask=2, shrink_axis_mask=4),
    strided(f32(3, 4, 5), [0, 0, 0], [9, 9, 9]),
    strided(f32(3, 4, 5), [-9, 2], [9, 2]),
    strided(f32(3, 4, 5), [0], [0], begin_mask=1, end_mask=1),
    strided(f32(3, 4, 5), [1, 2], [2, 3], dtype=DType.i64, shrink_axis_mask=3),
    strided(f32(3, 4), [1, 2], [2, 3], begin_mask=2, shrink_axis_mask=2),
    strided(i32(5), [1], [4], [2]),
    strided(f32(2, 1, 3, 1, 2, 4), [0, 0, 1, 0, 0, 1], [2, 1, 3, 1, 2, 3], begin_mask=1, end_mask=1),
    strided(f32(2, 1, 3, 1, 2, 4), [0, 1, 1], [0, 2, 4], ellipsis_mask=1, shrink_axis_mask=2),
    strided(f32(2, 3), [0, 0, 0, 0], [0, 0, 0, 0], new_axis_mask=10, ellipsis_mask=4, begin_mask=1, end_mask=1),
    strided(f32(2, 3), [0, 0, 1], [0, 0, 2], new_axis_mask=1, shrink_axis_mask=5, begin_mask=2, end_mask=2),
    strided(f32(2, 4), [1, 3], [2, 0], [1, -2], shrink_axis_mask=1),
    strided(f32(0, 3), [0, 1], [5, 3], dynamic=False),
    strided(f32(2, 3), [0, 2], [2, 2], dynamic=False),
    strided(f32(2, 3), [0, 2], [2, 1], [-1, 1], dynamic=False),
    strided(i64(5), [-1], [-6], [-1]),
    strided(boolean(2, 3), [0, 1], [2, 3]),
    strided(f32(), [0], [0], dynamic=False, new_axis_mask=1),
    strided(given([[b"a", b"bc"], [b"", b"d"]]), [0, 1], [2, 2], dynamic=False, shrink_axis_mask=2),
)

COMPUTED = (
    element(f32(3, 4, 5), 1, shrink=1),
    element(f32(3, 4, 5), -1, shrink=1),
    element(f32(3, 4, 5), 2, -3, shrink=3),
    element(f32(3, 4, 5), 0, 2, shrink=2, begin_mask=1, end_mask=1),
    bounds(f32(5), [1], [4]),
    bounds(f32(5), [-3], [-1]),
    bounds(f32(5, 3), [0, 1], [2, 0], end_mask=2),
    bounds(f32(5, 3), [4, 0], [0, 9], strides=[-2, 1]),
    bounds(f32(4, 5, 3), [0, 1], [0, 3], ellipsis_mask=1),
    bounds(f32(4, 5, 3), [1, 0, 1], [3, 0, 2], new_axis_mask=2, shrink_axis_mask=4),
    case("Slice", args=[f32(3, 4), const([0, 1]), given([2, 3], DType.i32)]),
    case("Slice", args=[f32(3, 4), given([1, 1], DType.i64), given([2, -1], DType.i64)]),
    case("Slice", args=[f32(3, 4), given([1, 1], DType.i32), const([2, -1])]),
    case("Slice", args=[f32(3, 4, 5), given([0, 2, 1], DType.i32), const([3, 2, 1])]),
    case("Slice", args=[f32(5), given([3], DType.i64), const([1], DType.i64)]),
)

SLICES = (
    case("Slice", args=[f32(3, 4, 5), const([0, 1, 2]), const([-1, 2, -1])], dynamic=True),
    case("Slice", args=[f32(3, 4, 5), const([0, 0, 0]), const([-1, 4, 5])], dynamic=True),
    case("Slice", args=[f32(3, 4, 5), const([1, 0, 0]), const([-1, 4, 2])], dynamic=True),
    case("Slice", args=[f32(3, 4), const([2, 1], DType.i64), const([1, 0], DType.i64)], dynamic=True),
    case("Slice", args=[i32(5), const([2]), const([3])]),
    case("Slice", args=[f32(2, 1, 3, 1, 2, 4), const([0, 0, 1, 0, 0, 1]), const([-1, 1, 2, 1, 2, 2])], dynamic=True),
    case("Slice", args=[f32(0, 3), const([0, 1]), const([0, 2])]),
    case("Slice", args=[f32(), const([]), const([])]),
)

STRINGS = (
    case("Slice", args=[TEXTS, const([0, 1]), const([-1, 2])], dynamic=True),
    case("StridedSlice", args=[TEXTS, const([1, 0]), const([2, 3]), const([1, 2])], shrink_axis_mask=1),
    case("StridedSlice", args=[VECTOR, const([-1]), const([0]), const([-1])], end_mask=1),
)

TYPES = tuple(
    row
    for t in MOVED
    for row in (
        case("StridedSlice", args=[of(t, 2, 3), const([0, 1]), const([2, 3]), const([1, 1])]),
        case("Slice", args=[of(t, 2, 3), const([0, 1]), const([-1, 2])]),
    )
)

XLA = (
    case("XlaDynamicSlice", args=[f32(3, 8), given([1, 4], DType.i32), const([2, 3])], compiled=True),
    case("XlaDynamicSlice", args=[f32(3, 8), given([9, -4], DType.i64), const([2, 3], DType.i64)], compiled=True),
)

CASES: tuple[Case, ...] = (*XLA, *STRIDED, *COMPUTED, *SLICES, *STRINGS, *TYPES)
