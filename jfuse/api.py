"""The steps a user can take: load, lower, and convert, which is both with a verification."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jfuse.errors import JfuseError
from jfuse.frontends.sources import import_tensorflow
from jfuse.frontends.tf_opaque import TfOp
from jfuse.frontends.tflite_file import load_tflite
from jfuse.ir.graph import Graph, Program
from jfuse.ir.walk import all_eqns
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.context import Context, CustomOptions
from jfuse.passes.pipeline import PIPELINE, Step, run_pipeline
from jfuse.passes.states.streams import MODES
from jfuse.report import Report
from jfuse.running.runner import running_notes
from jfuse.verification.plan import Options
from jfuse.verification.verify import Sides, verify_sides

OnStage = Callable[[str], None]


def load(
    source: Any,
    *,
    signatures: Sequence[str] | None = None,
    input_signature: Sequence[Any] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    rules: Iterable[Rule] = (),
    custom_ops: Collection[str] = (),
) -> Model:
    """The model in `source` as a jfuse program, composites with their bodies.

    source: path of a SavedModel folder, a `.keras` or a `.tflite` file; a Keras 3 or tf_keras model; a tf.function; a
        concrete function, or a sequence or mapping (signature key -> function) of them; a GraphDef, or the path of a
        `.pb` file with one.
    signatures: keys to load; None for all.
    input_signature: tf.TensorSpecs, for a tf.function without one or to fix the sizes of a Keras model or a GraphDef.
    inputs, outputs: names of tensors of a GraphDef; by default its inputs are the placeholders that the outputs need.
    custom_ops: TensorFlow ops to leave as they are, whatever rule there is: `lower` makes custom operators of them.
    Raises ImportFailed, BadFlatbuffer.
    """
    if isinstance(source, str | Path) and Path(source).suffix == ".tflite":
        if not Path(source).is_file():
            raise JfuseError(f"{source} does not exist")
        program = load_tflite(Path(source))
        return Model(program, report=Report(notes=list(running_notes(program))))
    table = default_rules().extended(rules).lowers
    imported = import_tensorflow(
        source,
        table,
        signatures=signatures,
        input_signature=input_signature,
        inputs=inputs,
        outputs=outputs,
        custom_ops=custom_ops,
    )
    _need_nodes_of(custom_ops, imported.program)
    report = Report(assumptions=list(imported.program.assumptions), notes=list(imported.notes))
    return Model(imported.program, imported, report)


def lower(
    model: Model,
    *,
    rules: Iterable[Rule] = (),
    passes: tuple[Step, ...] = PIPELINE,
    recover: bool = True,
    state: str = "source",
    padding: str | None = None,
    loop: str = "auto",
    prefer: str = "fused",
    select_tf_ops: bool = False,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    dump_dir: str | Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """The model in TFLite builtins: loops recognised, composites fused and proven, states placed.

    rules: rules for this call, before the registered ones.
    recover: look for recurrences that nobody annotated.
    state: what lasts from one invoke to the next. "source": what the source keeps in variables; "reset": nothing;
        "keep": the states of all recurrences, for streaming; "io": nothing, the states are inputs and outputs.
    padding: what the caller promises of every mask: the steps that do not count stand on the "right", or on the "left".
    loop: the form of recurrences that do not fuse: "while", "unroll", or "auto", whichever is faster.
    prefer: "fused" takes every fusion; "speed" leaves a recurrence a loop where that was measured to be faster in
        LiteRT on a desktop processor (XNNPACK does not take fused ops).
    select_tf_ops: write ops without a rule as Flex operators, which only a runtime with the Flex delegate runs.
    custom_ops: TensorFlow ops to write as custom operators under their own name, for kernels of your own: those that
        `load` was given. Their options are a flexbuffer map of the node's attributes (None or True) or of other ones (a
        dict), bytes, or what a function of the node's attributes returns.
    dump_dir: a folder to write the text after each pass to.
    Raises LowerError where something has no TFLite spelling; nothing is written then.
    """
    report = Report(assumptions=list(model.report.assumptions), notes=list(model.report.notes))
    choice("state", state, MODES)
    choice("padding", padding, (None, "right", "left"))
    choice("loop", loop, ("auto", "while", "unroll"))
    choice("prefer", prefer, ("fused", "speed"))
    variables = model.imported.variable_names if model.imported else ()
    ctx = Context(
        default_rules().extended(rules),
        report,
        recover=recover,
        state=state,
        padding=padding,
        loop=loop,
        prefer=prefer,
        on_stage=on_stage,
        variables=variables,
        select_tf_ops=select_tf_ops,
        custom_ops=custom_ops or {},
    )
    program = run_pipeline(model.program, ctx, passes, dump_dir=None if dump_dir is None else Path(dump_dir))
    report.operators = operator_counts(program.graphs())
    return Model(program, model.imported, report)


def convert(
    source: Any,
    *,
    signatures: Sequence[str] | None = None,
    input_signature: Sequence[Any] | None = None,
    inputs: Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    rules: Iterable[Rule] = (),
    recover: bool = True,
    state: str = "source",
    padding: str | None = None,
    loop: str = "auto",
    prefer: str = "fused",
    select_tf_ops: bool = False,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    verify: bool = True,
    dump_dir: str | Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """`load`, `lower` and `verify` in one; `result.save(path)` writes the file, `result.report` tells what happened.

    Arguments as for `load` and `lower`; `verify=False` skips the comparison with TensorFlow and LiteRT (fusions are
    still proven).
    """
    rules = tuple(rules)
    started = time.perf_counter()
    on_stage("import")
    model = load(
        source,
        signatures=signatures,
        input_signature=input_signature,
        inputs=inputs,
        outputs=outputs,
        rules=rules,
        custom_ops=tuple(custom_ops or ()),
    )
    imported = time.perf_counter() - started
    lite = lower(
        model,
        rules=rules,
        recover=recover,
        state=state,
        padding=padding,
        loop=loop,
        prefer=prefer,
        select_tf_ops=select_tf_ops,
        custom_ops=custom_ops,
        dump_dir=dump_dir,
        on_stage=on_stage,
    )
    lite.report.seconds = {"import": imported, **lite.report.seconds}
    on_stage("export")
    started = time.perf_counter()
    lite.report.size_bytes = len(lite.to_bytes())
    lite.report.seconds["export"] = time.perf_counter() - started
    if verify:
        on_stage("verify")
        started = time.perf_counter()
        found = verify_sides(Sides.of_model(lite, model), Options())
        lite.report.compared(found.differences, found.notes)
        lite.report.seconds["verify"] = time.perf_counter() - started
    return lite


def choice(name: str, value: object, choices: Sequence[object]) -> None:
    """Raise JfuseError unless the option has one of these values."""
    if value not in choices:
        known = " or ".join(map(repr, choices))
        raise JfuseError(f"no {name} {value!r}", expected=known, remedy=f"{name}={choices[0]!r}")


def _need_nodes_of(custom_ops: Collection[str], program: Program) -> None:
    """Raise JfuseError for names of which the program has no opaque node."""
    found = {e.op.tf_name for graph in program.graphs() for e in all_eqns(graph) if isinstance(e.op, TfOp)}
    unknown = sorted(set(custom_ops) - found)
    if unknown:
        raise JfuseError(
            f"custom_ops names {', '.join(unknown)}, of which the model has no node that its results need",
            expected="names of TensorFlow ops" + (f"; without a rule are {', '.join(sorted(found))}" if found else ""),
        )


def operator_counts(graphs: Iterable[Graph]) -> dict[str, int]:
    """How many operators of each kind the files' subgraphs hold, most frequent first."""
    counts = Counter(eqn.op.name for graph in graphs for eqn in all_eqns(graph))
    return dict(counts.most_common())
