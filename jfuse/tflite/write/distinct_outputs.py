"""Copies results that are inputs, constants or repeated, so that each output of the file is a tensor of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.walk import with_bodies
from jfuse.kernels import ops


def prepare_outputs(graph: Graph, *, states: int = 0) -> Graph:
    """Promise that no result is an input, a constant or the same tensor as another result; bodies nearly so.

    A body may give an input back at its own place, as a loop should not copy what it only hands on; at another place
    WHILE overwrites it too early. And it may give constants: a copy of one is computed while the runtime prepares, and
    freed twice when it is the result of an IF (LiteRT 2.3.0, both measured).
    states: so many results come last that are no outputs of the file; these are left as they are.
    """
    return _prepare(graph, False, {}, states)


def unprepared(graph: Graph, *, is_body: bool = False, states: int = 0) -> list[int]:
    """The positions of the results that `prepare_outputs` would copy."""
    own = set(graph.inputs)
    seen: set[Var] = set()
    positions = []
    for i, atom in enumerate(graph.outputs[: len(graph.outputs) - states]):
        handed_on = is_body and i < len(graph.inputs) and atom is graph.inputs[i]
        if isinstance(atom, Const):
            positions += [] if is_body else [i]
        elif atom in seen or (atom in own and not handed_on):
            positions.append(i)
        else:
            seen.add(atom)
    return positions


def _prepare(graph: Graph, is_body: bool, done: dict[int, Graph], states: int = 0) -> Graph:
    def body(inner: Graph) -> Graph:
        if id(inner) not in done:  # equations that share a body go on sharing it
            done[id(inner)] = _prepare(inner, True, done)
        return done[id(inner)]

    graph = with_bodies(graph, body)
    outputs = list(graph.outputs)
    copies = []
    for i in unprepared(graph, is_body=is_body, states=states):
        copies.append(_copy(outputs[i], f"{graph.name}/output_{i}"))
        outputs[i] = copies[-1].outputs[0]
    return replace(graph, eqns=(*graph.eqns, *copies), outputs=tuple(outputs)) if copies else graph


def _copy(atom: Atom, name: str) -> Eqn:
    """One operator that gives its operand unchanged: RESHAPE, or STRIDED_SLICE where the shape would need two -1."""
    rank = atom.type.rank
    shape = [int(d) if is_known(d) else -1 for d in atom.type.shape]
    if shape.count(-1) + (0 in shape) <= 1:  # a -1 cannot be computed beside a 0 either
        operands: tuple[Atom, ...] = (atom, Const(np.array(shape, np.int32)))
        return Eqn(ops.reshape, operands, (Var(atom.type),), ops.reshape.bind_options({}), Source(name))
    zeros, ones = (Const(np.full(rank, n, np.int32)) for n in (0, 1))
    everything = (1 << rank) - 1
    params = ops.strided_slice.bind_options({"begin_mask": everything, "end_mask": everything})
    return Eqn(ops.strided_slice, (atom, zeros, zeros, ones), (Var(atom.type),), params, Source(name))
