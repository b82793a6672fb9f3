"""The steps a user can take: lower, convert (load, lower and verify in one), and verify."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax

from jfuse.errors import JfuseError, LowerError, need_choice, shown
from jfuse.frontends.selection import Selection
from jfuse.ir.graph import Graph
from jfuse.ir.walk import all_eqns, shares_bodies
from jfuse.last_resort import only_jfuse_errors
from jfuse.limits import DEFAULT_LIMITS, Limits, need_limits
from jfuse.loading import load_selected
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.option_values import path_of, several
from jfuse.passes.context import Calibrate, Context
from jfuse.passes.fuse.trained_steps import has_trained_steps
from jfuse.passes.gates.all_fused import all_fused
from jfuse.passes.options import (
    CustomOptions,
    LoweringOptions,
    QuantizationOptions,
    RecurrenceOptions,
    State,
    TfOpOptions,
    mode_of,
)
from jfuse.passes.pipeline import PIPELINE, PipelineStep, around_quantization, run_pipeline
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.data import CalibrationData
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.recipe_json import recipe_of
from jfuse.report import Report
from jfuse.reports.target_check import TargetCheck, check_target
from jfuse.sides import sides_of, with_installed, with_runtimes
from jfuse.tflite.model_metadata import Metadata
from jfuse.tflite.targets.catalog import target_named
from jfuse.verification.noise import noise_of
from jfuse.verification.options import EDGES, FindingOptions, SamplingOptions, VerifyOptions
from jfuse.verification.plan import leaks_infinities, passes_infinities_on
from jfuse.verification.result import Verification
from jfuse.verification.sides import Sides
from jfuse.verification.verify import OnProgress, verify_sides

OnStage = Callable[[str], None]


@only_jfuse_errors("lowering")
def lower(
    model: Model,
    *,
    rules: Iterable[Rule] = (),
    passes: tuple[PipelineStep, ...] = PIPELINE,
    recover: bool = RecurrenceOptions.recover,
    state: State = RecurrenceOptions.state,
    padding: str | None = RecurrenceOptions.padding,
    loop: str = RecurrenceOptions.loop,
    prefer: str = RecurrenceOptions.prefer,
    forms: Mapping[str, str] | None = None,
    target: str = LoweringOptions.target,
    strict: bool = LoweringOptions.strict,
    select_tf_ops: bool = TfOpOptions.select_tf_ops,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    dump_dir: str | Path | None = None,
    quantize: Recipe | str | Path | None = None,
    calibration: CalibrationData = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """The model in TFLite builtins: loops recognised, composites fused and proven, states placed.

    rules: rules for this call, before the registered ones.
    recover: look for recurrences that nobody annotated.
    state: what lasts from one invoke to the next. "source": what the source keeps in variables; "reset": nothing;
        "keep": the states of all recurrences, for streaming; "io": nothing, the states are inputs and outputs. Of a
        model that takes and returns its states by itself a mapping, {"h": ("h_in", "h_out")}, as for `Model.keeping`.
    padding: what the caller promises of every mask: the steps that do not count stand on the "right", or on the "left".
    loop: the form of recurrences that do not fuse: "while", "unroll", or "auto", whichever is faster.
    prefer: "fused" takes every fusion; "speed" leaves a recurrence a loop where that was measured to be faster in
        LiteRT on a desktop processor (XNNPACK does not take fused ops).
    forms: for single recurrences, by their source as `report.loops` and `report.fused` name it, the form that they take
        whatever else is asked for: "fused", "unrolled", "x4" (WHILE with four steps a turn) or "x4in24" (in blocks of
        24 steps). `jfuse.tune` finds the fastest.
    target: what runs the file: "litert", "litert>=2.14" for the oldest runtime that must take it, "tflite-micro",
        "cmsis-nn", "ethos-u55", "ethos-u65", "ethos-u85", "litert-gpu" or "google-tensor". Operators that it lacks are
        spelled in others; what it loses is in `report.notes`.
    strict: a function that the source marks (`experimental_implements`) and that does not fuse is an error, which names
        the function, the rule and the reason.
    select_tf_ops: write ops without a rule as Flex operators, which only a runtime with the Flex delegate runs.
    custom_ops: TensorFlow ops to write as custom operators under their own name, for kernels of your own: those that
        `load` was given. Their options are a flexbuffer map of the node's attributes (None or True) or of other ones (a
        dict), bytes, or what a function of the node's attributes returns.
    dump_dir: a folder to write the text after each pass to.
    quantize: a recipe, which says what becomes of floats: by name ("float16", "dynamic", "int8_weights", "int8", …), in
        a .json file, or of your own.
    calibration: inputs like those that the model will see, for recipes that compute in integers.
    Raises LowerError where something has no TFLite spelling; nothing is written then.
    """
    if not isinstance(model, Model):
        raise JfuseError("only a jfuse.Model is lowered", found=shown(model), remedy="jfuse.lower(jfuse.load(source))")
    model = model.keeping(state)
    options = LoweringOptions(
        several("rules=", rules, "rules"),
        RecurrenceOptions(recover, mode_of(state), padding, loop, prefer, forms or {}),
        TfOpOptions(select_tf_ops, custom_ops or {}),
        _quantization(quantize, calibration),
        target=target,
        strict=strict,
        dump_dir=None if dump_dir is None else path_of("dump_dir=", dump_dir),
    )
    return _lower(model, options, passes, on_stage)


@only_jfuse_errors("lowering")
def _lower(model: Model, options: LoweringOptions, passes: tuple[PipelineStep, ...], on_stage: OnStage) -> Model:
    limits = model.limits or DEFAULT_LIMITS
    for graph in model.program.graphs():
        if shares_bodies(graph, limits.expanded):
            raise LowerError(
                "branches of the model share bodies, of which the lowered one would have a copy for each way to them",
                where=f"the graph {graph.name}",
                expected=f"at most {limits.expanded:,} equations",
                remedy="jfuse.load(…, limits=jfuse.Limits(expanded=…)); saving and running need no lowering",
            )
    report = Report(assumptions=list(model.report.assumptions), notes=list(model.report.notes))
    ctx = Context(
        default_rules().extended(options.rules),
        report,
        options.recurrence,
        options.tf_ops,
        target_named(options.target),
        on_stage=on_stage,
        variables=model.imported.variable_names if model.imported else (),
        recipe=options.quantization.recipe,
        calibrate=_calibration(options.quantization.calibration),
    )
    before, after = around_quantization(passes)
    program = run_pipeline(model.program, ctx, before, dump_dir=options.dump_dir)
    if options.strict:
        all_fused(ctx)
    unquantized = None
    if ctx.recipe is not None:
        apart = replace(ctx, recipe=None, report=Report(), on_stage=lambda stage: None)
        trained = has_trained_steps(model.program)  # which the passes before have taken for what they stand for
        floats = run_pipeline(model.program, apart, passes) if trained else run_pipeline(program, apart, after)
        unquantized = Model(floats, model.imported, limits=model.limits)
    program = run_pipeline(program, ctx, after, dump_dir=options.dump_dir, dumped=len(before))
    if options.target != LoweringOptions.target:
        report.notes += ctx.target.losses_of(program)
    report.operators = operator_counts(program.graphs())
    return Model(program, model.imported, report, model.limits, unquantized, model.functions)


def _quantization(quantize: Recipe | str | Path | None, calibration: CalibrationData) -> QuantizationOptions:
    again = list(calibration) if isinstance(calibration, Iterator) else calibration  # it is gone through twice
    return QuantizationOptions(None if quantize is None else recipe_of(quantize), again)


def _calibration(data: CalibrationData) -> Calibrate | None:
    """What finds ranges; None without data."""
    if data is None:
        return None
    return lambda program, observed, histograms: calibrate(program, observed, data, histograms=histograms)


@only_jfuse_errors("conversion")
def convert(
    source: Any,
    specs: Any = None,
    *,
    params: Any = None,
    dynamic_shapes: Any = None,
    signatures: Sequence[str] | None = None,
    input_signature: Sequence[Any] | None = None,
    input_tensors: Sequence[str] | None = None,
    output_tensors: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    batch: int | None = None,
    rules: Iterable[Rule] = (),
    recover: bool = RecurrenceOptions.recover,
    state: State = RecurrenceOptions.state,
    padding: str | None = RecurrenceOptions.padding,
    loop: str = RecurrenceOptions.loop,
    prefer: str = RecurrenceOptions.prefer,
    target: str = LoweringOptions.target,
    strict: bool = LoweringOptions.strict,
    select_tf_ops: bool = TfOpOptions.select_tf_ops,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    verify: bool = True,
    samples: Any = None,
    tolerance: float | Mapping[str, float] | None = None,
    unsafe: bool = False,
    dump_dir: str | Path | None = None,
    quantize: Recipe | str | Path | None = None,
    calibration: CalibrationData = None,
    metadata: Metadata | Mapping[str, Any] | str | Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """`load`, `lower` and `verify` in one; `result.save(path)` writes the file, `result.report` tells what happened.

    Arguments as for `load` and `lower`; `verify=False` skips the comparison with TensorFlow and LiteRT (fusions are
    still proven).
    samples: inputs of your own to compare on instead of drawn ones, as `verify` takes `inputs`.
    tolerance: as in `verify`.
    quantize, calibration: as in `lower`. What is compared with TensorFlow is the model before it is quantized;
        `report.noise` tells how far from it the quantized file is, in LiteRT on the calibration data (else on drawn
        inputs).
    metadata: what the file says of itself, as `Model.with_metadata` takes it.
    """
    if samples is not None and not verify:
        raise JfuseError("samples= are what is compared on", found="verify=False", remedy="one of the two")
    selection = Selection(
        signatures, input_signature, input_tensors, output_tensors, shapes, batch, specs, params, dynamic_shapes
    )
    options = LoweringOptions(
        several("rules=", rules, "rules"),
        RecurrenceOptions(recover=recover, state=mode_of(state), padding=padding, loop=loop, prefer=prefer),
        TfOpOptions(select_tf_ops, custom_ops or {}),
        _quantization(quantize, calibration),
        target=target,
        strict=strict,
        dump_dir=None if dump_dir is None else path_of("dump_dir=", dump_dir),
    )
    started = time.perf_counter()
    on_stage("import")
    given = tuple(options.tf_ops.custom_ops)
    model = load_selected(source, selection, rules=options.rules, custom_ops=given, unsafe=unsafe).keeping(state)
    imported = time.perf_counter() - started
    lite = _lower(model, options, PIPELINE, on_stage)
    lite.report.seconds = {"import": imported, **lite.report.seconds}
    if metadata is not None:
        lite = lite.with_metadata(metadata)
    on_stage("export")
    started = time.perf_counter()
    lite.report.size_bytes = lite.size_bytes
    lite.report.seconds["export"] = time.perf_counter() - started
    if verify:
        on_stage("verify")
        started = time.perf_counter()
        passes_on = passes_infinities_on(model.program) and not leaks_infinities(lite.program)
        edges = "infinite" if samples is None and passes_on else "none"
        sampling = SamplingOptions(inputs=samples, edges=edges)
        compared = VerifyOptions(sampling, FindingOptions(shrink=0), tolerance)
        sides, notes = with_installed(Sides.of_model(lite.unquantized or lite, model), target_named(target).runtime)
        found = verify_sides(sides, compared)
        lite.report.compared(found.differences, [*found.notes, *notes])
        _measure_noise(lite, options.quantization.calibration)
        lite.report.seconds["verify"] = time.perf_counter() - started
    return lite


def _measure_noise(lite: Model, data: CalibrationData) -> None:
    """Report how far a quantized model is from the float one."""
    if lite.unquantized is not None:
        lite.report.noise = noise_of(lite, lite.unquantized, data)


def operator_counts(graphs: Iterable[Graph]) -> dict[str, int]:
    """How many operators of each kind the files' subgraphs hold, most frequent first."""
    counts = Counter(eqn.op.name for graph in graphs for eqn in all_eqns(graph))
    return dict(counts.most_common())


