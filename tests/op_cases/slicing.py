"""Rows of lowering/slicing.py: TensorFlow's way of writing slices, every mask, places known and computed."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, boolean, case, const, f32, given, i32, i64


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


STRIDED = (
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
    case("Slice", args=[f32(3, 4, 5), given([0, 2, 1], DType.i32), const([3, 2, 1])]),
    case("Slice", args=[f32(5), given([3], DType.i64), const([1], DType.i64)]),
)

SLICES = (
    case("Slice", args=[f32(3, 4, 5), const([0, 1, 2]), const([-1, 2, -1])], dynamic=True),
    case("Slice", args=[f32(3, 4, 5), const([0, 0, 0]), const([-1, 4, 5])], dynamic=True),
    case("Slice", args=[f32(3, 4, 5), const([1, 0, 0]), const([-1, 4, 2])], dynamic=True),
    case("Slice", args=[f32(3, 4), const([2, 1], DType.i64), const([1, 0], DType.i64)], dynamic=True),
    case("Slice", args=[i32(5), const([2]), const([3])]),
)

CASES: tuple[Case, ...] = (*STRIDED, *COMPUTED, *SLICES)
