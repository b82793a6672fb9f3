"""Signatures as graphs: walks the functions of all, with their captures."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import jfuse.frontends.tensorflow.arrays
import jfuse.frontends.tensorflow.control
import jfuse.frontends.tensorflow.leaves
import jfuse.frontends.tensorflow.lists
import jfuse.frontends.tensorflow.tables
import jfuse.frontends.tensorflow.updates
import jfuse.frontends.tensorflow.xla_calls  # noqa: F401  (all register their node handlers)
from jfuse.base.errors import ImportFailed, LowerError
from jfuse.frontends.nan_weights import NanWeights
from jfuse.frontends.tensorflow.graph import Walker
from jfuse.frontends.tensorflow.input_ranks import InputRanks, least_rank
from jfuse.frontends.tensorflow.input_shapes import InputShapes
from jfuse.frontends.tensorflow.signature import FunctionGraph, FunctionInput, TfSignature, unique_names
from jfuse.frontends.tensorflow.survey import with_missing_ops
from jfuse.frontends.tensorflow.variables import Resource, Variables, WriteAnalysis
from jfuse.ir.dims import SymbolNames, symbols_in
from jfuse.ir.graph import Const, Signature, State, Var
from jfuse.ir.trace import recording
from jfuse.ir.types import TensorType
from jfuse.ir.walk import without_idle_states
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rules import LowerRule


@dataclass(frozen=True)
class ImportedSignatures:
    """Signatures as graphs, dimensions taken for equal, notes for the report, and the variable of each state."""

    signatures: tuple[Signature, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    variables: Mapping[str, Resource]


def import_signatures(
    signatures: Sequence[TfSignature],
    rules: Mapping[str, LowerRule],
    custom_ops: Container[str] = (),
    shapes: InputShapes | None = None,
) -> ImportedSignatures:
    """The signatures as graphs.   custom_ops: the ops that stay opaque although there are rules for them

    shapes: of inputs, where the user fixes them.
    A variable that any of the signatures writes, and that any result needs, is a state of all that use it.
    """
    shapes = shapes or InputShapes()
    shapes.check_names(name for s in signatures for name in s.input_names)
    graphs = [s.graph() for s in signatures]
    resources = _resources(signatures, graphs)
    analyses = [WriteAnalysis(g.library) for g in graphs]
    live: frozenset[Resource] = frozenset()
    nans = NanWeights()
    _look_at_variables(resources.values(), nans)
    while True:
        # What a write needs may be further variables: walk again until no new ones are read.
        assumptions, notes, read = dict[str, None](), dict[str, None](), set[Resource]()
        found = []
        for signature, graph, writes in zip(signatures, graphs, analyses, strict=True):
            variables = Variables(live, read)
            walker = Walker(graph.library, rules, writes, variables, notes, nans, custom_ops=custom_ops)
            imported, equal = _import_one(signature, graph, walker, resources, shapes)
            assumptions.update(dict.fromkeys(equal))
            found.append(imported)
        if read <= live:
            named, states = _named(found)
            return ImportedSignatures(tuple(named), tuple(assumptions), (*notes, *nans.notes()), states)
        live |= read


def _resources(signatures: Sequence[TfSignature], graphs: Sequence[FunctionGraph]) -> dict[Hashable, Any]:
    """Collect captured variables, tables and arrays of all signatures."""
    written = {graph.captures[name] for graph in graphs for name in graph.written}
    objects: dict[Hashable, Any] = {}
    for signature, graph in zip(signatures, graphs, strict=True):
        for capture in graph.captures.values():
            if capture not in objects:
                objects[capture] = signature.source.captured(capture, capture in written)
    return objects


def _look_at_variables(resources: Iterable[Any], nans: NanWeights) -> None:
    for resource in resources:
        if isinstance(resource, Resource) and resource.array is not None:
            nans.look_at(f"the variable {resource.name.removesuffix(':0')!r}", resource.array)


def _import_one(
    signature: TfSignature,
    function: FunctionGraph,
    walker: Walker,
    resources: Mapping[Hashable, Any],
    shapes: InputShapes,
) -> tuple[tuple[Signature, tuple[Resource, ...]], list[str]]:
    """The signature with its state variables, and assumptions on the ranks and sizes of inputs."""
    symbols = SymbolNames()
    named = zip(function.inputs, signature.input_names, strict=True)
    assumed: list[str] = []
    inputs = [_input(argument, name, symbols, shapes, function, assumed) for argument, name in named]
    values_by_name: dict[str, Any] = {a.name: v for a, v in zip(function.inputs, inputs, strict=True)}
    values_by_name |= {name: resources[capture] for name, capture in function.captures.items()}
    held = {r: Var(type_of(r.array), r.name) for r in values_by_name.values() if isinstance(r, Resource) and r.is_state}
    walker.variables.current = dict(held)
    with recording(names=symbols) as trace:
        try:
            results = walker.walk_nodes(function.nodes, function.results, values_by_name)
        except LowerError as error:
            raise with_missing_ops(error, function.nodes, function.results, function.library, walker.rules) from error
        after = walker.variables.current
        graph = trace.finish(signature.key, [*inputs, *held.values()], [*results, *(after[r] for r in held)])
        # Sizes inside the graph are resolved, not assumed; what is assumed is about what the user feeds.
        ours = symbols_in(tuple(v.type.shape for v in inputs))
        equal = [*assumed, *(f"{name} = {size}" for name, size in trace.sizes.items() if name in ours)]
    graph, idle_free = without_idle_states(graph, len(held))
    states = tuple(resource for resource, is_kept in zip(held, idle_free, strict=True) if is_kept)
    return (Signature(signature.key, graph, signature.input_names, signature.output_names), states), equal


def _named(found: Sequence[tuple[Signature, Sequence[Resource]]]) -> tuple[list[Signature], dict[str, Resource]]:
    """The signatures with their states, each variable one state under a name of its own; the variables by that name."""
    resources = list(dict.fromkeys(r for _, held in found for r in held))
    names = dict(zip(resources, unique_names([r.name.removesuffix(":0") for r in resources]), strict=True))
    # A copy: TensorFlow may go on writing into the variable's memory, others into the file.
    states = {r: State(name, Const(np.array(r.array))) for r, name in names.items()}
    named = [replace(s, states=tuple(states[r] for r in held)) for s, held in found]
    return named, {name: r for r, name in names.items()}


def _input(
    argument: FunctionInput,
    name: str,
    symbols: SymbolNames,
    shapes: InputShapes,
    function: FunctionGraph,
    assumed: list[str],
) -> Var:
    """An input.   assumed: collects a note if neither the source nor the readers define its rank"""
    shape = shapes.of(name, argument.shape)
    if shape is None:
        ranks = sorted(InputRanks(function.library).of(function.nodes, argument.name))
        if not ranks:
            ranks = [least_rank(function.library, function.nodes, argument.name)]
            assumed.append(
                f"the input {name!r}, of unknown rank, has {ranks[0]}; "
                f'jfuse.Inputs(shapes={{"{name}": (…)}}) states another'
            )
        if len(ranks) != 1:
            raise ImportFailed(
                f"the input {name!r} has no known rank",
                expected="a rank, or operators that take one rank alone",
                found=f"operators that take ranks {', '.join(map(str, ranks))}",
                remedy=f'inputs=jfuse.Inputs(shapes={{"{name}": (…)}}) states its shape',
            )
        shape = shapes.of(name, (None,) * ranks[0])
        assert shape is not None
    dims = tuple(symbols.fresh("N" if axis else "B") if d is None else d for axis, d in enumerate(shape))
    return Var(TensorType(dims, argument.dtype), name)
