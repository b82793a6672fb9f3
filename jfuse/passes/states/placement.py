"""Where the file keeps each state: in the state tensor of a fused op, or in a variable of its own.

The tensor is the cheaper place: nothing is read, copied or written. It starts at zero, and one operator alone can use
it. Every other state is a variable, which the exporter writes: READ_VARIABLE before the first operator,
ASSIGN_VARIABLE after the last.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from jfuse.base.errors import JfuseError, LowerError
from jfuse.ir.dims import symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, Source, State, Var
from jfuse.ir.states import StatePlace, distinct, places, reset_value, with_signatures
from jfuse.ir.types import DType
from jfuse.ir.walk import is_last_reader, producers, use_counts, users, without_idle_states
from jfuse.kernels import ops
from jfuse.kernels.core.op import new_states
from jfuse.opaque_ops.state_operands import keeps_state, state_operands
from jfuse.passes.context import Context
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.passes.states.state import state
from jfuse.proof.inputs import concrete
from jfuse.records.conversion import KeptState
from jfuse.tflite.write.distinct_outputs import prepare_outputs

_REARRANGE = frozenset({"renames", "permutes", "takes"})
"""Moves whose result is some elements of the first operand."""


def place_states(program: Program, ctx: Context) -> Program:
    """Promise that fused ops read states as TFLite has them: from tensors that an operator writes, or that are kept."""
    program = with_signatures(program, _without_idle)
    vectors = {s.name: _as_vector(s) for s in program.states() if not s.initial.type.rank}
    program = with_signatures(program, lambda s: _with_vectors(s, vectors))
    program = with_signatures(program, _with_final_states)
    _refuse_texts(program)
    in_tensors = not ctx.target.compiled_model
    ctx.report.kept = list(_kept(program, _keepers(program) if in_tensors else {}))

    def placed(signature: Signature) -> Signature:
        state_tensors = {
            p.output: signature.graph.inputs[p.input] for p in places(signature) if p.state.home == "tensor"
        }
        return replace(signature, graph=state(signature.graph, ctx, in_place=state_tensors))

    return with_signatures(with_homes(program, in_tensors=in_tensors), placed)


def prepare_results(program: Program) -> Program:
    """Promise what `prepare_outputs` promises, of results that are no states."""
    return with_signatures(program, lambda s: replace(s, graph=prepare_outputs(s.graph, states=len(s.states))))


def with_homes(program: Program, *, in_tensors: bool = True) -> Program:
    """The program with the home of each state: the state tensor of one fused op where that can hold it, or a variable.

    Such a tensor starts as the runtime fills it. No other graph knows it, one op reads it, and what the op makes of it
    is what it becomes. Where an input can have several sizes every state needs a variable: a change of size clears all
    state tensors (LiteRT 2.3.0). States that a file already keeps in tensors stay there, and are cleared as there.
    in_tensors: whether the target takes state tensors.
    """
    held = _keepers(program) if in_tensors else {}

    def decided(signature: Signature) -> Signature:
        states = (replace(s, home="tensor" if s.name in held else "variable") for s in signature.states)
        return replace(signature, states=tuple(states))

    return with_signatures(program, decided)


def _keepers(program: Program) -> dict[str, Eqn | None]:
    """The equations in whose state tensors states can be, by the state's name; None where nothing reads the tensor."""
    signatures = distinct(program)
    known = Counter(each.name for s in signatures for each in s.states)
    keepers: dict[str, Eqn | None] = {}
    for s in signatures:
        alone = [p for p in places(s) if known[p.state.name] == 1 and _is_reset(p.state)]
        keepers |= _by_one_op(s, [p for p in alone if p.state.home == "variable"])
        keepers |= _as_in_file(s, [p for p in alone if p.state.home == "tensor"])
    return keepers


