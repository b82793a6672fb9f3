"""Concrete functions, live or reloaded: captures, names, and the graph of one signature."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

import jfuse.frontends.tensorflow.arrays
import jfuse.frontends.tensorflow.control
import jfuse.frontends.tensorflow.lists
import jfuse.frontends.tensorflow.tables
import jfuse.frontends.tensorflow.updates  # noqa: F401  (all register their node handlers)
from jfuse.errors import ImportFailed, LowerError
from jfuse.frontends.tensorflow.functional import functional_library, functional_nodes
from jfuse.frontends.tensorflow.graph import Walker
from jfuse.frontends.tensorflow.input_shapes import InputShapes
from jfuse.frontends.tensorflow.ranks import possible_ranks
from jfuse.frontends.tensorflow.survey import with_missing_ops
from jfuse.frontends.tensorflow.variables import Resource, Variables, WriteAnalysis, borrow_array
from jfuse.ir.dims import SymbolNames, symbols_in
from jfuse.ir.graph import Const, Signature, State, Var
from jfuse.ir.trace import recording
from jfuse.ir.types import TensorType
from jfuse.ir.walk import without_idle_states
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rules import LowerRule
from jfuse.tf_nodes.attributes import Library, decode_dtype, decode_shape

_LOGGER = logging.getLogger("jfuse")


@dataclass(frozen=True)
class TfSignature:
    """One concrete function with the names that its inputs and outputs go by, flat and in TensorFlow's order."""

    key: str
    function: Any
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]


@dataclass(frozen=True)
class ImportedSignatures:
    """Signatures as graphs, the dimensions taken for equal, notes for the report, and the variable of each state."""

    signatures: tuple[Signature, ...]
    assumptions: tuple[str, ...]
    notes: tuple[str, ...]
    variables: Mapping[str, Any]


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
    analyses = [_analyse(s) for s in signatures]
    resources = _resources(signatures, analyses)
    live: frozenset[Resource] = frozenset()
    while True:
        # What a write needs may be further variables: walk again until no new ones are read.
        assumptions, notes, read = dict[str, None](), dict[str, None](), set[Resource]()
        found = []
        for signature, analysis in zip(signatures, analyses, strict=True):
            held = Variables(live, read)
            walker = Walker(analysis.library, rules, analysis.writes, held, notes, custom_ops=custom_ops)
            imported, equal = _import_one(signature, analysis, walker, resources, shapes)
            assumptions.update(dict.fromkeys(equal))
            found.append(imported)
        if read <= live:
            named, variables = _named(found)
            notes |= dict.fromkeys(_without_numbers(resources.values()))
            return ImportedSignatures(tuple(named), tuple(assumptions), tuple(notes), variables)
        live |= read


@dataclass(frozen=True)
class _Analysis:
    nodes: Sequence[Any]
    results: Sequence[str]  # references to what the function returns
    library: Library
    writes: WriteAnalysis
    captures: Mapping[str, Any]  # placeholder name -> variable or tensor
    written: frozenset[int]  # ids of the captures' handles that are written


def _analyse(signature: TfSignature) -> _Analysis:
    function = signature.function
    _refuse_composites(signature)
    graph_def = function.graph.as_graph_def(add_shapes=True)
    library = functional_library(graph_def)
    nodes, results = functional_nodes(graph_def.node, [t.name for t in function.outputs], library)
    writes = WriteAnalysis(library)
    count = len(function.inputs) - len(function.captured_inputs)
    captures = {p.op.name: t for t, p in zip(function.captured_inputs, function.inputs[count:], strict=True)}
    names = writes.written_placeholders(nodes)
    written = frozenset(id(captures[n]) for n in names if n in captures)
    return _Analysis(nodes, results, library, writes, captures, written)


def _refuse_composites(signature: TfSignature) -> None:
    """Raise where an argument or a result is of several tensors, which have no name each."""
    import tensorflow as tf

    several = (tf.RaggedTensor, tf.SparseTensor, tf.IndexedSlices)
    specs = (tf.RaggedTensorSpec, tf.SparseTensorSpec, tf.IndexedSlicesSpec)
    nests = {
        "an argument": signature.function.structured_input_signature,
        "a result": signature.function.structured_outputs,
    }
    for what, nest in nests.items():
        found = [item for item in tf.nest.flatten(nest) if isinstance(item, (*several, *specs))]
        if found:
            raise ImportFailed(
                f"{what} of signature {signature.key!r} is no plain tensor",
                found=type(found[0]).__name__,
                remedy="take and return the tensors that it is made of (values, row_splits, indices, …)",
            )


def _resources(signatures: Sequence[TfSignature], analyses: Sequence[_Analysis]) -> dict[int, Any]:
    """What the captures of all signatures are, by the id of the captured tensor: variables, tables and arrays."""
    written = {name for a in analyses for name in a.written}
    found: dict[int, Any] = {}
    for signature, analysis in zip(signatures, analyses, strict=True):
        variables = {id(v.handle): v for v in live_variables(signature.function)}
        for tensor in analysis.captures.values():
            if id(tensor) not in found:
                found[id(tensor)] = _captured(tensor, variables.get(id(tensor)), id(tensor) in written)
    return found


def _without_numbers(resources: Iterable[Any]) -> Iterator[str]:
    """A note on each variable that holds NaNs, logged as well: NaN agrees with NaN, so that no comparison tells."""
    for resource in resources:
        array = resource.array if isinstance(resource, Resource) else None
        if array is None or array.dtype.kind not in "fcV":
            continue
        if count := int(np.isnan(array).sum()):
            name = resource.name.removesuffix(":0")
            note = f"the variable {name!r} holds {count} NaN among {array.size} numbers: what follows from it is NaN"
            _LOGGER.warning(note)
            yield note


