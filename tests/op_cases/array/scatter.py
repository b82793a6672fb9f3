"""Rows of lowering/ops/array/scatter.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, boolean, case, const, f32, given, i32, i64, of
from tests.op_cases.every_dtype import MOVED

SINGLES = given([[1], [3], [1]], DType.i32)
PAIRS = given([[0, 1], [2, 0], [0, 1]], DType.i32)


def updates(op: str) -> list[Case]:
    """Rows, elements, slices under two coordinates; places repeated, constant, i64, of many dimensions, one, none."""
    return [
        case(op, args=[f32(5, 2), SINGLES, f32(3, 2)]),
        case(op, args=[f32(5), SINGLES, f32(3)]),
        case(op, args=[f32(3, 2, 4), PAIRS, f32(3, 4)]),
        case(op, args=[f32(3, 2), const([[0, 1], [2, 0], [0, 1]]), f32(3)]),
        case(op, args=[f32(4, 2), const([[[1], [3]], [[3], [0]]], DType.i64), f32(2, 2, 2)]),
        case(op, args=[f32(4, 2), given([[[1], [3]], [[3], [0]]], DType.i64), f32(2, 2, 2)]),
        case(op, args=[f32(4, 2), given([[2]], DType.i32), f32(1, 2)]),
        case(op, args=[f32(4, 2), const(np.zeros((0, 1), np.int32)), f32(0, 2)]),
        case(op, args=[i32(4, 2), SINGLES, i32(3, 2)]),
        case(op, args=[f32(3, 2), PAIRS, f32(3)], dynamic=True),
    ]


def slices(x: Operand, begin: Any, end: Any, strides: Any, value: Operand, **masks: Any) -> Case:
    """One row of an update of a slice."""
    return case("TensorStridedSliceUpdate", args=[x, const(begin), const(end), const(strides), value], **masks)


TENSORS = (
    *(
        case(f"Inplace{kind}", args=[f32(5, 2), given([-1, 1, 6], DType.i32), f32(3, 2)])
        for kind in ("Update", "Add", "Sub")
    ),
    case("InplaceUpdate", args=[f32(5, 2), given([2], DType.i32), f32(1, 2)], dynamic=True),
    *(row for kind in ("Update", "Add", "Sub", "Min", "Max") for row in updates(f"TensorScatter{kind}")),
    case("TensorScatterUpdate", args=[f32(4, 3, 2), given([[2, 1]], DType.i64), f32(1, 2)]),
    case("TensorScatterUpdate", args=[boolean(4), SINGLES, boolean(3)]),
    case("TensorScatterUpdate", args=[i64(4), SINGLES, i64(3)]),
    case("TensorScatterUpdate", args=[of(DType.u8, 4), SINGLES, of(DType.u8, 3)]),
    case("TensorScatterUpdate", args=[of(DType.i8, 4), SINGLES, of(DType.i8, 3)]),
    case("TensorScatterMax", args=[given([-np.inf, np.inf, 0]), given([[0], [1]], DType.i32), given([-np.inf, 1])]),
    case("TensorScatterMin", args=[given([-np.inf, np.inf, 0]), given([[0], [1]], DType.i32), given([1, np.inf])]),
)

SCATTERS = (
    case("ScatterNdNonAliasingAdd", args=[f32(4, 3), const([[0], [2], [0]]), f32(3, 3)]),
    case("ScatterNd", args=[SINGLES, f32(3, 2), const([5, 2])]),
    case("ScatterNd", args=[PAIRS, i32(3), const([3, 2])]),
    case("ScatterNd", args=[given([[1], [0]], DType.i64), f32(2, 3), const([4, 3], DType.i64)]),
    case("ScatterNd", args=[given([[[1], [0]]], DType.i32), f32(1, 2), const([4])]),
    case("ScatterNd", args=[const(np.zeros((0, 1), np.int32)), f32(0, 2), const([3, 2])]),
    case("ScatterNd", args=[SINGLES, i64(3), const([5])]),
    case("ScatterNd", args=[const([[1], [3], [1]]), of(DType.i8, 3), const([5])]),
    case("ScatterNd", args=[SINGLES, f32(3, 2), given([5, 2], DType.i32)]),
    case("SparseToDense", args=[given([[0, 1], [2, 0]], DType.i32), const([3, 2]), f32(2), f32()]),
    case("SparseToDense", args=[given([[0, 1], [2, 0]], DType.i64), const([3, 2], DType.i64), i64(2), i64()]),
    case("SparseToDense", args=[given([0, 3], DType.i32), const([5]), f32(2), const(np.float32(0))]),
    case("SparseToDense", args=[given([0, 3], DType.i32), const([5]), i32(), const(-1)]),
    case("SparseToDense", args=[given(3, DType.i32), const([5]), f32(), const(np.float32(0))]),
    case("SparseToDense", args=[given([[0, 1, 0, 1, 1]], DType.i32), const([1, 2, 1, 2, 2]), f32(1), f32()]),
    case("SparseToDense", args=[given([0, 3], DType.i32), const([5]), of(DType.u8, 2), of(DType.u8)]),
)


def computed(x: Operand, begin: Any, end: Any, value: Operand, **masks: Any) -> Case:
    """One row of an update of a slice whose place is an input."""
    places = [given(bound, DType.i32) for bound in (begin, end)]
    return case("TensorStridedSliceUpdate", args=[x, *places, const([1] * len(begin)), value], **masks)


SLICES = (
    computed(f32(4, 5), [1], [3], f32(2, 5)),
    computed(f32(4, 5), [-2, 1], [0, 3], f32(2), shrink_axis_mask=1),
    computed(f32(4, 5), [0, 3], [0, 9], f32(4, 2), begin_mask=1, end_mask=1),
    computed(i32(4, 5), [2, 0], [4, 0], i32(2), shrink_axis_mask=2),
    computed(f32(2, 4, 5), [0, 3], [0, 5], f32(2, 4, 2), ellipsis_mask=1),
    slices(f32(4, 5), [1, 2], [3, 4], [1, 1], f32(2, 2)),
    slices(f32(4, 5), [1, 0], [3, 0], [1, 1], f32(2, 5), end_mask=2),
    slices(f32(4, 5), [0, 0], [4, 5], [2, 3], f32(2, 2)),
    slices(f32(4, 5), [3, 4], [0, 0], [-1, -2], f32(3, 2)),
    slices(f32(4, 5), [1, 2], [2, 4], [1, 1], f32(2), shrink_axis_mask=1),
    slices(i32(4, 5), [0, 2], [0, 3], [1, 1], i32(4), ellipsis_mask=1, shrink_axis_mask=2),
    slices(f32(4), [0, 1], [0, 3], [1, 1], f32(1, 2), new_axis_mask=1),
    slices(f32(4), [2], [2], [1], f32(0)),
)

STITCHES = (
    case("DynamicStitch", args=[const([0, 2]), const([1]), f32(2, 3), f32(1, 3)]),
    case("DynamicStitch", args=[const([[0, 2], [3, 1]]), const(2), f32(2, 2), f32()]),
    case("DynamicStitch", args=[given([0, 2], DType.i32), given([1, 0], DType.i32), f32(2, 3), f32(2, 3)]),
    case("ParallelDynamicStitch", args=[given([0, 2], DType.i32), given([1], DType.i32), i32(2), i32(1)]),
    case("DynamicPartition", args=[f32(4, 3), given([1, 0, 1, 1], DType.i32)], num_partitions=2),
    case("DynamicPartition", args=[f32(2, 2, 3), given([[1, 0], [2, 0]], DType.i32)], num_partitions=3),
    case("DynamicPartition", args=[i32(4), const([0, 0, 1, 0])], num_partitions=2),
)

TYPES = tuple(case("TensorScatterUpdate", args=[of(t, 2, 3), given([[1], [0]], DType.i32), of(t, 2, 3)]) for t in MOVED)

XLA = (
    case("XlaDynamicUpdateSlice", args=[f32(3, 8), f32(1, 8), given([2, 0], DType.i32)], compiled=True),
    case("XlaDynamicUpdateSlice", args=[i32(3, 8), i32(2, 3), given([9, -4], DType.i64)], compiled=True),
)

CASES: tuple[Case, ...] = (*XLA, *TENSORS, *SCATTERS, *SLICES, *STITCHES, *TYPES)
