"""Applies `state=`: which states last from call to call, the source's variables and those of its recurrences.

A state is a value: one more input and one more output of a signature's graph. Where recurrences start anew on every
call, their first carries are constants; here these become inputs, and the last carries outputs.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Program, Signature, Source, State, Var
from jfuse.ir.states import places, with_signatures
from jfuse.ir.trace import at_source, recording, trace_graph
from jfuse.ir.types import TensorType
from jfuse.ir.walk import producers, substitute
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.lowering.rule_tools.broadcast_constants import broadcast_constants, constant_of
from jfuse.passes.context import Context
from jfuse.passes.states.buffered_steps import Buffer
from jfuse.passes.states.carries import Carry, CarryingEqn, inner_recurrences, recurrences
from jfuse.passes.states.layers import Layers

_WITH_ITS_STATE = "a function that takes its state as an argument and returns the last one"


def apply_state_mode(program: Program, ctx: Context) -> Program:
    """Promise that signatures keep what the mode says: other states are constants, or inputs and outputs.

    The option `state`: "source", the source's variables; "reset", nothing; "keep", these and what recurrences carry;
    "io", nothing, all of it is given to each call and taken from it.
    """
    mode = ctx.forms.mode
    if mode == "source":
        return program
    if mode == "reset":
        return with_signatures(program, lambda s: _started_anew(s, ctx))
    names = _Names.of(program)
    recurrent = [r for graph in program.graphs() for r in recurrences(graph, producers(graph))]
    sources = [r.eqn.source for r in recurrent] or [_layer_source(e.source) for g in program.graphs() for e in g.eqns]
    layers = Layers.of(sources, ctx.variables)
    program = with_signatures(program, lambda s: _streamed(s, ctx, names, layers))
    if not any(s.states for s in program.signatures):
        _note(ctx, f"state={mode!r} finds nothing to keep between calls: no recurrence, no variable")
    if mode == "keep":
        return program
    return replace(program, signatures=tuple(_exposed(names.renamed(s)) for s in program.signatures))


def _started_anew(signature: Signature, ctx: Context) -> Signature:
    """The signature with its states as constants; what they become is dropped."""
    count, graph = len(signature.states), signature.graph
    if not count:
        return signature
    initial = [state.initial.array for state in signature.states]
    inputs, outputs = graph.inputs[: len(graph.inputs) - count], len(graph.outputs) - count

    def first_call(*variables: Var) -> Sequence[Atom]:
        return evaluate(graph, [*variables, *initial])[:outputs]

    for state in signature.states:
        _note(ctx, f"the state {state.name!r} is not kept: every call starts from its initial value")
    return replace(signature, graph=trace_graph(first_call, inputs, graph.name), states=())


def _exposed(signature: Signature) -> Signature:
    """The signature with its states as named inputs and outputs."""
    names = tuple(state.name for state in signature.states)
    inputs, outputs = (*signature.input_names, *names), (*signature.output_names, *names)
    return replace(signature, input_names=inputs, output_names=outputs, states=(), exposed=signature.states)


def _note(ctx: Context, note: str) -> None:
    if note not in ctx.report.notes:
        ctx.report.notes.append(note)


@dataclass
class _Names:
    """Names of states: each one's own, and unlike those of inputs and outputs."""

    tensors: frozenset[str]
    taken: set[str]
    states: dict[State, State] = field(default_factory=dict)  # under their new names

    @classmethod
    def of(cls, program: Program) -> _Names:
        """The names that a program has taken."""
        tensors = frozenset(name for s in program.signatures for name in (*s.input_names, *s.output_names))
        return cls(tensors, {*tensors, *(state.name for state in program.states())})

    def new(self, name: str, initial: Const) -> State:
        """A state of that name, with a number behind it where it is taken."""
        candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        unused = next(c for c in candidates if c not in self.taken)
        self.taken.add(unused)
        return State(unused, initial)

    def rename(self, state: State, name: str) -> None:
        """Give one of the source's states a name after what it is the state of; the first one counts."""
        if state not in self.states:
            self.states[state] = self.new(name, state.initial)

    def renamed(self, signature: Signature) -> Signature:
        """The signature with its states under names that no input or output has."""
        for state in signature.states:
            if state.name in self.tensors:
                self.rename(state, state.name)
        return replace(signature, states=tuple(self.states.get(s, s) for s in signature.states))


