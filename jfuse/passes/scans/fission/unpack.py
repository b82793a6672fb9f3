"""States that a loop carries in one tensor, and takes apart and puts together in each step, are carried apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import is_known
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import live_eqns, producers, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import scan, scan_parts
from jfuse.kernels.core.op import Array
from jfuse.lowering.recover.algebra.reader import straightened
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor
from jfuse.passes.rewrite import Rewriting


def unpack_states(graph: Graph) -> Graph:
    """Carry the parts of a state that each step concatenates, or packs, where the step reads none of it as a whole.

    Results stay as they are.
    """
    graph = with_bodies(graph, unpack_states)

    rewriting = Rewriting(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        return _apart(eqn, rewriting) if eqn.op is scan else None

    return rewriting.run(visit)


def _apart(eqn: Eqn, rewriting: Rewriting) -> Sequence[Any] | None:
    (body,) = eqn.bodies
    consts, initial, xs = scan_parts(eqn.inputs, eqn.params)
    made = producers(body)
    makers = [made.get(out) if isinstance(out, Var) else None for out in body.outputs[: len(initial)]]
    carries = [_carry(a.type, maker) for a, maker in zip(initial, makers, strict=True)]
    if not any(carry.is_packed for carry in carries):
        return None

    def step(*args: Array) -> list[Array]:
        values = list(args)
        own = [values.pop(0) for _ in consts]
        states = [carry.whole([values.pop(0) for _ in carry.pieces]) for carry in carries]
        results = evaluate(body, [*own, *states, *values])
        after = [part for carry, value in zip(carries, results, strict=False) for part in carry.parts(value)]
        return [*after, *results[len(carries) :]]

    try:
        parts = [
            part for carry, value in zip(carries, initial, strict=True) for part in _start(carry, value, rewriting, xs)
        ]
        operands = [as_atom(v) for v in (*consts, *parts, *xs)]
        steps = [TensorType(x.type.shape[1:], x.type.dtype) for x in xs]
        types = [a.type for a in operands[: len(consts) + len(parts)]]
        stepped = straightened(trace_graph(step, [*types, *steps], "step"), _rows(types))
    except JfuseError:  # a body that nobody can run yet
        return None
    if _puts_together(stepped, len(consts), carries):
        return None
    results = list(scan(operands, [stepped], **{**eqn.params, "carries": len(parts)}))
    states = [carry.whole([results.pop(0) for _ in carry.pieces]) for carry in carries]
    return [*states, *results]


def _start(carry: _Carry, value: Atom, rewriting: Rewriting, xs: Sequence[Atom]) -> list[Array]:
    """The pieces of an initial state. Those of a filled one are filled: a fused op's state may start from that."""
    maker = rewriting.producer(value)
    if not carry.is_packed or maker is None or maker.op is not ops.fill:
        return carry.parts(value)
    sources = [x for x in xs if isinstance(x, Var)]
    return [ops.fill(shape_tensor(piece.shape, sources), maker.inputs[1]) for piece in carry.pieces]


def _rows(types: Sequence[TensorType]) -> int:
    known = [int(t.shape[0]) for t in types if t.rank > 1 and is_known(t.shape[0])]
    return known[0] if known else 2


@dataclass(frozen=True)
class _Carry:
    """A state and its pieces along `axis`, one that is there for them if `stacked`; None where it is one piece."""

    pieces: tuple[TensorType, ...]
    axis: int | None = None
    stacked: bool = False

    @property
    def is_packed(self) -> bool:
        return self.axis is not None

    def parts(self, value: Array) -> list[Array]:
        """The pieces of a packed state, by UNPACK or SPLIT_V; the state alone where it is not packed."""
        if self.axis is None:
            return [value]
        if self.stacked:
            return list(unpacked(value, self.axis))
        sizes = [int(p.shape[self.axis]) for p in self.pieces]
        return list(ops.split_v(value, np.array(sizes, np.int32), np.int32(self.axis)))

    def whole(self, pieces: Sequence[Array]) -> Array:
        """The packed state made of its pieces, as `parts` takes it apart."""
        if self.axis is None:
            return pieces[0]
        return (ops.pack if self.stacked else ops.concatenation)(*pieces, axis=self.axis)


def _carry(type_: TensorType, maker: Eqn | None) -> _Carry:
    """A state by its type and by the equation that makes its next value."""
    if (
        maker is None
        or maker.op not in (ops.concatenation, ops.pack)
        or len(maker.inputs) < 2
        or not type_.dtype.is_float
    ):
        return _Carry((type_,))
    pieces = tuple(a.type for a in maker.inputs if a is not None)
    axis = maker.params["axis"] % type_.rank
    stacked = maker.op is ops.pack
    fits = stacked or all(is_known(p.shape[axis]) for p in pieces)
    return _Carry(pieces, axis, stacked) if fits else _Carry((type_,))


def _puts_together(body: Graph, consts: int, carries: Sequence[_Carry]) -> bool:
    """Whether the step still reads a packed state as a whole."""
    first, wholes = consts, []
    for carry in carries:
        if carry.is_packed:
            wholes.append(body.inputs[first : first + len(carry.pieces)])
        first += len(carry.pieces)
    return any(e.inputs == whole for e in live_eqns(body, body.outputs) for whole in wholes)
