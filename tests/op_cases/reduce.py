"""Rows of lowering/reduce.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, boolean, case, const, f32, given, i32, i64

AXES: tuple[list[int], ...] = ([0], [1], [-1], [0, 2], [0, 1, 2], [])


def reduction(op: str) -> list[Case]:
    """A reduction of floats along each choice of axes, with dimensions kept and dropped, with unknown batch."""
    rows = [case(op, args=[f32(2, 3, 4), const(a)], dynamic=True, keep_dims=k) for a in AXES for k in (False, True)]
    return [*rows, case(op, args=[f32(2, 3, 4), const(1)]), case(op, args=[f32(), const([])])]


def truth(op: str) -> list[Case]:
    """A reduction of bools."""
    return [
        case(op, args=[boolean(2, 3), const([1])], dynamic=True),
        case(op, args=[given([[True, True], [False, False]], DType.bool), const([0, 1])], keep_dims=True),
        case(op, args=[given([[True, True], [False, False]], DType.bool), const([1])]),
    ]


def position(op: str) -> list[Case]:
    """The position of an extreme, ties included."""
    return [
        case(op, args=[f32(2, 3, 4), const(-1)], dynamic=True),
        case(op, args=[f32(2, 3, 4), const(1)], output_type=DType.i32),
        case(op, args=[given([1.0, 3.0, 3.0, 1.0]), const(0)]),
        case(op, args=[i32(2, 5), const(0)]),
    ]


CASES: tuple[Case, ...] = (
    *(row for op in ("Mean", "Sum", "Prod", "Max", "Min") for row in reduction(op)),
    *(case(op, args=[i32(2, 3), const([1])], dynamic=True) for op in ("Mean", "Sum", "Prod", "Max", "Min")),
    *(case(op, args=[i64(2, 3), const([0])]) for op in ("Mean", "Sum", "Prod", "Max", "Min")),
    case("Mean", args=[given([[-7, 2], [4, 3]], DType.i32), const([1])]),
    case("Sum", args=[f32(0, 3), const([0])]),
    case("Max", args=[f32(3, 0), const([0])]),
    *truth("Any"),
    *truth("All"),
    *position("ArgMax"),
    *position("ArgMin"),
    case("Cumsum", args=[f32(2, 3, 4), const(1)], dynamic=True),
    case("Cumsum", args=[f32(2, 3, 4), const(-1)], dynamic=True, exclusive=True),
    case("Cumsum", args=[f32(2, 3, 4), const(0)], dynamic=True, reverse=True),
    case("Cumsum", args=[f32(5), const(0)], exclusive=True, reverse=True),
    case("Cumsum", args=[i32(2, 3), const(1)]),
    case("Cumsum", args=[i64(1, 3), const(1)], exclusive=True),
)
