"""`GraphView`: the graph around an equation, as peephole rules may query it: producers, readers, comparisons."""

from __future__ import annotations

from typing import Protocol

from jfuse.ir.graph import Atom, Eqn, Var


class GraphView(Protocol):
    """The graph around the equation of a rule."""

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

    def rounds_weights(self, eqn: Eqn, /) -> bool:
        """Whether the constant weights of an equation are to be kept in few bits."""


def sole_producer(view: GraphView, atom: Atom | None) -> Eqn | None:
    """The equation that makes a Var which nothing else reads."""
    return view.producer(atom) if isinstance(atom, Var) and view.readers(atom) == 1 else None
