"""Loading: any source as a jfuse program, and the text of a model as the model."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS, Limits, need_limits
from jfuse.base.options import given
from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.frontends.jax_functions.source import DEFAULT_KEY, import_functions, is_jax_source, jax_signatures
from jfuse.frontends.nan_weights import notes_on_file
from jfuse.frontends.pytorch import is_torch_source
from jfuse.frontends.selection import Inputs
from jfuse.frontends.sources import import_tensorflow
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.parser import is_program, parse_program
from jfuse.ir.parser import parse as parse_graph
from jfuse.ir.states import with_explicit_states
from jfuse.ir.text import constants_of
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import composite
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.options import Pipeline
from jfuse.records.conversion import Report
from jfuse.running.runner import running_notes


@only_jfuse_errors("loading")
def load(
    source: Any,
    inputs: Inputs | Any = None,
    *,
    batch: int | None = None,
    rules: Iterable[Rule] | None = None,
    pipeline: Pipeline | None = None,
    unsafe: bool = False,
    limits: Limits = DEFAULT_LIMITS,
) -> Model:
    """The model in `source` as a jfuse program, composites with their bodies.

    source: path of a SavedModel folder, a `.keras`, `.h5` or `.tflite` file, or the bytes of a `.tflite` file; a Keras
        3 or tf_keras model; a tf.Module, or what tf.saved_model.load gives; a tf.function; a concrete function, or a
        sequence or mapping (signature key -> function) of them; a GraphDef, or the path of a `.pb` file with one; a
        function of jax arrays, or what jax.export or jax.make_jaxpr made of one, or a mapping (signature key ->
        function) of them; a `jfuse.ir.Program`, or a `jfuse.ir.Graph`, which becomes the only signature;
        a torch.nn.Module in eval mode, or such a mapping of them, an ExportedProgram, or the path of a `.pt2` file.
    inputs: a `jfuse.Inputs`, which says what of the source is read; or its `specs` alone, what a function of jax or a
        module takes. batch, unsafe: in place of its fields.
    pipeline: a `jfuse.Pipeline`, whose rules and custom operators are read. rules: in place of its field.
    limits: for reading a file, and for a call of it on XLA, in LiteRT and in TensorFlow.
    Raises ImportFailed, BadFlatbuffer.
    """
    own = given(Pipeline, "pipeline", pipeline, rules=rules)
    need_limits(limits)
    return load_selected(source, Inputs.of(inputs, batch=batch, unsafe=unsafe or None), own, limits)


@only_jfuse_errors("loading")
def load_selected(
    source: Any, inputs: Inputs = Inputs(), pipeline: Pipeline = Pipeline(), limits: Limits = DEFAULT_LIMITS
) -> Model:
    """Load with options that are already grouped."""
    for module in inputs.modules:
        import_module(module)
    custom_ops = pipeline.custom_ops
    in_memory = isinstance(source, bytes | bytearray | memoryview)
    if in_memory or (isinstance(source, str | Path) and Path(source).suffix == ".tflite"):
        if not in_memory and not Path(source).is_file():
            raise JfuseError(f"{source} does not exist")
        if inputs.shapes or inputs.batch is not None:
            described = "a file's bytes" if in_memory else str(source)
            raise JfuseError("shapes= and batch= apply to sources, not to .tflite files", found=described)
        from jfuse.tflite.read.file import load_tflite

        program = load_tflite(bytes(source) if in_memory else Path(source), limits=limits)
        return Model(program, report=Report(notes=[*running_notes(program), *notes_on_file(program)]), limits=limits)
    if isinstance(source, Program | Graph):
        return Model(source if isinstance(source, Program) else _program_of(source))
    all_rules = default_rules().extended(pipeline.rules)
    functions: ImportedFunctions | None = None
    if is_torch_source(source):
        from jfuse.frontends.torch_modules.source import import_modules

        functions = import_modules(source, inputs, all_rules.lowers_torch)
    elif is_jax_source(source, inputs):
        functions = import_functions(jax_signatures(source, inputs), all_rules.lowers_jax, inputs.params)
    if functions is not None:
        program = with_explicit_states(functions.program, functions.explicit_states)
        return Model(program, report=Report(notes=list(functions.notes)), functions=functions)
    imported = import_tensorflow(source, all_rules.lowers, inputs, custom_ops=custom_ops, limits=limits)
    _need_nodes_of(custom_ops, imported.program)
    report = Report(assumptions=list(imported.program.assumptions), notes=list(imported.notes))
    foreign = isinstance(source, str | Path)  # loops of a file may never end, on XLA either
    return Model(imported.program, imported, report, limits=limits if foreign else None)


@only_jfuse_errors("parsing")
def parse(text: str, *, consts: Model | Program | Graph | Mapping[str, np.ndarray] | None = None) -> Model | Graph:
    """The model that prints as `text`, or the graph, where it is the text of one graph.

    consts: where the constants are that print by digest: a model, program or graph that has them, as the one that was
        printed, or arrays by digest.
    Raises JfuseError with line and column where the text is none of either, or does not check.
    """
    if not isinstance(text, str):
        raise JfuseError("what is parsed is text", found=shown(text))
    consts = consts.program if isinstance(consts, Model) else consts
    arrays = constants_of(consts) if isinstance(consts, Program | Graph) else consts
    if is_program(text):
        return Model(parse_program(text, consts=arrays))
    return parse_graph(text, consts=arrays)


def _program_of(graph: Graph) -> Program:
    """A graph as the only signature; inputs have the names of their Vars."""
    graph.check()
    names = [var.name or f"input_{i}" for i, var in enumerate(graph.inputs)]
    if len(set(names)) != len(names):
        raise JfuseError("two inputs of the graph have one name", found=names)
    outputs = tuple(f"output_{i}" for i in range(len(graph.outputs)))
    return Program((Signature(DEFAULT_KEY, graph, tuple(names), outputs),))


def _need_nodes_of(custom_ops: Collection[str], program: Program) -> None:
    """Raise JfuseError for names of which the program has no opaque node and no marked function."""
    eqns = [e for graph in program.graphs() for e in all_eqns(graph)]
    op_names = {e.op.tf_name for e in eqns if e.op.tf_name is not None}
    unknown = sorted(set(custom_ops) - op_names - {e.params["name"] for e in eqns if e.op is composite})
    if unknown:
        raise JfuseError(
            f"custom_ops= names {', '.join(unknown)}, but the model's results need no such node",
            expected="names of TensorFlow ops, or of marked functions"
            + (f"; without a rule are {', '.join(sorted(op_names))}" if op_names else ""),
        )
