"""Rows of ops on two operands at every rank: broadcast crosswise, with a vector, with a scalar, empty."""

from __future__ import annotations

from collections.abc import Callable

from tests.op_cases.case import Case, Operand, case, f32

SIZES = (2, 3, 2, 1, 3, 2)
Draw = Callable[..., Operand]


def positive(*shape: int) -> Operand:
    """Floats that any power is defined for."""
    return f32(*shape, low=0.1, high=2)


def pairs(rank: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Shapes that broadcast to one of this rank."""
    full = SIZES[:rank]
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
