"""Recurrent states: each one gets a tensor of its own, which an operator writes before the fused op reads it.

A fused op of TFLite keeps its state between invokes. So that every invoke answers as the source does, the state tensor
is also the result of an ordinary operator. Which operators may write and read it, and in which order, was measured: the
runtime computes in place, delegates see no dependency on the fused op, memory is planned once. So nothing may rewrite
after this pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from jfuse.errors import JfuseError, LowerError
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import Trace, at_source, recording
from jfuse.ir.walk import producers, substitute, use_counts
from jfuse.kernels import ops
from jfuse.kernels.op import Array, TflOp
from jfuse.passes.broadcasts import Known, broadcast_constants, constant_of, unbroadcast
from jfuse.passes.context import Context
from jfuse.passes.drop import drop_dead
from jfuse.passes.rewrite import with_bodies
from jfuse.passes.run_time_shapes import fused_first, keeps_state, state_operands

MODES = ("source",)
_LAST_OUTPUT = "output_state"  # the state that is also the last step of the op's first result


def state(graph: Graph, ctx: Context) -> Graph:
    """Promise that every state updated in place is written by an operator of its own, and read only after the update.

    Bodies likewise. ctx.state: "source", every invoke starts from the initial states that the graph gives.
    """
    if ctx.state not in MODES:
        raise JfuseError(
            f"no state mode {ctx.state!r}", expected=" or ".join(map(repr, MODES)), remedy='state="source"'
        )
    return _with_own_states(graph, {})


def _with_own_states(graph: Graph, done: dict[Graph, Graph]) -> Graph:
    """done: what came out for each body so far, so that equations that share one go on sharing it."""
    if graph not in done:
        done[graph] = _own_states(with_bodies(graph, lambda body: _with_own_states(body, done)))
    return done[graph]


def _own_states(graph: Graph) -> Graph:
    if not any(keeps_state(eqn) for eqn in graph.eqns):
        return graph
    with recording() as trace:
        owner = _Owner(trace, broadcast_constants(graph), producers(graph), frozenset(+use_counts(graph)))
        for eqn in graph.eqns:
            owner.visit(eqn)
        outputs = tuple(owner.renamed.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
        # What only made the zeros of a state is dead now; left in, it would be a dynamic op before the fused one.
        return fused_first(drop_dead(replace(graph, eqns=tuple(trace.eqns), outputs=outputs)))


@dataclass
class _Owner:
    """Rewrites one graph: `renamed` are the final states that are read in another way from now on."""

    trace: Trace
    known: Known
    producers: Mapping[Var, Eqn]
    read: frozenset[Var]
    renamed: dict[Var, Atom] = field(default_factory=dict)

    def visit(self, eqn: Eqn) -> None:
        """Append an equation; a fused one with its writers before it and its tied reads after it."""
        eqn = substitute(eqn, self.renamed)
        if not keeps_state(eqn):
            self.trace.eqns.append(eqn)
            return
        with at_source(eqn.source):
            self.own_states(eqn)

    def own_states(self, eqn: Eqn) -> None:
        inputs = list(eqn.inputs)
        zeros = _zero_column(eqn)
        for place in state_operands(eqn):
            initial = inputs[place]
            if initial is not None:
                inputs[place] = self.written(initial, zeros)
        self.trace.eqns.append(replace(eqn, inputs=tuple(inputs)))
        finals = {place: eqn.outputs[result] for place, result in state_operands(eqn).items()}
        if not self.read.isdisjoint(finals.values()):
            last = _last_step(eqn)  # reads that nobody needs are dropped with the rest of what is dead
            for place, final in finals.items():
                assert isinstance(eqn.op, TflOp), "only builtins keep states"
                name = eqn.op.operand_at(place).name
                self.renamed[final] = last if name == _LAST_OUTPUT else _tied_read(final, last)

    def written(self, initial: Atom, zeros: Array) -> Var:
        """The initial value, written by an operator that runs on every invoke and never in place.

        zeros: f[b,1], computed from the input: what depends on constants alone is written only once.
        """
        shape = initial.type.shape
        constant = constant_of(initial, self.known)
        if constant is not None and not constant.any():
            written: Var = ops.tile(zeros, [1, shape[1]])
            return written
        source = unbroadcast(initial, self.producers)
        value = (
            initial
            if constant is None and source is initial
            else ops.add(zeros, source if constant is None else constant)
        )
        written = ops.concatenation(value, axis=1)  # copies, unlike ADD, which may share the tensor of its operand
        return written


def _zero_column(eqn: Eqn) -> Var:
    """Zeros f[b,1] with the batch of a fused op, computed from one of its operands, NaN or not."""
    operands = [(eqn.inputs[0], _batch_axis(eqn)), *((eqn.inputs[place], 0) for place in state_operands(eqn))]
    for atom, batch_axis in operands:
        if isinstance(atom, Var):
            last = atom.type.rank - 1
            other = sum(1 << axis for axis in range(last) if axis != batch_axis)
            begin, end = [0] * (last + 1), [int(axis != batch_axis) for axis in range(last + 1)]
            mask = 1 << batch_axis
            column = ops.strided_slice(
                atom, begin, end, [1] * (last + 1), begin_mask=mask, end_mask=mask, shrink_axis_mask=other
            )
            zeros: Var = ops.zeros_like(column)
            return zeros
    raise LowerError(
        f"{eqn.op.name} has a constant input and constant initial states",
        where=str(eqn.source) or None,
        expected="an input that is computed, so that the states are written on every invoke",
        remedy="make the input an argument of the function, or its results constants",
    )


def _batch_axis(eqn: Eqn) -> int:
    return 1 if eqn.params.get("time_major") else 0


def _last_step(eqn: Eqn) -> Var:
    """The last step of the first result.   f[b,t,o] or f[t,b,o] -> f[b,o]; a result without steps as it is"""
    y = eqn.outputs[0]
    if y.type.rank == 2:
        return y
    time_axis = 1 - _batch_axis(eqn)
    begin, mask = [-1 if axis == time_axis else 0 for axis in range(3)], 0b111 ^ 1 << time_axis
    last: Var = ops.strided_slice(
        y, begin, [0, 0, 0], [1, 1, 1], begin_mask=mask, end_mask=mask, shrink_axis_mask=1 << time_axis
    )
    return last


def _tied_read(final: Var, last: Var) -> Var:
    """A final state, read together with the op's output: reads of the state alone move before the op with XNNPACK."""
    width = final.type.shape[1]
    both = ops.concatenation(final, last, axis=1)
    found: Var = ops.strided_slice(both, [0, 0], [0, width], [1, 1], begin_mask=0b11, end_mask=0b01)
    return found
