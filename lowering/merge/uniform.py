"""One value in every element: an operator that works element by element can as well take it as a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels import array, elementwise
from jfuse.kernels.op import TflOp, builtin_ops
from jfuse.lowering.merge.registry import View, again, merges
from jfuse.lowering.merge.reshape import keeps_type

_ELEMENTWISE = [op for op in builtin_ops().values() if isinstance(op, TflOp) and op.elementwise]


@merges(*_ELEMENTWISE)
def uniform_operand(eqn: Eqn, view: View) -> Any:
    """A FILL or ZEROS_LIKE that is broadcast with a tensor of the result's shape: its size need not be computed."""
    (result,) = eqn.outputs
    scalars = [_scalar(a, view) for a in eqn.inputs]
    shaped = [a for a, s in zip(eqn.inputs, scalars, strict=True) if a is not None and s is None]
    if all(s is None for s in scalars) or not any(keeps_type(a.type, result.type) for a in shaped):
        return None
    inputs = tuple(a if s is None else s for a, s in zip(eqn.inputs, scalars, strict=True))
    return again(eqn, inputs=inputs)


def _scalar(atom: Atom | None, view: View) -> np.ndarray | None:
    """The one value of a tensor whose shape says more than its contents."""
    eqn = view.producer(atom)
    if eqn is None:
        return None
    if eqn.op is elementwise.zeros_like:
        return np.zeros((), eqn.outputs[0].type.dtype.numpy)
    value = eqn.inputs[1] if eqn.op is array.fill else None
    return value.array.reshape(()) if isinstance(value, Const) else None