@dataclass(frozen=True)
class _NewState:
    """A carry that becomes a state."""

    eqn: Eqn
    carry: Carry
    state: State
    before: Var


@dataclass(frozen=True)
class _NewBuffer:
    """A buffer: the last steps become a state, which a concatenation puts before the next ones."""

    buffer: Buffer
    state: State
    before: Var
    after: Var
    eqns: tuple[Eqn, ...]


def _streamed(signature: Signature, ctx: Context, names: _Names, layers: Layers) -> Signature:
    """The signature with the carries of its recurrences as states, where they start from constants."""
    graph = signature.graph
    made, known = producers(graph), broadcast_constants(graph)
    for eqn in inner_recurrences(graph):
        _note(ctx, f"the recurrence at {eqn.source} is part of a loop or branch: it starts anew whenever that runs")
    for eqn in (e for e in graph.eqns if e.op is while_):
        _note(ctx, f"the loop at {eqn.source} does not step through a sequence: it starts anew on every call")
    held = {graph.inputs[p.input]: p.state for p in places(signature)}
    new: list[_NewState] = []
    streamed: set[Eqn] = set()
    for recurrence in recurrences(graph, made):
        layer = layers.name(recurrence.eqn.source)
        for carry in recurrence.carries:
            if (atom := recurrence.eqn.inputs[carry.operand]) in held and ctx.forms.mode == "io":
                names.rename(held[atom], f"{layer}_{carry.role}")
        states = list(_new_states(recurrence, layer, known, ctx, names))
        if states or not held.keys().isdisjoint(recurrence.eqn.inputs):
            streamed.add(recurrence.eqn)
        new += states
    from jfuse.passes.states.streams import stream_of

    stream = stream_of(signature, streamed, ctx.forms.mode)
    if stream.backwards:
        _note(ctx, f"the recurrences of {signature.key!r} run backwards: hand its pieces from the last to the first")
    buffered = [_buffered(b, ctx, names, layers) for b in stream.buffers]
    return _with_states(signature, new, buffered) if new or buffered else signature


def _buffered(buffer: Buffer, ctx: Context, names: _Names, layers: Layers) -> _NewBuffer:
    """The state of a buffer: what a piece has before its first step, and what it leaves for the next one."""
    eqn, axis, (result,) = buffer.eqn, buffer.axis, buffer.eqn.outputs
    shape = buffer.x.type.shape
    before_type = replace(buffer.x.type, shape=(*shape[:axis], buffer.steps, *shape[axis + 1 :]))
    state = names.new(f"{layers.name(_layer_source(eqn.source)) or 'steps'}_buffer", Const(buffer.initial))
    if ctx.forms.mode == "keep" and not before_type.is_static:
        raise _open_size(state.name, eqn, before_type)
    before = Var(before_type, state.name)
    with recording() as trace, at_source(eqn.source):
        joined = ops.concatenation(before, buffer.x, axis=axis)
        rank, mask = len(shape), (1 << len(shape)) - 1
        begin, end = [0] * rank, [0] * rank
        begin[axis], end[axis] = -buffer.before - buffer.steps, -buffer.before
        ends = mask if not buffer.before else mask ^ 1 << axis
        after = ops.strided_slice(joined, begin, end, [1] * rank, begin_mask=mask ^ 1 << axis, end_mask=ends)
        eqns = tuple(trace.eqns)
    if buffer.rest is None:
        eqns = (replace(eqns[0], outputs=(result,)), substitute(eqns[1], {joined: result}))
    else:
        eqns = (*eqns, replace(eqn, inputs=(joined, buffer.rest, *eqn.inputs[2:])))
    return _NewBuffer(buffer, state, before, after, eqns)


