"""The states of a signature: where its graph has them, their initial values, how inputs and outputs become one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Program, Signature, State, Var
from jfuse.ir.types import DType, TensorType


@dataclass(frozen=True)
class StatePlace:
    """One state of one graph: the input and the output that are its value before and after, by position."""

    state: State
    input: int
    output: int


def places(signature: Signature) -> Iterator[StatePlace]:
    """The states of a signature in its graph."""
    graph, count = signature.graph, len(signature.states)
    inputs, outputs = len(graph.inputs) - count, len(graph.outputs) - count
    for i, state in enumerate(signature.states):
        yield StatePlace(state, inputs + i, outputs + i)


def exposed_places(signature: Signature) -> Iterator[StatePlace]:
    """The states that are inputs and outputs of a signature instead: the last ones with names."""
    count = len(signature.exposed)
    inputs, outputs = len(signature.input_names) - count, len(signature.output_names) - count
    for i, state in enumerate(signature.exposed):
        yield StatePlace(state, inputs + i, outputs + i)


def distinct(program: Program) -> Sequence[Signature]:
    """The first signature of each graph."""
    by_graph: dict[int, Signature] = {}
    for signature in program.signatures:
        by_graph.setdefault(id(signature.graph), signature)
    return list(by_graph.values())


def with_signatures(program: Program, change: Callable[[Signature], Signature]) -> Program:
    """The program with each distinct graph, and the states of the signatures that have it, as `change` makes them.

    Names of inputs and outputs stay each signature's own.
    """
    changed = {id(s.graph): change(s) for s in distinct(program)}
    new = ((s, changed[id(s.graph)]) for s in program.signatures)
    return replace(
        program, signatures=tuple(replace(s, graph=n.graph, states=n.states, exposed=n.exposed) for s, n in new)
    )


def reset_value(tensor_type: TensorType) -> int:
    """The value that the runtime fills a state tensor with: 0, in i8 the zero point (LiteRT, Subgraph::Reset…)."""
    quantization = tensor_type.quantization
    scaled = quantization is not None and quantization.zero_point and tensor_type.dtype is DType.i8
    return quantization.zero_point[0] if quantization is not None and scaled else 0


def first_states(program: Program) -> dict[str, np.ndarray]:
    """Collect the initial values of the states that the program keeps, by name."""
    return {state.name: state.initial.array for state in program.states()}


def initial_values(
    states: Sequence[State], types: Mapping[str, TensorType], initial: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The initial values of exposed states, by name.

    types: of all inputs, by name. initial: arrays of the other inputs, which give open dimensions their sizes.
    """
    sizes = {
        str(dim): size
        for name, array in initial.items()
        for dim, size in zip(types[name].shape, array.shape, strict=False)
        if not is_known(dim)
    }
    return {s.name: np.array(np.broadcast_to(s.initial.array, _sized(types[s.name], sizes))) for s in states}


def _sized(tensor_type: TensorType, sizes: Mapping[str, int]) -> tuple[int, ...]:
    shape = tensor_type.substitute(sizes).shape
    if not all(is_known(d) for d in shape):
        raise JfuseError("the size of a state does not follow from the inputs", found=str(tensor_type))
    return tuple(int(d) for d in shape)


def cleared_with_sizes(program: Program) -> Mapping[int, tuple[str, ...]]:
    """The states that the runtime clears where an input has another size than in the call before, by the graph's id."""
    graphs = (s for s in distinct(program) if not all(var.type.is_static for var in s.graph.inputs))
    return {id(s.graph): tuple(state.name for state in s.states if state.home == "tensor") for s in graphs}


@dataclass(frozen=True)
class ExplicitState:
    """A state of the source's own: the input that takes it, the output that gives its new value.

    initial: what it is before the first call; None for zeros.
    """

    name: str
    input: str
    output: str
    initial: np.ndarray | None = None


def explicit_states(asked: Mapping[str, Sequence[Any]]) -> tuple[ExplicitState, ...]:
    """The states of `state={"h": ("h_in", "h_out")}`; a third entry is the initial value.

    Raises JfuseError for anything else, and where two states have one input or one output.
    """
    if not isinstance(asked, Mapping):
        raise _not_carried(repr(asked))
    states = []
    for name, parts in asked.items():
        names = list(parts[:2]) if isinstance(parts, list | tuple) and 2 <= len(parts) <= 3 else []
        if not names or not all(isinstance(part, str) for part in (name, *names)):
            raise _not_carried(f"{name!r}: {parts!r}")
        initial = np.asarray(parts[2]) if len(parts) == 3 else None
        states.append(ExplicitState(name, names[0], names[1], initial))
    for kind in ("input", "output"):
        names_given = [getattr(state, kind) for state in states]
        twice = sorted({name for name in names_given if names_given.count(name) > 1})
        if twice:
            raise JfuseError(f"state= gives the {kind} {twice[0]!r} to two states")
    return tuple(states)


