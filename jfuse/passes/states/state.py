"""Recurrent states: each one gets a tensor of its own, which an operator writes before the fused op reads it.

A fused op of TFLite keeps its state between invokes. So that every invoke answers as the source does, the state tensor
is also the result of an ordinary operator. Which operators may write and read it, and in which order, was measured: the
runtime computes in place, delegates see no dependency on the fused op, memory is planned once. So nothing may rewrite
after this pass.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import Trace, active_trace, at_source, recording
from jfuse.ir.types import TensorType
from jfuse.ir.walk import producers, substitute, use_counts, with_bodies
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.broadcast_constants import Known, broadcast_constants, cancels, constant_of, unbroadcast
from jfuse.opaque_ops.state_operands import keeps_state, overwritten_operands, state_operands, written_operands
from jfuse.passes.context import Context
from jfuse.passes.fuse.run_time_shapes import fused_first, has_run_time_shape, with_run_time_shape
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.passes.states.late_sizes import late_sizes


def state(graph: Graph, ctx: Context | None = None, *, in_place: Mapping[int, Var] = MappingProxyType({})) -> Graph:
    """Promise that every state updated in place is written by an operator of its own, and read only after the update.

    Bodies likewise.
    ctx: not needed; every pass of the pipeline is given one.
    in_place: inputs of the graph that are the state tensor of the op that reads them, without a writer: what the op
        leaves there is the next call's. By the position of the result that is that new value.
    """
    return _with_own_states(graph, {}, in_place)


def computed_starts(graph: Graph, ctx: Context | None = None) -> Graph:
    """Promise that what an op overwrites, as the basic LSTM its states, is no constant, in bodies too.

    ctx: not needed, as above.
    """
    graph = with_bodies(graph, computed_starts)
    if not any(map(overwritten_operands, graph.eqns)):
        return graph
    with recording() as trace:
        is_dynamic = any(with_run_time_shape(graph))
        owner = _Owner(trace, broadcast_constants(graph), producers(graph), frozenset(), frozenset(), is_dynamic)
        for eqn in graph.eqns:
            with at_source(eqn.source):
                trace.record(owner.with_computed(eqn))
        return eliminate_dead_code(replace(graph, eqns=tuple(trace.eqns)))


def _with_own_states(graph: Graph, done: dict[Graph, Graph], in_place: Mapping[int, Var]) -> Graph:
    """done: what came out for each body so far, so that equations that share one go on sharing it."""
    if graph not in done:
        done[graph] = _own_states(with_bodies(graph, lambda body: _with_own_states(body, done, {})), in_place)
    return done[graph]


def _own_states(graph: Graph, in_place: Mapping[int, Var]) -> Graph:
    if not any(keeps_state(eqn) for eqn in graph.eqns):
        return graph
    owned = _written(graph, in_place, is_dynamic=False)
    if any(with_run_time_shape(owned)):  # asked now: what only made the zeros of a state is gone
        owned = _written(graph, in_place, is_dynamic=True)
    return late_sizes(fused_first(owned))


def _written(graph: Graph, in_place: Mapping[int, Var], *, is_dynamic: bool) -> Graph:
    read = use_counts(replace(graph, outputs=tuple(a for i, a in enumerate(graph.outputs) if i not in in_place)))
    with recording() as trace:
        given_vars = frozenset(in_place.values())
        owner = _Owner(trace, broadcast_constants(graph), producers(graph), frozenset(+read), given_vars, is_dynamic)
        for eqn in graph.eqns:
            owner.visit(eqn)
        outputs = tuple(a if i in in_place else owner.current(a) for i, a in enumerate(graph.outputs))
        # What only made the zeros of a state is dead now; left in, it would be a dynamic op before the fused one.
        return eliminate_dead_code(replace(graph, eqns=tuple(trace.eqns), outputs=outputs))


@dataclass
class _Owner:
    """Rewrites one graph: `renamed` are the final states that are read in another way from now on.

    is_dynamic: whether any equation of the graph has a shape that is known at run time only.
    """

    trace: Trace
    known: Known
    producers: Mapping[Var, Eqn]
    read: frozenset[Var]
    kept: frozenset[Var]
    is_dynamic: bool = False
    renamed: dict[Var, Atom] = field(default_factory=dict)

    def current(self, atom: Atom) -> Atom:
        """Return the new atom for an atom of the old graph."""
        return self.renamed.get(atom, atom) if isinstance(atom, Var) else atom

    def visit(self, eqn: Eqn) -> None:
        """Append an equation; a fused one with its writers before it and its tied reads after it."""
        eqn = substitute(eqn, self.renamed)
        if not keeps_state(eqn):
            self.trace.record(eqn)
            return
        with at_source(eqn.source):
            self.own_states(eqn)

    def with_computed(self, eqn: Eqn) -> Eqn:
        """The equation with constants that it would overwrite computed in every call."""
        places = [i for i in overwritten_operands(eqn) if self.is_repeated(eqn.inputs[i])]
        if not places:
            return eqn
        inputs, zeros = list(eqn.inputs), _zero_column(eqn)
        for place in places:
            initial = inputs[place]
            assert initial is not None, "no op overwrites an operand that may be left out"
            inputs[place] = self.written(initial, zeros)
        return replace(eqn, inputs=tuple(inputs))

    def is_repeated(self, atom: Atom | None) -> bool:
        """Whether a value is a constant, or repeats another one."""
        if atom is None:
            return False
        return constant_of(atom, self.known) is not None or unbroadcast(atom, self.producers) is not atom

    def own_states(self, eqn: Eqn) -> None:
        inputs = list(eqn.inputs)
        zeros = _zero_column(eqn)
        for place in state_operands(eqn):
            initial = inputs[place]
            if initial is not None and initial not in self.kept:
                is_integer = initial.type.quantization is not None
                inputs[place] = self.written_in_integers(initial, zeros) if is_integer else self.written(initial, zeros)
        self.trace.record(replace(eqn, inputs=tuple(inputs)))
        finals = {place: eqn.outputs[result] for place, result in state_operands(eqn).items()}
        if not self.read.isdisjoint(finals.values()):
            steps: dict[tuple[int, int], Var] = {}
            for place, final in finals.items():  # reads that nobody needs are dropped with the rest of what is dead
                repeated = _repeated(eqn, place)
                at = repeated or (0, -1)
                step = steps[at] if at in steps else steps.setdefault(at, _step(eqn, *at))
                self.renamed[final] = step if repeated else _tied_read(final, in_type_of(final, step))

    def written(self, initial: Atom, zeros: Var) -> Var:
        """The initial value, written by an operator that runs on every invoke and never in place.

        zeros: f[b,1], computed from the input: what depends on constants alone is written only once.
        """
        shape = initial.type.shape
        constant = constant_of(initial, self.known)
        if constant is not None and not constant.any():
            written: Var = self.widened(zeros, int(shape[1]))
            return written
        if constant is not None:
            value = ops.add(zeros, np.broadcast_to(constant, np.broadcast_shapes(constant.shape, (int(shape[1]),))))
        else:
            value = self.from_row(initial, zeros)
        written = ops.concatenation(value, axis=1)  # copies, unlike ADD, which may share the tensor of its operand
        return written

    def from_row(self, initial: Atom, zeros: Var) -> Atom:
        """The initial value by a sum with zeros, where it repeats a row, or else where LiteRT sizes it at run time."""
        row = unbroadcast(initial, self.producers)
        if row is initial:
            return initial
        shape = initial.type.shape
        is_whole = row.type.shape[-1:] == shape[1:]
        assert isinstance(initial, Var), "a constant repeats nothing"
        if not is_whole and not has_run_time_shape(self.producers[initial], self.producers):
            return initial
        value: Var = ops.add(zeros if is_whole else self.widened(zeros, int(shape[1])), row)
        return value

    def written_in_integers(self, initial: Atom, zeros: Var) -> Var:
        """As `written`, in the type of the initial value: integers with a scale, whose zero point is 0."""
        if self.is_zero(initial):
            return typed(self.widened(in_type_of(initial, zeros), int(initial.type.shape[1])), initial)
        value = initial if isinstance(initial, Var) else typed(ops.add(in_type_of(initial, zeros), initial), initial)
        return typed(ops.concatenation(value, axis=1), initial)

    def is_zero(self, atom: Atom) -> bool:
        """Whether integers with a scale are real zeros, whatever scale they were made in, and moved since."""
        constant = constant_of(atom, self.known)
        if constant is not None:
            return stands_for_zero(constant, atom.type)
        made = self.producers.get(atom) if isinstance(atom, Var) else None
        if made is None:
            return False
        if cancels(made):
            return True
        data = [a for i, a in enumerate(made.inputs) if a is not None and not made.op.operand_at(i).static]
        return (bool(made.op.scales) or made.op.linear == "joint") and all(map(self.is_zero, data))

    def widened(self, zeros: Var, width: int) -> Var:
        """Zeros f[b,width] of a column of zeros, by an operator that never runs in place.

        PAD, as tflite-micro has no TILE. But where anything has a run-time shape, XNNPACK runs PAD behind it, and
        states of open size are planned too small: wrong numbers, then a crash (LiteRT 2.3.0). It does not take TILE.
        """
        wide: Var
        if self.is_dynamic and not zeros.type.is_static:
            wide = ops.tile(zeros, [1, width])
        else:
            wide = ops.pad(zeros, np.array([[0, 0], [0, width - 1]], np.int32))
        return wide


def _zero_column(eqn: Eqn) -> Var:
    """Zeros f[b,1] with the batch of a fused op, computed from one of its operands, NaN or not."""
    operands = [(eqn.inputs[0], _batch_axis(eqn)), *((eqn.inputs[place], 0) for place in written_operands(eqn))]
    for atom, batch_axis in operands:
        if isinstance(atom, Var):
            last = atom.type.rank - 1
            other = sum(1 << axis for axis in range(last) if axis != batch_axis)
            begin, end = [0] * (last + 1), [int(axis != batch_axis) for axis in range(last + 1)]
            mask = 1 << batch_axis
            column = ops.strided_slice(
                atom, begin, end, [1] * (last + 1), begin_mask=mask, end_mask=mask, shrink_axis_mask=other
            )
            return zeros_like(typed(column, atom))
    raise LowerError(
        f"{eqn.op.name} has a constant input and constant initial states",
        where=str(eqn.source) or None,
        expected="an input that is computed, so that the states are written on every invoke",
        remedy="make the input an argument of the function, or its results constants",
    )


def _batch_axis(eqn: Eqn) -> int:
    return 1 if eqn.params.get("time_major") else 0


def _repeated(eqn: Eqn, place: int) -> tuple[int, int] | None:
    """The result, and the step of it, that is the new value of the state at a place, where there is one."""
    repeat = eqn.op.repeats.get(eqn.op.operand_at(place).name)
    if repeat is None or repeat[0] >= len(eqn.outputs) - len(eqn.op.updates):
        return None
    final = eqn.outputs[state_operands(eqn)[place]]
    # Both directions of a bidirectional op may stand in one result.
    return repeat if same(eqn.outputs[repeat[0]].type.shape[-1], final.type.shape[-1]) is True else None


def _step(eqn: Eqn, result: int, step: int) -> Var:
    """The first (0) or last (-1) step of a result.   f[b,t,o] or f[t,b,o] -> f[b,o]; one without steps as it is"""
    y = eqn.outputs[result]
    if y.type.rank == 2:
        return y
    time_axis = 1 - _batch_axis(eqn)
    begin, end = ([n if axis == time_axis else 0 for axis in range(3)] for n in (step, step + 1))
    mask = 0b111 ^ 1 << time_axis
    step_ = ops.strided_slice(y, begin, end, [1, 1, 1], begin_mask=mask, end_mask=mask, shrink_axis_mask=1 << time_axis)
    return typed(step_, y)


def _tied_read(final: Var, last: Var) -> Var:
    """A final state, read together with the op's output: reads of the state alone move before the op with XNNPACK."""
    width = final.type.shape[1]
    both = typed(ops.concatenation(final, last, axis=1), final)
    return typed(ops.strided_slice(both, [0, 0], [0, width], [1, 1], begin_mask=0b11, end_mask=0b01), final)


