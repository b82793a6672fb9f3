"""The states of a signature: their positions among the graph's inputs and outputs, and their initial values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jfuse.errors import JfuseError
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Program, Signature, State
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
    for i, kept in enumerate(signature.states):
        yield StatePlace(kept, inputs + i, outputs + i)


def distinct(program: Program) -> Sequence[Signature]:
    """The first signature of each graph."""
    found: dict[int, Signature] = {}
    for signature in program.signatures:
        found.setdefault(id(signature.graph), signature)
    return list(found.values())


def with_signatures(program: Program, change: Callable[[Signature], Signature]) -> Program:
    """The program with each distinct graph, and the states of the signatures that have it, as `change` makes them.

    Names of inputs and outputs stay each signature's own.
    """
    changed = {id(s.graph): change(s) for s in distinct(program)}
    new = ((s, changed[id(s.graph)]) for s in program.signatures)
    return replace(program, signatures=tuple(replace(s, graph=n.graph, states=n.states) for s, n in new))


def reset_value(tensor_type: TensorType) -> int:
    """The value that the runtime fills a state tensor with: 0, in i8 the zero point (LiteRT, Subgraph::Reset…)."""
    quantization = tensor_type.quantization
    scaled = quantization is not None and quantization.zero_point and tensor_type.dtype is DType.i8
    return quantization.zero_point[0] if quantization is not None and scaled else 0


def first_states(program: Program) -> dict[str, np.ndarray]:
    """What the states that the program keeps are before the first call, by name."""
    return {state.name: state.initial.array for state in program.states()}


def initial_values(
    states: Sequence[State], types: Mapping[str, TensorType], given: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The initial values of exposed states, by name.

    types: of all inputs, by name. given: the other inputs, whose sizes are those of open dimensions.
    """
    sizes = {
        str(dim): size
        for name, array in given.items()
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