def _by_one_op(s: Signature, alone: Iterable[StatePlace]) -> dict[str, Eqn | None]:
    """The states that one equation reads and updates."""
    keepers: dict[str, Eqn | None] = {}
    readers = _readers(s) if all(var.type.is_static for var in s.graph.inputs) else {}
    for p in alone:
        reader = readers.get(s.graph.inputs[p.input])
        if reader is None:
            continue
        result = state_operands(reader).get(reader.inputs.index(s.graph.inputs[p.input]))
        if result is not None and reader.outputs[result] is s.graph.outputs[p.output]:
            keepers[p.state.name] = reader
    return keepers


def _as_in_file(s: Signature, alone: Iterable[StatePlace]) -> dict[str, Eqn | None]:
    """The states that equations write one after the other, each when nothing reads any more what the state was before.

    An equation that is no op with a state writes last of all, and does not read what it overwrites.
    """
    keepers: dict[str, Eqn | None] = {}
    read_by, made = users(s.graph), producers(s.graph)
    for p in alone:
        value, after = s.graph.inputs[p.input], s.graph.outputs[p.output]
        reader = next(reversed(read_by.get(value, [])), None)
        while value is not after and reader is not None and is_last_reader(s.graph, reader, value):
            result = state_operands(reader).get(reader.inputs.index(value))
            if result is None:
                break
            value = reader.outputs[result]
            reader = reader if value is after else next(reversed(read_by.get(value, [])), None)
        writer = made.get(after) if isinstance(after, Var) else None
        if value is after:
            keepers[p.state.name] = reader
        # One operator writes one tensor: where two states become the same value, both are variables.
        elif writer is not None and not keeps_state(writer) and s.graph.outputs.count(after) == 1:
            keepers |= {p.state.name: writer} if _is_done_before(s.graph, value, writer) else {}
    return keepers


def _is_done_before(graph: Graph, value: Var, writer: Eqn) -> bool:
    """Whether nothing reads a value once an equation writes in its place."""
    before = graph.eqns[: next(i for i, eqn in enumerate(graph.eqns) if eqn is writer)]
    early = sum(atom is value for eqn in before for atom in eqn.inputs)
    return early == use_counts(graph)[value]


def _is_reset(kept: State) -> bool:
    """Whether a state begins with what the runtime fills state tensors with."""
    return bool((kept.initial.array == reset_value(kept.initial.type)).all())


def _readers(signature: Signature) -> dict[Var, Eqn]:
    """For each state that is read once, and by an equation, that equation."""
    graph = signature.graph
    counts, read_by = use_counts(graph), users(graph)
    states = (graph.inputs[p.input] for p in places(signature))
    return {var: read_by[var][0] for var in states if counts[var] == 1 and var in read_by}


def _without_idle(signature: Signature) -> Signature:
    graph, are_used = without_idle_states(signature.graph, len(signature.states))
    states = tuple(s for s, is_kept in zip(signature.states, are_used, strict=True) if is_kept)
    return replace(signature, graph=graph, states=states)


def _as_vector(scalar: State) -> State:
    return State(scalar.name, Const(scalar.initial.array.reshape(1), scalar.initial.name))


def _with_vectors(signature: Signature, vectors: Mapping[str, State]) -> Signature:
    """The signature with its scalar states as vectors of one element.

    LiteRT takes what READ_VARIABLE gives for a tensor of unknown shape where its shape is [], and everything behind it.
    """
    scalars = [p for p in places(signature) if p.state.name in vectors]
    if not scalars:
        return signature
    graph = signature.graph
    inputs, outputs = list(graph.inputs), list(graph.outputs)
    before: list[Eqn] = []
    after: list[Eqn] = []
    for p in scalars:
        var = inputs[p.input] = Var(vectors[p.state.name].initial.type, p.state.name)
        before.append(_reshaped(var, graph.inputs[p.input], p.state))
        if outputs[p.output] is graph.inputs[p.input]:
            outputs[p.output] = var
        else:
            vector = Var(var.type)
            after.append(_reshaped(outputs[p.output], vector, p.state))
            outputs[p.output] = vector
    changed = replace(graph, inputs=tuple(inputs), eqns=(*before, *graph.eqns, *after), outputs=tuple(outputs))
    states = tuple(vectors.get(s.name, s) for s in signature.states)
    return replace(signature, graph=eliminate_dead_code(changed), states=states)