def _not_carried(found: str) -> JfuseError:
    return JfuseError(
        "state= does not say what is carried",
        expected='"source", "reset", "keep", "io" or a mapping from names to an input and an output: '
        '{"h": ("h_in", "h_out")}',
        found=found[:200],
    )


def with_explicit_states(program: Program, asked: Sequence[ExplicitState]) -> Program:
    """The program whose signatures keep these states instead of taking and returning them.

    A signature that has the input alone reads the state, one that has the output alone writes it. Raises JfuseError
    where no signature has one of the names, or where the types of a state differ, or are open.
    """
    for state in asked:
        for kind, name, known in (
            ("input", state.input, [n for s in program.signatures for n in s.input_names]),
            ("output", state.output, [n for s in program.signatures for n in s.output_names]),
        ):
            if name not in known:
                raise JfuseError(
                    f"the state {state.name!r} has no {kind} {name!r}", expected=f"one of {list(dict.fromkeys(known))}"
                )
    new_states = {state.name: State(state.name, _initial(state, program)) for state in asked}
    left = _left_names(program.signatures, asked)
    taken = [name for name in new_states if name in left or name in {s.name for s in program.states()}]
    if taken:
        raise JfuseError(f"the name of the state {taken[0]!r} is that of another state, of an input or an output")

    done: dict[tuple[Any, ...], Signature] = {}  # signatures that share a graph go on sharing it
    signatures = []
    for s in program.signatures:
        same = (id(s.graph), s.input_names, s.output_names)
        done.setdefault(same, _with_states(s, asked, new_states))
        signatures.append(replace(done[same], key=s.key))
    return replace(program, signatures=tuple(signatures))


def _left_names(signatures: Sequence[Signature], asked: Sequence[ExplicitState]) -> set[str]:
    inputs = {name for s in signatures for name in s.input_names} - {state.input for state in asked}
    return inputs | {name for s in signatures for name in s.output_names} - {state.output for state in asked}


def _types(state: ExplicitState, program: Program) -> Iterator[tuple[str, TensorType]]:
    """The types of a state's input and output in every signature, with what to call them."""
    for s in program.signatures:
        for kind, name, names, atoms in (
            ("input", state.input, s.input_names, s.graph.inputs),
            ("output", state.output, s.output_names, s.graph.outputs),
        ):
            if name in names:
                yield f"the {kind} {name!r} of {s.key!r}", atoms[names.index(name)].type


def _initial(state: ExplicitState, program: Program) -> Const:
    (first, type_), *others = _types(state, program)
    if not type_.is_static:
        raise JfuseError(
            f"the state {state.name!r} cannot be kept, as its size is known only when a call is made",
            where=first,
            expected="fixed sizes",
            found=str(type_),
            remedy="fix them in specs=, or leave the state an input and an output",
        )
    for place, other in others:
        if other != type_:
            raise JfuseError(
                f"the state {state.name!r} is of two types",
                expected=f"{type_}, as {first} has it",
                found=f"{other}, as {place} has it",
            )
    if state.initial is None:
        return Const(np.zeros(tuple(map(int, type_.shape)), type_.dtype.numpy))
    if state.initial.shape != type_.shape:
        shape = f"shape {state.initial.shape}"
        raise JfuseError(f"the initial value of {state.name!r} has another shape", expected=str(type_), found=shape)
    return Const(np.asarray(state.initial, type_.dtype.numpy))


def _with_states(signature: Signature, asked: Sequence[ExplicitState], new_states: Mapping[str, State]) -> Signature:
    own = [s for s in asked if s.input in signature.input_names or s.output in signature.output_names]
    graph = signature.graph
    inputs = dict(zip(signature.input_names, graph.inputs, strict=False))
    outputs = dict(zip(signature.output_names, graph.outputs, strict=False))
    before: list[Var] = [inputs.get(s.input) or Var(new_states[s.name].initial.type, s.name) for s in own]
    after: list[Atom] = [outputs.get(s.output, var) for s, var in zip(own, before, strict=True)]
    left_in = {n: v for n, v in inputs.items() if n not in {s.input for s in own}}
    left_out = {n: a for n, a in outputs.items() if n not in {s.output for s in own}}
    held_in, held_out = graph.inputs[len(inputs) :], graph.outputs[len(outputs) :]
    changed = replace(
        graph, inputs=(*left_in.values(), *held_in, *before), outputs=(*left_out.values(), *held_out, *after)
    )
    states = (*signature.states, *(new_states[s.name] for s in own))
    return replace(signature, graph=changed, input_names=tuple(left_in), output_names=tuple(left_out), states=states)
