"""Recording an equation's op once more."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Eqn


def again(eqn: Eqn, *, inputs: tuple[Any, ...] | None = None, **options: Any) -> Any:
    """Record the equation's op once more, with other operands or options."""
    (result,) = eqn.op.run(eqn.inputs if inputs is None else inputs, {**eqn.params, **options}, eqn.bodies)
    return result