@only_jfuse_errors("verification")
def verify(
    a: Any,
    b: Any = None,
    *,
    reference: Any = None,
    samples: int = SamplingOptions.samples,
    calls: int = SamplingOptions.calls,
    seed: int = SamplingOptions.seed,
    inputs: Any = None,
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None,
    signatures: Sequence[str] | None = None,
    tolerance: float | Mapping[str, float] | None = None,
    edges: str = SamplingOptions.edges,
    empty: bool = SamplingOptions.empty,
    device: str | None = None,
    save_failing: str | Path | None = None,
    shrink: int = FindingOptions.shrink,
    equations: bool = FindingOptions.equations,
    runtimes: Sequence[str] = (),
    unsafe: bool = False,
    limits: Limits = DEFAULT_LIMITS,
    on_progress: OnProgress = lambda done, total: None,
) -> Verification:
    """Compare `a` with `b`: every output of every call that is tried, up to a tolerance that has a reason.

    a, b: a Model; the path or the bytes of a .tflite file; anything that `jfuse.load` takes (a SavedModel folder, a
        .keras file, a Keras model, a tf.function, concrete functions, a GraphDef), which TensorFlow runs; or a function
        of JAX arrays, with the types that its attribute `input_signature` states, else those of the other side.
        A file and a lowered Model are run on XLA and in LiteRT. As `b` a file stands for what LiteRT says of it, a
        Model for the TensorFlow source that it came from, else for its file.
        Without `b` a Model is compared with its own source; a file, and a Model without source, in LiteRT with XLA.
    reference: another name for `b`.
    samples: how many independent first calls to compare besides, in batches; where something is kept between calls, how
        many rows of calls.
    calls: calls in a row for each signature and choice of sizes, at the scales 1, 0.1, 4, 1, …; what is kept between
        calls goes on from one to the next.
    seed: of everything that is drawn. The same seed gives the same inputs.
    inputs: your own instead of drawn ones: one call as an array, a tuple of arrays by position or a dict by name;
        several calls in a row as a list, an iterator or a tf.data.Dataset of these; or the path of a .npz file with
        an array for each input (one call), or `number/signature/input` (calls in a row). Each element is what one call
        takes, with its batch; nothing is batched or unbatched. Of several signatures the first of `signatures` is
        called.
    sizes: for open dimensions, by the names that `print(model)` shows, one choice or several; by default two for each.
    signatures: the keys to compare, as `a` has them; by default all that both have.
    tolerance: the largest max|a - b| / max|b| of float outputs, for all or by name. By default it follows from dtypes
        and operators, with the reason in each Difference; everything but floats must be equal.
    edges: "finite" also tries zeros, ones, denormals, the largest and the smallest numbers, single steps of masks, and
        ids and lengths at both ends; "nan" NaNs and infinities, too; "none" nothing of these. Where an overflow
        or a rounding of the input itself decides, edges are left out, with a note.
    empty: also a batch of no rows, where the first axis is open.
    device: "cpu" or "gpu" for XLA; by default jax's own choice.
    save_failing: a folder; where outputs differ, the calls that show it are written there as a .npz file.
    shrink: how many runs at most to spend on a smaller input that fails as well.
    equations: also compare every intermediate value, in one call: `equations` of the result has the error along the
        graph.
    runtimes: further runtimes to run the file of `a` in: "tflite-micro", where it is installed (`jfuse[micro]`).
    unsafe: as `load` has it, for sources that are given as paths.
    limits: what reading the files may take, and each call of them on XLA, in TensorFlow, and in LiteRT, which runs in
        processes of its own. A call that reaches one, or takes such a process down, is an error that names the call
        and, where it is found, the operator; its inputs are kept. A `Model` has its own.
    on_progress: called with the number of calls compared, and about how many there will be (0: unknown).

    Returns what was found; the report of a Model `a` gets it too. Raises VerifyFailed, with the same in its
    `verification`, where outputs differ, naming the first equation that does; JfuseError where the sides do not take
    the same inputs, or the options do not fit them.
    """
    if b is not None and reference is not None:
        raise JfuseError("b and reference= are the same", remedy="one of them")
    need_limits(limits)
    need_choice("edges", edges, EDGES)
    options = VerifyOptions(
        SamplingOptions(samples, calls, seed, inputs, sizes, signatures, edges, empty),
        FindingOptions(save_failing, shrink, equations),
        tolerance,
    )
    with _on(device):
        sides = with_runtimes(sides_of(a, b if b is not None else reference, unsafe=unsafe, limits=limits), runtimes)
        found = verify_sides(sides, options, on_progress)
    if isinstance(a, Model):
        a.report.compared(found.differences, found.notes)
    return found


@only_jfuse_errors("check")
def check(model: Model | str | Path, target: str, *, unsafe: bool = False) -> TargetCheck:
    """What a target makes of a lowered Model or a .tflite file, whoever wrote it: operators, losses and memory.

    target: as `lower` has it. Nothing is changed; `convert(..., target=)` writes another file.
    """
    found = target_named(target)
    loaded = model if isinstance(model, Model) else load_selected(model, Selection(), unsafe=unsafe)
    not_lowered = next((e for g in loaded.program.entries() for e in all_eqns(g) if e.op.builtin is None), None)
    if not_lowered is not None:
        raise JfuseError(
            "a source is no file yet", found=not_lowered.op.name, remedy="jfuse.convert it, and check what it becomes"
        )
    return check_target(loaded.program, loaded.to_bytes(), found)


@contextmanager
def _on(device: str | None) -> Iterator[None]:
    if device is None:
        yield
        return
    try:
        if not isinstance(device, str):
            raise RuntimeError
        chosen = jax.devices(device)[0]
    except RuntimeError as error:
        raise JfuseError(
            f"there is no device {shown(device)}", expected=f"one of {sorted({d.platform for d in jax.devices()})}"
        ) from error
    with jax.default_device(chosen):
        yield
