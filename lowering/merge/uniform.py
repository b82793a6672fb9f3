"""One value in every element: an operator that works element by element can as well take it as a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
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


@merges(array.concatenation)
def uniform_end(eqn: Eqn, view: View) -> Any:
    """A FILL or ZEROS_LIKE at the beginning or the end of a CONCATENATION is what PAD or PADV2 put there."""
    axis, ends, rank = eqn.params["axis"], (0, len(eqn.inputs) - 1), eqn.outputs[0].type.rank
    place, value = next(((i, v) for i in ends if (v := _scalar(eqn.inputs[i], view)) is not None), (0, None))
    end = eqn.inputs[place]
    if value is None or end is None or rank > _PADDED or eqn.params["fused_activation_function"] != "NONE":
        return None
    size = end.type.shape[axis]
    rest = [a for i, a in enumerate(eqn.inputs) if i != place]
    if not is_known(size) or all(_scalar(a, view) is not None for a in rest):
        return None
    joined = rest[0] if len(rest) == 1 else array.concatenation(*rest, axis=axis)
    amounts = np.zeros((rank, 2), np.int32)
    amounts[axis, int(place > 0)] = size
    padded = array.padv2(joined, amounts, value) if np.any(value) else array.pad(joined, amounts)
    return padded if keeps_type(padded.type, eqn.outputs[0].type) else None


_PADDED = 5  # dimensions at most, of PAD


def _scalar(atom: Atom | None, view: View) -> np.ndarray | None:
    """The one value of a tensor whose shape says more than its contents."""
    eqn = view.producer(atom)
    if eqn is None:
        return None
    if eqn.op is array.reshape:
        return _scalar(eqn.inputs[0], view)
    if eqn.op is elementwise.zeros_like:
        return np.zeros((), eqn.outputs[0].type.dtype.numpy)
    value = eqn.inputs[1] if eqn.op is array.fill else None
    return value.array.reshape(()) if isinstance(value, Const) else None
