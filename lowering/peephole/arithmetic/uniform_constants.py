"""One value in every element: an operator that works element by element can as well take it as a scalar."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels.array import array, pieces
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.kernels.math import elementwise, reduce
from jfuse.lowering.peephole.layout.broadcast import BROADCASTING
from jfuse.lowering.peephole.registry import peephole_walk
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import keeps_type
from jfuse.lowering.rules import need

_PADDED = 5  # dimensions at most, of PAD
_EXACT = 1 << 24  # up to which f32 counts
_DEPTH = 6  # of how a tensor of ones is summed up, as tf.nn.weighted_moments does it


# Any operand of any number of them is no pattern.
@peephole_walk(*BROADCASTING)
def uniform_operand(eqn: Eqn, view: GraphView) -> Any:
    """A FILL or ZEROS_LIKE that is broadcast with a tensor of the result's shape: its size need not be computed."""
    (result,) = eqn.outputs
    scalars = [_scalar(a, view) for a in eqn.inputs]
    shaped = [a for a, s in zip(eqn.inputs, scalars, strict=True) if a is not None and s is None]
    if all(s is None for s in scalars):
        return None
    need(any(keeps_type(a.type, result.type) for a in shaped), "operand_of_result_type")
    inputs = tuple(a if s is None else s for a, s in zip(eqn.inputs, scalars, strict=True))
    return again(eqn, inputs=inputs)


@peephole_walk(pieces.concatenation)
def uniform_end(eqn: Eqn, view: GraphView) -> Any:
    """A FILL or ZEROS_LIKE at the beginning or the end of a CONCATENATION is what PAD or PADV2 put there."""
    axis, ends, rank = eqn.params["axis"], (0, len(eqn.inputs) - 1), eqn.outputs[0].type.rank
    place, value = next(((i, v) for i in ends if (v := _scalar(eqn.inputs[i], view)) is not None), (0, None))
    end = eqn.inputs[place]
    if value is None or end is None:
        return None
    need(rank <= _PADDED, "rank_of_pad")
    need(eqn.params["fused_activation_function"] == "NONE", "no_activation")
    size = end.type.shape[axis]
    need(is_known(size), "known_size")
    rest = [a for i, a in enumerate(eqn.inputs) if i != place]
    need(any(_scalar(a, view) is None for a in rest), "operand_to_pad")
    joined = rest[0] if len(rest) == 1 else pieces.concatenation(*rest, axis=axis)
    amounts = np.zeros((rank, 2), np.int32)
    amounts[axis, int(place > 0)] = size
    padded = array.padv2(joined, amounts, value) if np.any(value) else array.pad(joined, amounts)
    need(keeps_type(padded.type, eqn.outputs[0].type), "type_of_result")
    return padded


def _scalar(atom: Atom | None, view: GraphView, depth: int = _DEPTH) -> np.ndarray | None:
    """The one value of a tensor whose shape says more than its contents; found by so many steps at most."""
    eqn = view.producer(atom) if depth else None
    if eqn is None or eqn.outputs[0].type.quantization is not None or not isinstance(eqn.op, TflOp):
        return None
    if eqn.op is array.reshape:
        return _scalar(eqn.inputs[0], view, depth - 1)
    if eqn.op is elementwise.zeros_like:
        return np.zeros((), eqn.outputs[0].type.dtype.numpy)
    if eqn.op is array.fill:
        return _number(eqn.inputs[1])
    if eqn.op is reduce.sum_:
        return _sum(eqn, _scalar(eqn.inputs[0], view, depth - 1))
    if not eqn.op.elementwise or len(eqn.outputs) != 1:
        return None
    values = []
    for operand in eqn.inputs:
        value = _number(operand) if isinstance(operand, Const) else _scalar(operand, view, depth - 1)
        if value is None:
            return None
        values.append(value)
    (result,) = eqn.op.run(values, eqn.params, ())
    return np.asarray(result)


def _number(atom: Atom | None) -> np.ndarray | None:
    return atom.array.reshape(()) if isinstance(atom, Const) and atom.array.size == 1 else None


def _sum(eqn: Eqn, value: np.ndarray | None) -> np.ndarray | None:
    """The sum of equal whole numbers along axes of known sizes, where it is exact."""
    x, axes = eqn.inputs[0], None if eqn.inputs[1] is None else static_value(eqn.inputs[1])
    if value is None or x is None or axes is None or value != np.round(value):
        return None
    sizes = [x.type.shape[a] for a in axes_from_front(axes, x.type.rank)]
    if not all(map(is_known, sizes)) or abs(float(value)) * np.prod(sizes) > _EXACT:
        return None
    return np.asarray(value * np.prod(sizes), value.dtype)
