"""Where a value comes from, while a rule runs: rules may look at what was recorded before them."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Const, Eqn, Var
from jfuse.ir.trace import active_trace
from jfuse.kernels.op import Array


def producer(x: Array | None) -> Eqn | None:
    """The equation of the active trace that gave x; None for inputs and constants."""
    if not isinstance(x, Var):
        return None
    return next((eqn for eqn in reversed(active_trace().eqns) if x in eqn.outputs), None)


def as_operand(atom: Any) -> Array:
    """An operand of a recorded equation as ops take it."""
    return atom.array if isinstance(atom, Const) else atom
