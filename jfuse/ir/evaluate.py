"""Running a graph: on arrays it computes, under jax it traces, on Vars it records itself again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jfuse.errors import JfuseError
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.trace import at_source, is_tracing
from jfuse.ir.walk import all_graphs

_HOISTED = 64  # float constants with more elements than this become arguments of a jitted program


def evaluate(graph: Graph, args: Sequence[Any], observe: Callable[[Eqn, tuple[Any, ...]], None] | None = None) -> tuple[Any, ...]:
    """The results of `graph` for `args`: NumPy or jax arrays, tracers, or Vars of the active trace.

    observe: called after each equation of this graph (not of bodies) with its results.
    """
    if len(args) != len(graph.inputs):
        raise JfuseError(f"graph {graph.name} takes {len(graph.inputs)} inputs", found=len(args))
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))

    def read(atom: Atom | None) -> Any:
        return env[atom] if isinstance(atom, Var) else None if atom is None else _CONSTANTS.get(id(atom.array), atom.array)

    recording = any(isinstance(a, Var) for a in args) and is_tracing()
    for eqn in graph.eqns:
        inputs = [read(a) for a in eqn.inputs]
        if recording:
            with at_source(eqn.source):
                results = eqn.op.run(inputs, eqn.params, eqn.bodies)
        else:
            results = _run(eqn, inputs)
        env.update(zip(eqn.outputs, results, strict=True))
        if observe is not None:
            observe(eqn, results)
    return tuple(read(a) for a in graph.outputs)


def _run(eqn: Eqn, inputs: Sequence[Any]) -> tuple[Any, ...]:
    try:
        return eqn.op.run(inputs, eqn.params, eqn.bodies)
    except JfuseError as error:
        error.where = error.where or str(eqn.source) or None
        raise


# Constants that stand for others while a jitted program is traced: the arguments that carry the weights.
_CONSTANTS: dict[int, Any] = {}


def large_constants(graph: Graph) -> list[np.ndarray]:
    """The float arrays that a jitted program should get as arguments, each once."""
    found: dict[int, np.ndarray] = {}
    for inner in all_graphs(graph):
        for eqn in inner.eqns:
            for atom in eqn.inputs:
                if isinstance(atom, Const) and atom.type.dtype.is_float and atom.array.size > _HOISTED:
                    found[id(atom.array)] = atom.array
    return list(found.values())


def with_constants(graph: Graph, arrays: Sequence[np.ndarray]) -> Callable[[Sequence[Any], Sequence[Any]], tuple[Any, ...]]:
    """A function of (values for `arrays`, args) that evaluates the graph: for jit, with the weights as arguments."""

    def call(values: Sequence[Any], args: Sequence[Any]) -> tuple[Any, ...]:
        previous = dict(_CONSTANTS)
        _CONSTANTS.update({id(a): v for a, v in zip(arrays, values, strict=True)})
        try:
            return evaluate(graph, args)
        finally:
            _CONSTANTS.clear()
            _CONSTANTS.update(previous)

    return call
