"""Rows of lowering/ops/math/reduce.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, boolean, c64, case, const, f32, given, i32, i64, of

AXES: tuple[list[int], ...] = ([0], [1], [-1], [0, 2], [0, 1, 2], [])


def reduction(op: str) -> list[Case]:
    """A reduction of floats along each choice of axes, with dimensions kept and dropped, with unknown batch."""
    rows = [case(op, args=[f32(2, 3, 4), const(a)], dynamic=True, keep_dims=k) for a in AXES for k in (False, True)]
    return [*rows, case(op, args=[f32(2, 3, 4), const(1)]), case(op, args=[f32(), const([])])]


NARROW = 4e-3  # one unit of the last place of bf16, 2 ** -8


def of_types(op: str) -> list[Case]:
    """The narrow types, which the kernels mostly lack."""
    types = (DType.f16, DType.bf16, DType.i8, DType.i16, DType.u8)
    return [case(op, args=[of(t, 2, 3), const([1])], tolerance=NARROW) for t in types]


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
        case(op, args=[i64(2, 5), const(1)], dynamic=True),
        case(op, args=[given([[3, 1], [3, 2**40], [5, 2**40]], DType.i64), const(0)], output_type=DType.i32),
        *(case(op, args=[of(t, 2, 5), const(-1)]) for t in (DType.i8, DType.u8, DType.i16, DType.f16, DType.bf16)),
        case(op, args=[f32(2, 1, 3, 1, 2, 2), const(2)]),
    ]


COMPUTED = (
    *(case(op, args=[f32(2, 3, 4), given([1], DType.i32)]) for op in ("Sum", "Mean", "Prod", "Max", "Min")),
    case("Sum", args=[f32(2, 3, 4), given(-1, DType.i32)], dynamic=True),
    case("Mean", args=[f32(2, 3, 4), given([2, 0], DType.i64)], keep_dims=True),
    case("Max", args=[i32(3, 3), given([0], DType.i32)]),
    case("Any", args=[boolean(2, 3), given([1], DType.i32)]),
    case("All", args=[boolean(2, 3), given([-2], DType.i32)], keep_dims=True),
    case("EuclideanNorm", args=[f32(2, 3, 4), given([1], DType.i32)]),
    *(case(op, args=[f32(2, 3, 4), given(a, DType.i32)]) for op in ("ArgMax", "ArgMin") for a in (0, 1, -1)),
    case("ArgMin", args=[i32(2, 5), given(1, DType.i64)], output_type=DType.i32),
    *(case("Cumsum", args=[f32(2, 3), given(a, DType.i32)], exclusive=a < 0, reverse=a < 1) for a in (0, -1)),
)
"""Axes that are inputs."""

CASES: tuple[Case, ...] = (
    *COMPUTED,
    *(row for op in ("Mean", "Sum", "Prod", "Max", "Min") for row in reduction(op)),
    *(case(op, args=[i32(2, 3), const([1])], dynamic=True) for op in ("Mean", "Sum", "Prod", "Max", "Min")),
    *(case(op, args=[i64(2, 3), const([0])]) for op in ("Mean", "Sum", "Prod", "Max", "Min")),
    case("Mean", args=[given([[-7, 2], [4, 3]], DType.i32), const([1])]),
    case("Sum", args=[f32(0, 3), const([0])]),
    case("Max", args=[f32(3, 0), const([0])]),
    case("Max", args=[f32(2, 0), const([1])]),
    case("Max", args=[i32(2, 0), const([1])], keep_dims=True),
    case("Min", args=[f32(0, 3), const([0])], keep_dims=True),
    case("Min", args=[i64(0), const([0])]),
    case("Min", args=[given([[2**63, 2**64 - 1], [5, 2**63 - 1]], DType.u64), const([1])]),
    case("Max", args=[given([[2**63, 2**64 - 1], [5, 2**63 - 1]], DType.u64), const([1])], keep_dims=True),
    case("Prod", args=[f32(2, 0), const([1])]),
    case("Mean", args=[f32(2, 0), const([1])]),
    *(row for op in ("Sum", "Prod", "Max", "Min") for row in of_types(op)),
    *(case("Mean", args=[of(t, 2, 3), const([1])], tolerance=NARROW) for t in (DType.f16, DType.bf16)),
    *(case(op, args=[f32(2, 1, 3, 1, 2, 2), const([0, 2, -1])], dynamic=True) for op in ("Mean", "Max")),
    *(
        case(op, args=[f32(2, 1, 2, 1, 2, 1, 2), const([0, 1, 4])], keep_dims=k)
        for op, k in (("Sum", True), ("Min", False))
    ),
    case("Sum", args=[f32(2, 3), const([0, 1], DType.i64)]),
    case("EuclideanNorm", args=[f32(2, 3, 4), const([1])], dynamic=True),
    case("EuclideanNorm", args=[f32(2, 3), const([0, 1])], keep_dims=True),
    case("EuclideanNorm", args=[f32(2, 3), const([])]),
    case("Any", args=[boolean(2, 0), const([1])]),
    case("All", args=[boolean(2, 0), const([1])]),
    case("All", args=[boolean(2, 3), const([])]),
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
    case("Cumsum", args=[f32(0, 3), const(1)], exclusive=True),
    case("Cumsum", args=[f32(2, 1, 3, 1, 2, 2), const(2, DType.i64)], dynamic=True),
    *(case("Cumsum", args=[of(t, 5), const(0)], tolerance=NARROW) for t in (DType.f16, DType.i8, DType.u8, DType.i16)),
    case("Sum", args=[c64(2, 3), const(1)], dynamic=True),
    case("Mean", args=[c64(2, 3), const(0)]),
)
