"""Where a value comes from, while a rule runs: rules may look at what was recorded before them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.ir.trace import active_trace
from jfuse.kernels.core.op import Array


def producer(x: Array | None) -> Eqn | None:
    """The equation of the active trace that gave x; None for inputs and constants."""
    if not isinstance(x, Var):
        return None
    return next((eqn for eqn in reversed(active_trace().eqns) if x in eqn.outputs), None)


def as_operand(atom: Any) -> Array:
    """An operand of a recorded equation as ops take it."""
    return atom.array if isinstance(atom, Const) else atom


Producer = Callable[[Atom | None], Eqn | None]


def again(eqn: Eqn, *, inputs: tuple[Any, ...] | None = None, **options: Any) -> Any:
    """Record the equation's op once more, with other operands or options."""
    (result,) = eqn.op.run(eqn.inputs if inputs is None else inputs, {**eqn.params, **options}, eqn.bodies)
    return result
