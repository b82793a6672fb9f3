"""Choose the frontend for a source."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.base.files import need_regular
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.frontends.graph_def import SUFFIX, graph_def_signature, is_graph_def, read_graph_def
from jfuse.frontends.keras import is_keras_model, keras_signature, load_keras_file
from jfuse.frontends.keras_h5 import H5_SUFFIXES
from jfuse.frontends.outside_effects import check_effects
from jfuse.frontends.saved_model import saved_model_signatures
from jfuse.frontends.selection import Inputs
from jfuse.frontends.tensorflow.callable import (
    callable_signatures,
    functions_of,
    has_functions,
    is_concrete,
    is_traceable,
)
from jfuse.frontends.tensorflow.function import import_signatures
from jfuse.frontends.tensorflow.signature import TfSignature
from jfuse.frontends.tensorflow.variables import Resource
from jfuse.ir.contents import Contents, large_constants
from jfuse.ir.graph import FileFacts, Graph, Program, Signature
from jfuse.ir.states import ExplicitState
from jfuse.ir.text import format_graph
from jfuse.lowering.rules import LowerRule
from jfuse.tf_nodes.presence import need_tensorflow


@dataclass(frozen=True)
class Imported:
    """A program with where it came from: the TensorFlow functions behind its signatures, and notes for the report.

    states: the source's object for each state of the program, by the state's name.
    variable_names: of all variables that the functions use.
    limits: of each call of the functions.
    explicit_states: inputs and outputs of the functions that a model of theirs has as states.
    """

    program: Program
    functions: Mapping[str, TfSignature]
    notes: tuple[str, ...] = ()
    states: Mapping[str, Resource] = field(default_factory=dict)
    variable_names: tuple[str, ...] = ()
    keep_alive: Any = None  # concrete functions hold their variables weakly
    limits: Limits = DEFAULT_LIMITS
    explicit_states: tuple[ExplicitState, ...] = ()

    @cached_property
    def variables(self) -> dict[str, Any]:
        """TensorFlow's variable behind each state of the program, by the state's name; a file is loaded for this."""
        return {name: state.variable() for name, state in self.states.items() if state.variable is not None}


_SourceParts = tuple[list[TfSignature], Any, tuple[str, ...]]
"""The selected signatures, the object that must stay alive with them, and notes for the report."""


def import_tensorflow(
    source: Any,
    rules: Mapping[str, LowerRule],
    selection: Inputs,
    *,
    custom_ops: Container[str] = (),
    limits: Limits = DEFAULT_LIMITS,
) -> Imported:
    """Import a SavedModel folder, a file of Keras, a Keras model, a tf.Module, tf.functions or a GraphDef.

    selection: the part of the source to import.
    custom_ops: TensorFlow ops that are to stay opaque.
    limits: for a `.keras` file, and for each call of the source.
    """
    names_tensors = selection.input_tensors is not None or selection.output_tensors is not None
    if names_tensors and isinstance(source, str | Path) and Path(source).suffix != SUFFIX:
        raise ImportFailed("input_tensors= and output_tensors= name tensors of a GraphDef", found=str(source))
    source = _opened(source, selection.unsafe, limits)
    if is_graph_def(source):
        signatures, keep_alive, notes = _of_graph_def(source, selection)
    elif names_tensors:
        raise ImportFailed(
            "input_tensors= and output_tensors= name tensors of a GraphDef", found=f"a {type(source).__name__}"
        )
    else:
        signatures, keep_alive, notes = _signatures(source, selection)
    if not signatures:
        raise ImportFailed("no function or signature is given", remedy="name one at least")
    imported = import_signatures(signatures, rules, custom_ops, selection.input_shapes)
    mapped = tuple({id(file): file for s in signatures for file in s.source.mapped}.values())
    program = Program(tuple(_shared(imported.signatures)), imported.assumptions, FileFacts(mapped=mapped))
    names = tuple(dict.fromkeys(name.removesuffix(":0") for s in signatures for name in s.source.variable_names))
    functions = {s.key: s for s in signatures}
    notes = (*notes, *imported.notes)
    return Imported(program, functions, notes, imported.variables, names, keep_alive, limits)


def _opened(source: Any, unsafe: bool, limits: Limits) -> Any:
    """Open a path: keep a SavedModel folder as a path, read a file."""
    if not isinstance(source, str | Path):
        return source
    path = Path(source)
    if not path.exists():
        raise ImportFailed(f"{path} does not exist")
    if path.is_dir():
        return path
    need_regular(path)
    need_tensorflow(f"{path} cannot be read without TensorFlow")
    if path.suffix == SUFFIX:
        graph_def = read_graph_def(path)
        if not unsafe:
            check_effects(graph_def.node, {f.signature.name: f for f in graph_def.library.function}, str(path))
        return graph_def
    if path.suffix not in (".keras", *H5_SUFFIXES):
        raise ImportFailed(
            f"{path} is of no known kind",
            expected="a SavedModel folder, a .keras, .h5 or .tflite file, or a .pb file with a GraphDef",
        )
    return load_keras_file(path, unsafe=unsafe, limits=limits)


def _of_graph_def(graph_def: Any, selection: Inputs) -> _SourceParts:
    return [graph_def_signature(graph_def, selection)], graph_def, ()


def _signatures(source: Any, selection: Inputs) -> _SourceParts:
    keys, input_signature = selection.signatures, selection.input_signature
    if isinstance(source, Path):
        return saved_model_signatures(source, keys, unsafe=selection.unsafe)
    if is_keras_model(source):
        signatures = [keras_signature(source, input_signature)]
    elif is_concrete(source) or is_traceable(source) or isinstance(source, Mapping | list | tuple):
        signatures = callable_signatures(source, input_signature)
    elif has_functions(source):
        signatures = callable_signatures(functions_of(source, input_signature), input_signature)
    else:
        raise ImportFailed(
            f"jfuse does not know what to do with a {type(source).__name__}",
            expected="a path, the bytes of a .tflite file, a Keras model, a tf.Module, tf.functions or a GraphDef",
            remedy="inputs=[jax.ShapeDtypeStruct(…), …], for a function of jax arrays" if callable(source) else None,
        )
    missing = [key for key in keys or () if key not in {s.key for s in signatures}]
    if missing:
        raise ImportFailed(
            f"the source has no signature {missing[0]!r}", expected=f"one of {[s.key for s in signatures]}"
        )
    return [s for s in signatures if keys is None or s.key in keys], source, ()


def _shared(signatures: Sequence[Signature]) -> list[Signature]:
    """Signatures with an equal target share one graph (`serve` and `serving_default` of `model.export`)."""
    if len(signatures) < 2:
        return list(signatures)
    graphs: dict[tuple[str, ...], Graph] = {}
    result, contents = [], Contents()
    for s in signatures:
        text = format_graph(s.graph, hoisted=large_constants(s.graph, contents)).split("(", 1)[1]  # without its name
        graph = graphs.setdefault((text, *(state.name for state in s.states)), s.graph)
        result.append(replace(s, graph=graph))
    return result