def _import_one(
    signature: TfSignature, analysis: _Analysis, walker: Walker, resources: Mapping[int, Any], shapes: InputShapes
) -> tuple[tuple[Signature, tuple[Resource, ...]], list[str]]:
    """The signature with the variables that are its states, and the sizes of inputs that are taken for equal."""
    function = signature.function
    count = len(function.inputs) - len(function.captured_inputs)
    symbols = SymbolNames()
    named = zip(function.inputs[:count], signature.input_names, strict=True)
    inputs = [_input(function, tensor, name, symbols, shapes) for tensor, name in named]
    given: dict[str, Any] = {t.op.name: v for t, v in zip(function.inputs[:count], inputs, strict=True)}
    given |= {name: resources[id(tensor)] for name, tensor in analysis.captures.items()}
    held = {r: Var(type_of(r.array), r.name) for r in given.values() if isinstance(r, Resource) and r.is_state}
    walker.variables.current = dict(held)
    with recording(names=symbols) as trace:
        try:
            results = walker.walk_nodes(analysis.nodes, analysis.results, given)
        except LowerError as error:
            raise with_missing_ops(error, analysis.nodes, analysis.results, analysis.library, walker.rules) from error
        after = walker.variables.current
        graph = trace.finish(signature.key, [*inputs, *held.values()], [*results, *(after[r] for r in held)])
        # Sizes inside the graph are resolved, not assumed; what is assumed is about what the user feeds.
        ours = symbols_in(tuple(v.type.shape for v in inputs))
        equal = [f"{name} = {size}" for name, size in trace.sizes.items() if name in ours]
    graph, kept = without_idle_states(graph, len(held))
    states = tuple(resource for resource, is_kept in zip(held, kept, strict=True) if is_kept)
    return (Signature(signature.key, graph, signature.input_names, signature.output_names), states), equal


def _named(found: Sequence[tuple[Signature, Sequence[Resource]]]) -> tuple[list[Signature], dict[str, Any]]:
    """The signatures with their states, each variable one state under a name of its own; the variables by that name."""
    resources = list(dict.fromkeys(r for _, held in found for r in held))
    names = dict(zip(resources, unique_names([r.name.removesuffix(":0") for r in resources]), strict=True))
    # A copy: TensorFlow may go on writing into the variable's memory.
    states = {r: State(name, Const(np.array(r.array))) for r, name in names.items()}
    named = [replace(s, states=tuple(states[r] for r in held)) for s, held in found]
    return named, {name: r.variable for r, name in names.items()}


def live_variables(function: Any) -> tuple[Any, ...]:
    """The variables of a concrete function, which holds them weakly; raises ImportFailed where they are gone."""
    try:
        return tuple(function.variables)
    except AssertionError as error:
        raise ImportFailed(
            "the variables of the function have been deleted",
            expected="the model or module that owns them, for as long as its function is used",
            remedy="keep it in a variable until the conversion is done",
        ) from error


def _input(function: Any, tensor: Any, name: str, symbols: SymbolNames, shapes: InputShapes) -> Var:
    shape = shapes.of(name, decode_shape(tensor.shape.as_proto()))
    if shape is None:
        ranks = possible_ranks(function, tensor)
        if len(ranks) != 1:
            raise ImportFailed(
                f"the input {name!r} has no known rank",
                found=f"TensorFlow takes it with {' or '.join(map(str, ranks)) or 'no'} dimensions",
                remedy=f'shapes={{"{name}": (…)}} states its shape',
            )
        shape = (None,) * ranks[0]
    dims = tuple(symbols.fresh("N" if axis else "B") if d is None else d for axis, d in enumerate(shape))
    return Var(TensorType(dims, decode_dtype(tensor.dtype.as_datatype_enum)), name)


def _captured(tensor: Any, variable: Any, written: bool) -> Any:
    if variable is not None:
        return Resource(variable.name, borrow_array(variable), written, variable)
    if tensor.dtype.name in ("resource", "variant"):
        is_graph_tensor = hasattr(tensor, "graph")
        name = str(tensor.name) if is_graph_tensor else "a table"
        return Resource(name, None, written, handle=None if is_graph_tensor else tensor)
    array = np.asarray(tensor.numpy())
    return array.astype(object) if array.dtype.kind in "SUO" else array


def flat_names(structure: Any, stem: str) -> tuple[str, ...]:
    """Names for the tensors of a nest as TensorFlow's SavedModels give them: dict keys, else stem_0, stem_1, …"""
    if isinstance(structure, Mapping):
        names = [n for key in sorted(structure) for n in _leaf_names(structure[key], str(key))]
    elif isinstance(structure, list | tuple):
        names = [n for i, item in enumerate(structure) for n in _leaf_names(item, f"{stem}_{i}")]
    else:
        names = [] if structure is None else [f"{stem}_0"]
    return unique_names(names)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names with a number behind those that came before, as TensorFlow saves them: v, v_1, v_2."""
    taken: dict[str, None] = {}
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        taken[next(c for c in candidates if c not in taken)] = None
    return tuple(taken)


def _leaf_names(structure: Any, name: str) -> tuple[str, ...]:
    if isinstance(structure, Mapping):
        return tuple(n for key in sorted(structure) for n in _leaf_names(structure[key], f"{name}_{key}"))
    if isinstance(structure, list | tuple):
        return tuple(n for i, item in enumerate(structure) for n in _leaf_names(item, f"{name}_{i}"))
    return () if structure is None else (name,)