def _reshaped(atom: Atom, result: Var, state: State) -> Eqn:
    shape = Const(np.array(result.type.shape, np.int32))
    return Eqn(ops.reshape, (atom, shape), (result,), ops.reshape.bind_options({}), Source(state.name))


def _refuse_texts(program: Program) -> None:
    for each in program.states():
        if each.initial.type.dtype is DType.string:
            raise LowerError(
                f"the state {each.name!r} holds text, which no variable of TFLite can",
                remedy='convert with state="io", or keep numbers',
            )


def _kept(program: Program, keepers: Mapping[str, Eqn | None]) -> Iterator[KeptState]:
    """Describe for the report where each state is kept."""
    for each in program.states():
        keeper = keepers.get(each.name)
        place = f" at {keeper.source}" if keeper is not None and str(keeper.source) else ""
        where = "a state tensor" if each.name in keepers else "a variable"
        where = where if keeper is None else f"the state tensor of {keeper.op.name}{place}"
        yield KeptState(each.name, str(each.initial.type), where)
    exposed = {given.name: given for s in program.signatures for given in s.exposed}
    for given in exposed.values():
        yield KeptState(given.name, str(given.initial.type), "the caller's hands: an input and an output")


def _with_final_states(signature: Signature) -> Signature:
    """The signature where states that become the last step of a fused op's result become the op's own new state.

    Rules read the last step, as that costs less wherever the state is not kept.
    """
    graph = signature.graph
    outputs, readers, made = list(graph.outputs), _readers(signature), producers(graph)
    for p in places(signature):
        reader = readers.get(graph.inputs[p.input])
        if reader is not None:
            outputs[p.output] = _final_state(made, reader, graph.inputs[p.input], outputs[p.output])
    return replace(signature, graph=replace(graph, outputs=tuple(outputs)))


def _final_state(made: Mapping[Var, Eqn], reader: Eqn, before: Var, after: Atom) -> Atom:
    """The state that an equation leaves, where `after` repeats it; else `after`."""
    states = new_states(reader)
    for name, result in states.items():
        repeated = reader.op.repeats.get(name)
        if repeated is None or repeated[0] in states.values():
            continue
        if reader.inputs[reader.op.operand_index(name)] is not before:
            continue
        if _is_step(made, reader, repeated, after, reader.outputs[result]):
            return reader.outputs[result]
    return after


def _is_step(made: Mapping[Var, Eqn], reader: Eqn, repeated: tuple[int, int], atom: Atom, final: Var) -> bool:
    """Whether `atom` holds the elements of one step of a result, found out by sending their numbers the same way."""
    index, step = repeated
    result = reader.outputs[index]
    chain = _chain(made, result, atom)
    if chain is None or atom.type.shape != final.type.shape:
        return False
    names = sorted({n for d in result.type.shape for n in symbols_of(d)})
    for size in (2, 3) if names else (1,):
        shape = concrete(result.type.shape, {name: size + i for i, name in enumerate(names)})
        numbers = np.arange(np.prod(shape), dtype=np.int32).reshape(shape)
        expected = numbers if len(shape) == 2 else np.take(numbers, step, axis=0 if reader.params["time_major"] else 1)
        try:
            (numbers_after,) = evaluate(chain, [numbers])
        except JfuseError:
            return False
        if not np.array_equal(numbers_after, expected):
            return False
    return True


def _chain(made: Mapping[Var, Eqn], start: Var, end: Atom) -> Graph | None:
    """The graph from one Var to another, where it only takes and moves elements."""
    eqns: list[Eqn] = []
    atom: Atom | None = end
    while isinstance(atom, Var) and atom is not start:
        eqn = made.get(atom)
        if eqn is None or eqn.op.moves not in _REARRANGE or any(isinstance(a, Var) for a in eqn.inputs[1:]):
            return None
        eqns.append(eqn)
        atom = eqn.inputs[0]
    return Graph("chain", (start,), tuple(reversed(eqns)), (end,)) if atom is start else None