def _new_states(
    recurrence: CarryingEqn, layer: str, known: Mapping[Var, np.ndarray], ctx: Context, names: _Names
) -> Iterator[_NewState]:
    for carry in recurrence.carries:
        atom = recurrence.eqn.inputs[carry.operand]
        constant = None if atom is None else constant_of(atom, known)
        if atom is None or constant is None:
            continue  # the graph computes it, on every call
        state = names.new(f"{layer}_{carry.role}", Const(_initial(constant, atom.type)))
        if carry.result is None:
            raise _not_kept(recurrence, state.name, _WITH_ITS_STATE)
        if ctx.forms.mode == "keep":
            _refuse_to_keep(recurrence, state.name, atom.type)
        yield _NewState(recurrence.eqn, carry, state, Var(atom.type, state.name))
    if recurrence.hidden:
        raise _not_kept(recurrence, f"{layer}_state", _WITH_ITS_STATE)


def _initial(constant: np.ndarray, tensor_type: TensorType) -> np.ndarray:
    """A constant in the shape of what it is broadcast to, with one element along open dimensions."""
    shape = tuple(int(d) if is_known(d) else 1 for d in tensor_type.shape)
    return np.array(np.broadcast_to(constant, shape))


def _refuse_to_keep(recurrence: CarryingEqn, name: str, tensor_type: TensorType) -> None:
    if recurrence.backwards:
        raise _not_kept(recurrence, name, "steps in the order of the calls; it runs backwards, from the end of each")
    if not tensor_type.is_static:
        raise _open_size(name, recurrence.eqn, tensor_type)


def _open_size(name: str, eqn: Eqn, tensor_type: TensorType) -> LowerError:
    return LowerError(
        f"the state {name!r} cannot be kept, as its size is known only when a call is made",
        where=str(eqn.source) or None,
        expected="a fixed batch",
        found=str(tensor_type),
        remedy='give the source an input_signature with a fixed batch, or convert with state="io"',
    )


def _not_kept(recurrence: CarryingEqn, name: str, expected: str) -> LowerError:
    return LowerError(
        f"the state {name!r} cannot go from one call to the next",
        where=str(recurrence.eqn.source) or None,
        expected=expected,
        remedy='convert with state="source", where every call starts anew',
    )


def _with_states(signature: Signature, new: Sequence[_NewState], buffered: Sequence[_NewBuffer]) -> Signature:
    graph = signature.graph
    operands: dict[Eqn, dict[int, Var]] = {}
    for n in new:
        operands.setdefault(n.eqn, {})[n.carry.operand] = n.before
    written = {b.buffer.eqn: b.eqns for b in buffered}
    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        eqns += written[eqn] if eqn in written else [_with_operands(eqn, operands.get(eqn, {}))]
    after = [n.eqn.outputs[n.carry.result] for n in new if n.carry.result is not None]
    changed = replace(
        graph,
        inputs=(*graph.inputs, *(n.before for n in new), *(b.before for b in buffered)),
        eqns=tuple(eqns),
        outputs=(*graph.outputs, *after, *(b.after for b in buffered)),
    )
    states = (*signature.states, *(n.state for n in new), *(b.state for b in buffered))
    return replace(signature, graph=changed, states=states)


def _with_operands(eqn: Eqn, operands: dict[int, Var]) -> Eqn:
    if not operands:
        return eqn
    return replace(eqn, inputs=tuple(operands.get(i, atom) for i, atom in enumerate(eqn.inputs)))


def _layer_source(source: Source) -> Source:
    """The source of an equation without its own node: its layer, if it has one."""
    return replace(source, node=source.node.rpartition("/")[0] or source.node)
