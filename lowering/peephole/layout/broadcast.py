"""Operators that broadcast their operands need none that is broadcast or repeated for them."""

from __future__ import annotations

from typing import Any

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels.array import array
from jfuse.kernels.core.op import TflOp, builtin_ops, static_value
from jfuse.kernels.math import elementwise
from jfuse.lowering.peephole.registry import peephole_walk
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import keeps_type
from jfuse.lowering.rules import need

_OF_ONE_SHAPE = (elementwise.select, elementwise.add_n)
BROADCASTING = [
    op for op in builtin_ops().values() if isinstance(op, TflOp) and op.elementwise and op not in _OF_ONE_SHAPE
]


# Any operand of any number of them is no pattern.
@peephole_walk(*BROADCASTING)
def broadcast_operand(eqn: Eqn, view: GraphView) -> Any:
    """BROADCAST_TO, or TILE of dimensions of 1, beside an operand that has the shape of the result."""
    (result,) = eqn.outputs
    origins = [_origin(a, view) for a in eqn.inputs]
    others = [a for a, origin in zip(eqn.inputs, origins, strict=True) if a is not None and origin is None]
    if all(o is None for o in origins):
        return None
    need(any(_has_shape(a, result) for a in others), "operand_of_result_shape")
    inputs = tuple(a if o is None else o for a, o in zip(eqn.inputs, origins, strict=True))
    merged = again(eqn, inputs=inputs)
    need(keeps_type(merged.type, result.type), "type_of_result")
    return merged


def _has_shape(atom: Atom, result: Atom) -> bool:
    pairs = zip(atom.type.shape, result.type.shape, strict=False)
    return atom.type.rank == result.type.rank and all(same(d, e) is True for d, e in pairs)


def _origin(atom: Atom | None, view: GraphView) -> Atom | None:
    """Return the value that was broadcast or repeated to make the operand; None where none was."""
    eqn = view.producer(atom)
    if eqn is None:
        return None
    if eqn.op is array.broadcast_to:
        return eqn.inputs[0]
    x, counts = (eqn.inputs[0], eqn.inputs[1]) if eqn.op is array.tile else (None, None)
    times = None if counts is None else static_value(counts)
    if x is None or times is None:
        return None
    return x if all(same(d, 1) or same(n, 1) for d, n in zip(x.type.shape, times, strict=True)) else None


# Any operand of any number of them is no pattern.
@peephole_walk(*BROADCASTING)
def operand_of_fewer_axes(eqn: Eqn, view: GraphView) -> Any:
    """ADD(x, EXPAND_DIMS(y)) = ADD(x, y) where an axis of size 1 comes first, and x has as many axes as the result."""
    (result,) = eqn.outputs
    origins = [_before_leading_ones(a, view) for a in eqn.inputs]
    narrow = [a for a, origin in zip(eqn.inputs, origins, strict=True) if a is not None and origin is None]
    if all(o is None for o in origins):
        return None
    need(any(a.type.rank == result.type.rank for a in narrow), "operand_of_result_rank")
    merged = again(eqn, inputs=tuple(a if o is None else o for a, o in zip(eqn.inputs, origins, strict=True)))
    need(keeps_type(merged.type, result.type), "type_of_result")
    return merged


def _before_leading_ones(atom: Atom | None, view: GraphView) -> Atom | None:
    """The tensor that is the operand but for sizes of 1 before its own."""
    eqn = view.producer(atom)
    x = eqn.inputs[0] if eqn is not None and eqn.op in (array.reshape, array.expand_dims) else None
    if atom is None or x is None or not 0 < x.type.rank < atom.type.rank:
        return None
    extra = atom.type.rank - x.type.rank
    ones, rest = atom.type.shape[:extra], atom.type.shape[extra:]
    fits = all(same(d, 1) is True for d in ones) and all(
        same(d, e) is True for d, e in zip(x.type.shape, rest, strict=True)
    )
    return x if fits else None
