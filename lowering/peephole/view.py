"""What a peephole rule may ask about the graph around its equation."""

from __future__ import annotations

from typing import Protocol

from jfuse.ir.graph import Atom, Eqn, Var


class View(Protocol):
    """What a rule may ask about the graph around its equation."""

    def producer(self, atom: Atom | None, /) -> Eqn | None:
        """The equation that makes a Var; None for constants and inputs of the graph."""

    def readers(self, atom: Atom, /) -> int:
        """How often a Var is read, results of the graph included, or the memory of a constant, views of it included.

        At times too many, never too few.
        """


def sole_producer(view: View, atom: Atom | None) -> Eqn | None:
    """The equation that makes a Var which nothing else reads."""
    return view.producer(atom) if isinstance(atom, Var) and view.readers(atom) == 1 else None
