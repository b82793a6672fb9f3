"""Rows of lowering/ops/array/ragged.py: levels, empty rows, sizes that are given, values of more dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, i32


def dense(values: Operand, *partition: Operand, shape: Any = -1, default: Any = 0.0, kinds: Sequence[str]) -> Case:
    """One row of ragged to dense."""
    return case(
        "RaggedTensorToTensor",
        args=[const(shape, DType.i64), values, const(default, values.dtype), *partition],
        row_partition_types=list(kinds),
    )


SPLITS = given([0, 2, 2, 5], DType.i64)
ROWS = ("ROW_SPLITS",)

CASES: tuple[Case, ...] = (
    dense(f32(5), SPLITS, kinds=ROWS),
    dense(f32(5), SPLITS, kinds=ROWS, shape=[-1, -1], default=-1.0),
    dense(f32(5), SPLITS, kinds=ROWS, shape=[2, 2]),
    dense(f32(5), SPLITS, kinds=ROWS, shape=[5, 4], default=7.0),
    dense(f32(5, 2), SPLITS, kinds=ROWS, default=[1.0, 2.0]),
    dense(f32(5, 2), SPLITS, kinds=ROWS, shape=[-1, 3, 2]),
    dense(i32(5), given([0, 0, 5], DType.i64), kinds=ROWS, default=3),
    dense(f32(0), given([0, 0], DType.i64), kinds=ROWS),
    dense(f32(5), given([0, 2, 2, 3], DType.i64), given([0, 1, 3, 5], DType.i64), kinds=ROWS * 2),
    dense(
        f32(4),
        *(given(v, DType.i64) for v in (4, [0, 0, 2, 2])),
        kinds=("FIRST_DIM_SIZE", "VALUE_ROWIDS"),
    ),
    dense(
        f32(4),
        *(given(v, DType.i64) for v in (2, [0, 1, 1], [0, 0, 2, 2])),
        kinds=("FIRST_DIM_SIZE", "VALUE_ROWIDS", "VALUE_ROWIDS"),
    ),
    case("RaggedGather", args=[SPLITS, f32(5), given([2, 1, 0, 2], DType.i32)], OUTPUT_RAGGED_RANK=1),
    case("RaggedGather", args=[SPLITS, f32(5, 2), given([[2, 1], [0, 0]], DType.i64)], OUTPUT_RAGGED_RANK=2),
    case(
        "RaggedGather",
        args=[given([0, 2, 2, 3], DType.i32), given([0, 1, 3, 5], DType.i32), i32(5), given([2, 0], DType.i32)],
        OUTPUT_RAGGED_RANK=2,
    ),
    case("RaggedRange", args=[given([0, 5, 8], DType.i32), given([3, 5, 2], DType.i32), given([1, 1, -2], DType.i32)]),
    case("RaggedRange", args=[const(0), given([3, 0, 2], DType.i32), const(1)]),
    case("RaggedRange", args=[const(0), given(3, DType.i32), const(2)]),
    case(
        "RaggedRange",
        args=[given([0.0, 1.0], DType.f32), given([1.2, 0.0], DType.f32), given([0.5, -0.3], DType.f32)],
    ),
)
