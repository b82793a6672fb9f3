"""The registry of spellings, by the op that each replaces and the case that it is for."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from itertools import product
from typing import Any, Literal, TypeAlias

from jfuse.ir.graph import Const, Eqn, Op

Case: TypeAlias = Literal["target", "integers", "loop", "faster", "coarse", "refined", "steps", "cells"]
"""Where an op is spelled in others.

target: the target lacks it. integers: it has no kernel for integers. loop: as "integers", for recurrences of many or
open steps. faster: XNNPACK lacks its kernel of 8 bits, and LiteRT's own goes from number to number, in 5 to 10 times
the time of the spelling (LiteRT 2.3.0, 48 x 48 x 24: 500 to 1,000 us). coarse: as "integers", where no floats are
allowed; floats between integers would be more exact and cheaper. refined: its kernel has 8 bits alone, and the spelling
makes 16 bits of them. steps: a recurrence in plain ops. cells: a recurrence in basic cells.
"""


@dataclass(frozen=True)
class Spelling:
    """A function of an equation and its operands: a result or a tuple of them; None where it does not apply."""

    function: Callable[..., Any]

    def __call__(self, eqn: Eqn) -> Sequence[Any] | None:
        """The results, recorded in the active trace; None where it does not apply."""
        results = self.function(eqn, *(a.array if isinstance(a, Const) else a for a in eqn.inputs))
        return results if results is None or isinstance(results, tuple) else (results,)


_SPELLINGS: dict[tuple[Case, Op], list[Spelling]] = {}


def spelling_of(*kinds: Op, when: Sequence[Case] = ("target",)) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as a spelling of these ops, tried after those declared before it."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in product(when, kinds):
            _SPELLINGS.setdefault(key, []).append(Spelling(function))
        return function

    return declare


def spellings_of(op: Op, *cases: Case) -> list[Spelling]:
    """The spellings of an op in the order of trial."""
    return [spelling for case in cases for spelling in _SPELLINGS.get((case, op), ())]


def respelled(eqn: Eqn, *cases: Case) -> Sequence[Any] | None:
    """The results of an equation by the first spelling that applies; None where none does."""
    made = (spelling(eqn) for spelling in spellings_of(eqn.op, *cases))
    return next((results for results in made if results is not None), None)


def registered(*cases: Case) -> Set[tuple[Case, Op]]:
    """The cases and ops that have spellings."""
    return {key for key in _SPELLINGS if key[0] in cases}
