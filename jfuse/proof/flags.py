"""Integer inputs that only say yes or no, as masks do: drawn among all integers, they would hardly ever say no."""

from __future__ import annotations

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops

_MOVES = frozenset({ops.reshape, ops.expand_dims, ops.squeeze, ops.transpose, ops.strided_slice, ops.tile, ops.slice_})
_COMPARISONS = frozenset({ops.equal, ops.not_equal})


def flags(graph: Graph) -> frozenset[Var]:
    """The integer inputs of which every reader asks whether they are 0, or 1, or takes the difference from 1.

    What becomes of an input in the bodies of an equation is not looked at: such inputs are none.
    """
    inputs = {v for v in graph.inputs if v.type.dtype.is_integer}
    origin: dict[Atom, Var] = {v: v for v in inputs}
    asked, others = set[Var](), {origin[a] for a in graph.outputs if a in origin}
    for eqn in graph.eqns:
        for place, atom in enumerate(eqn.inputs):
            if atom is None or atom not in origin:
                continue
            if _asks(eqn, place):
                asked.add(origin[atom])
            elif place == 0 and _hands_on(eqn):
                origin[eqn.outputs[0]] = origin[atom]
            elif eqn.op is not ops.shape:
                others.add(origin[atom])
    return frozenset(asked - others)


def _hands_on(eqn: Eqn) -> bool:
    """Whether the entries of the result are those of the first operand."""
    return eqn.op in _MOVES or (eqn.op is ops.cast and eqn.outputs[0].type.dtype is not DType.bool)


def _asks(eqn: Eqn, place: int) -> bool:
    """Whether an equation asks of an operand whether it is 0 or 1."""
    if eqn.op is ops.cast:
        return eqn.outputs[0].type.dtype is DType.bool
    if eqn.op in _COMPARISONS:
        return _is_filled(eqn.inputs[1 - place], (0, 1))
    return eqn.op is ops.sub and place == 1 and _is_filled(eqn.inputs[0], (1,))


def _is_filled(atom: Atom | None, numbers: tuple[int, ...]) -> bool:
    """Whether a constant has one of these numbers in every entry."""
    return isinstance(atom, Const) and any(bool((atom.array == n).all()) for n in numbers)
