"""Peephole rules and their registry: `peephole` marks a function that rewrites an equation and its producers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol, TypeAlias

from jfuse.ir.graph import Atom, Eqn, Op, Var
from jfuse.kernels.core.op import TflOp


class View(Protocol):
    """What a rule may ask about the graph around its equation."""

    def producer(self, atom: Atom | None, /) -> Eqn | None:
        """The equation that makes a Var; None for constants and inputs of the graph."""

    def readers(self, atom: Atom, /) -> int:
        """How often a Var is read, results of the graph included, or the memory of a constant, views of it included.

        At times too many, never too few.
        """

    def is_compared(self, atom: Atom, /) -> bool:
        """Whether a comparison, FLOOR or the like reads a Var, or what is computed from it element by element.

        Another rounding of such a value may be another answer, not one that is a little off.
        """


PeepholeRule: TypeAlias = Callable[[Eqn, View], Any]
"""Called with the last equation of the pattern. Returns its result (a tuple where it has several), spelled in ops and
of the same type, or None where the rule does not apply."""

_RULES: list[tuple[tuple[TflOp, ...], PeepholeRule]] = []


def peephole(*ops: TflOp) -> Callable[[PeepholeRule], PeepholeRule]:
    """Register the decorated function for equations of these ops. It must leave fewer or simpler equations."""

    def register(rule: PeepholeRule) -> PeepholeRule:
        _RULES.append((ops, rule))
        return rule

    return register


def rules_of(modules: Sequence[ModuleType]) -> Mapping[Op, tuple[PeepholeRule, ...]]:
    """The rules by the op of the last equation, in the order of their modules, then as they stand in them."""
    place = {module.__name__: i for i, module in enumerate(modules)}
    table: dict[Op, tuple[PeepholeRule, ...]] = {}
    for ops, rule in sorted(_RULES, key=lambda entry: place[entry[1].__module__]):
        for op in ops:
            table[op] = (*table.get(op, ()), rule)
    return table


def sole_producer(view: View, atom: Atom | None) -> Eqn | None:
    """The equation that makes a Var which nothing else reads."""
    return view.producer(atom) if isinstance(atom, Var) and view.readers(atom) == 1 else None
