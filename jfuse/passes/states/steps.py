"""The axis on which a tensor has the steps of a streamed sequence, and how reshaping moves it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from jfuse.ir.dims import Dim, is_known, product, same


@dataclass(frozen=True)
class StepAxis:
    """A tensor with a row for each step: dimension `axis` is outer * length * inner, in this order.

    before: how many of the steps precede the piece: a call has them again, as context for windows over steps.
    forwards: the steps are in the order of time; False where they are reversed.
    """

    axis: int
    length: Dim
    before: int = 0
    outer: Dim = 1
    inner: Dim = 1
    forwards: bool = True

    @property
    def stands_alone(self) -> bool:
        """Whether the dimension counts steps, and nothing besides."""
        return _is_one(self.outer) and _is_one(self.inner)

    @property
    def is_single(self) -> bool:
        """Whether every piece is one step: then the last step is the whole piece."""
        return _is_one(self.length)

    def at(self, axis: int, length: Dim | None = None) -> StepAxis:
        """The same steps along another axis, or with another length."""
        return replace(self, axis=axis, length=self.length if length is None else length)


@dataclass(frozen=True)
class CallValue:
    """A tensor that a call computes once from its piece.

    rank: of two such operands, the greater one says what the result is.
    """

    kind: str
    rank: int


LAST = CallValue("the last step", 0)
"""From the last step of the piece, and from steps before it: the whole sequence has the same there."""
LENGTH = CallValue("the number of steps", 1)
MIXED = CallValue("several steps", 2)
"""From several steps of the piece, which is refused where it happens."""
UNKNOWN = CallValue("steps, by an op that is not known", 3)
Value: TypeAlias = StepAxis | CallValue | None
"""How a tensor depends on the sequence; None for a tensor that is the same for every piece."""


class StepsMix(Exception):
    """An equation mixes steps in a way that no state mends.

    reason: a clause, for the message. result: what the equation gives, so that the walk goes on; for all results.
    """

    def __init__(self, reason: str, result: Value = MIXED, remedy: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.result = result
        self.remedy = remedy


def reshaped(steps: StepAxis, old: Sequence[Dim], new: Sequence[Dim]) -> StepAxis | None:
    """Where the steps are in another shape of the same elements; None where that shape splits them."""
    outer = product(tuple(old[: steps.axis])) * steps.outer
    inner = product(tuple(old[steps.axis + 1 :])) * steps.inner
    candidates: list[StepAxis] = []
    for axis, size in enumerate(new):
        o, i = _ratio(outer, product(tuple(new[:axis]))), _ratio(inner, product(tuple(new[axis + 1 :])))
        if o is not None and i is not None and same(o * steps.length * i, size) is True:
            candidates.append(replace(steps, axis=axis, outer=o, inner=i))
    # Dimensions of one element leave a choice: the steps alone rather than merged, after the batch rather than before.
    return max(candidates, key=lambda s: (s.stands_alone, _is_one(s.inner), s.axis), default=None)


def _ratio(size: Dim, divisor: Dim) -> Any:
    """size / divisor where that is a number or dimension, else None."""
    if same(divisor, 0) is not False and is_known(divisor):
        return None
    try:
        ratio = size // divisor
    except (ZeroDivisionError, ArithmeticError):
        return None
    return ratio if same(ratio * divisor, size) is True else None


def _is_one(dim: Dim) -> bool:
    return bool(is_known(dim) and dim == 1)
