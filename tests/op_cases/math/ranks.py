"""Rows of ops on two and three operands at every rank: broadcast crosswise, with a vector, with a scalar, empty."""

from __future__ import annotations

from collections.abc import Callable

from tests.op_cases.case import Case, Operand, boolean, case, f32, i32

_SIZES = (2, 3, 2, 1, 3, 2)
Draw = Callable[..., Operand]


def positive(*shape: int) -> Operand:
    """Floats that any power is defined for."""
    return f32(*shape, low=0.1, high=2)


def pairs(rank: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes that broadcast to one of this rank."""
    full = _SIZES[:rank]
    even = tuple(1 if axis % 2 else d for axis, d in enumerate(full))
    odd = tuple(d if axis % 2 else 1 for axis, d in enumerate(full))
    return [(even, odd), (full, full[-1:]), ((), full)]


def ranks(op: str, operand: Draw) -> list[Case]:
    """An op of two operands at ranks 3 to 6; the families have the lower ones."""
    return [
        case(op, args=[operand(*x), operand(*y)], dynamic=rank == 6 and len(x) == 6)
        for rank in range(3, 7)
        for x, y in pairs(rank)
    ]


def empty(op: str, operand: Draw) -> list[Case]:
    """An op of two operands without elements."""
    shapes = [((0,), (1,)), ((0, 3), (3,)), ((2, 0, 3), (2, 1, 3)), ((), (2, 0)), ((2, 1, 0, 3, 1), (1, 3, 1, 3, 2))]
    return [case(op, args=[operand(*x), operand(*y)]) for x, y in shapes]


def choice(rank: int) -> list[Case]:
    """SelectV2 where each operand is broadcast along other axes."""
    full = _SIZES[:rank]
    thirds = [tuple(d if axis % 3 == k else 1 for axis, d in enumerate(full)) for k in range(3)]
    return [
        case("SelectV2", args=[boolean(*thirds[0]), f32(*thirds[1]), f32(*thirds[2])]),
        case("SelectV2", args=[boolean(*full), i32(), i32(*full[-1:])]),
    ]


CASES: tuple[Case, ...] = (
    *(row for op in ("AddV2", "Less", "FloorMod", "Atan2") for row in ranks(op, f32)),
    *(row for op in ("Mul", "Maximum", "Equal", "BitwiseAnd") for row in ranks(op, i32)),
    *(row for op in ("Pow", "SquaredDifference") for row in ranks(op, positive)),
    *(row for op in ("AddV2", "Atan2") for row in empty(op, f32)),
    *(row for rank in range(1, 7) for row in choice(rank)),
    case("AddV2", args=[f32(2, 3, 2, 1, 2, 1, 2, 2, 1, 2), f32(2, 2, 1, 2)]),
    case("Maximum", args=[f32(2, 3, 2, 1, 2, 1, 2, 2, 1, 2), f32(3, 2, 1, 2, 1, 1, 1, 1, 1)]),
    case("Less", args=[i32(2, 3, 2, 1, 2, 1, 2, 2, 1, 2), i32(2)], dynamic=True),
)