# Records ops on quantized integers, for states that are kept quantized.


def typed(result: Var, like: Atom) -> Var:
    """The result of the equation recorded last, where that moves numbers of `like`: it has their scale."""
    if like.type.quantization is None:
        return result
    return _with_type(result, replace(result.type, dtype=like.type.dtype, quantization=like.type.quantization))


def _with_type(result: Var, type_: TensorType) -> Var:
    trace, made = active_trace(), Var(type_)
    (last,) = trace.take_back(len(trace.eqns) - 1)
    trace.record(replace(last, outputs=(made,)))
    return made


def stands_for_zero(array: np.ndarray, of: TensorType) -> bool:
    """Whether all elements are a real 0 in a type."""
    return bool((array == (0 if of.quantization is None else of.quantization.zero_point[0])).all())


def zeros_like(x: Var) -> Var:
    """Zeros of the type of a tensor, NaN or not. Of integers with a scale x - x, as the runtime has no ZEROS_LIKE."""
    if x.type.quantization is None:
        zeros: Var = ops.zeros_like(x)
        return zeros
    return typed(ops.sub(x, x), x)


def in_type_of(like: Atom, x: Var) -> Var:
    """The numbers of a tensor in the integers that another one has."""
    same = x.type.dtype is like.type.dtype and x.type.quantization == like.type.quantization
    if same or like.type.quantization is None:
        return x
    made = Var(replace(x.type, dtype=like.type.dtype, quantization=like.type.quantization))
    return active_trace().append(ops.quantize, (x,), (made.type,), {})[0]
