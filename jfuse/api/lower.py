"""`jfuse.lower`: a model in TFLite builtins."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from jfuse.api.load import load
from jfuse.api.quantized_sizes import kept_small
from jfuse.base.errors import LowerError
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS
from jfuse.base.option_values import path_of, several
from jfuse.ir.graph import Graph, Program
from jfuse.ir.walk import all_eqns, shares_bodies
from jfuse.kernels.control import while_
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.context import Calibrate, Context, OnStage
from jfuse.passes.fuse.trained_steps import has_trained_steps
from jfuse.passes.gates.all_fused import all_fused
from jfuse.passes.options import (
    CustomOptions,
    Loop,
    LoweringOptions,
    Machine,
    Padding,
    Precision,
    Preference,
    QuantizationOptions,
    RecurrenceOptions,
    Requirement,
    State,
    TfOpOptions,
    mode_of,
)
from jfuse.passes.own import Pass
from jfuse.passes.pipeline import PIPELINE, PipelineStep, around_quantization, run_pipeline, with_own
from jfuse.passes.quantize.half_files import has_halves, without_halves
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.data import CalibrationData, repeatable
from jfuse.quantization.moments import Moments
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.recipe_json import recipe_of
from jfuse.quantization.recipe_names import RecipeName
from jfuse.quantization.statistics import Observed, Statistics
from jfuse.records.conversion import Report
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.compiled_model import interpreter_only
from jfuse.tflite.targets.names import TargetName
from jfuse.verification.quantization_noise.optional_steps import Attempt, with_steps_that_help


@only_jfuse_errors("lowering")
def lower(
    model: Any,
    *,
    rules: Iterable[Rule] = (),
    passes: Sequence[Pass | Callable[..., Any]] = (),
    recover: bool = RecurrenceOptions.recover,
    state: State = RecurrenceOptions.state,
    padding: Padding | None = RecurrenceOptions.padding,
    loop: Loop = RecurrenceOptions.loop,
    prefer: Preference = RecurrenceOptions.prefer,
    machine: Machine = RecurrenceOptions.machine,
    require: Requirement | None = RecurrenceOptions.require,
    forms: Mapping[str, str] | None = None,
    target: TargetName | Sequence[TargetName] = LoweringOptions.target,
    precision: Precision = LoweringOptions.precision,
    strict: bool = LoweringOptions.strict,
    select_tf_ops: bool = TfOpOptions.select_tf_ops,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    dump_dir: str | Path | None = None,
    quantize: Recipe | RecipeName | Path | None = None,
    calibration: CalibrationData = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """The model in TFLite builtins: loops recognised, composites fused and proven or tested, states placed.

    model: a Model, or any source of `load`.
    rules: rules for this call, before the registered ones.
    passes: passes for this call, besides the registered ones: those of `rewrites`, or functions of graphs, which come
        after "simplify".
    recover: look for recurrences without an annotation.
    state: what lasts from one invoke to the next. "source": what the source keeps in variables; "reset": nothing;
        "keep": the states of all recurrences, for streaming; "io": nothing, the states are inputs and outputs. Of a
        model that takes and returns its states by itself a mapping, {"h": ("h_in", "h_out")}, as for `Model.keeping`.
    padding: what the caller promises of every mask: the steps that do not count stand on the "right", or on the "left".
    loop: the form of recurrences that do not fuse: "while", "unroll", or "auto", whichever is faster.
    prefer: "fused" takes every fusion; "speed" leaves a recurrence a loop where that was measured to be faster in
        LiteRT (XNNPACK does not take fused ops); "size" takes every fusion, and of each loop the smallest form. "auto"
        takes every fusion, but of an LSTM in 8 bits in LiteRT the fastest form that is about as small as any.
    machine: the processor whose measurements count where a form is chosen: "zen4", "zen4-avx2" (without AVX-512) or
        "emerald-rapids"; "any" takes the form by which none of them loses much.
    require: "proven" refuses fusions that are only tested on samples; None takes both.
    forms: for single recurrences, by their source as `report.loops` and `report.fused` name it, the form that they take
        whatever else is asked for: "fused", "unrolled", "x4" (WHILE with four steps a turn) or "x4in24" (in blocks of
        24 steps). `jfuse.tune` finds the fastest.
    target: what runs the file: "litert" (LiteRT's Interpreter), "litert>=2.14" for the oldest runtime that must take
        it, "compiled-model" (LiteRT's CompiledModel, and Interpreter), "tflite-micro", "cmsis-nn", "ethos-u55",
        "ethos-u65", "ethos-u85", "litert-gpu" or "google-tensor". Operators that it lacks are spelled in others; what
        it loses is in `report.notes`. Several, ("litert", "tflite-micro") or "litert,tflite-micro", for one file that
        all of them take.
    precision: "float32" computes in f32 where the source has f16 or bf16, as models under mixed precision do; "source"
        keeps its types. Inputs and outputs keep them in both.
    strict: a function that the source marks (`experimental_implements`) and that does not fuse is an error, which names
        the function, the rule and the reason; so is a recipe that makes nothing smaller.
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
    steps = with_own(passes)
    given = several("rules=", rules, "rules")
    model = (model if isinstance(model, Model) else load(model, rules=given)).keeping(state)
    options = LoweringOptions(
        given,
        RecurrenceOptions(
            recover, mode_of(state), padding, loop, prefer, machine, {} if forms is None else forms, require=require
        ),
        TfOpOptions(select_tf_ops, {} if custom_ops is None else custom_ops),
        quantization_options(quantize, calibration),
        target=target,
        strict=strict,
        dump_dir=None if dump_dir is None else path_of("dump_dir=", dump_dir),
        precision=precision,
    )
    return lowered(model, options, steps, on_stage)


@only_jfuse_errors("lowering")
def lowered(model: Model, options: LoweringOptions, passes: tuple[PipelineStep, ...], on_stage: OnStage) -> Model:
    """Lower a model with options that are already grouped."""
    made = _lowered(model, options, passes, on_stage)
    if options.quantization.recipe is None or PIPELINE[-1] not in passes:
        return made
    return kept_small(made, options, lambda changed: _lowered(model, changed, passes, on_stage))


def _lowered(model: Model, options: LoweringOptions, passes: tuple[PipelineStep, ...], on_stage: OnStage) -> Model:
    limits = model.limits or DEFAULT_LIMITS
    for graph in model.program.graphs():
        if shares_bodies(graph, limits.expanded):
            raise LowerError(
                "branches of the model share bodies, of which the lowered one would have a copy for each way to them",
                where=f"the graph {graph.name}",
                expected=f"at most {limits.expanded:,} equations",
                remedy="jfuse.load(…, limits=jfuse.Limits(expanded=…)); saving and running need no lowering",
            )
    seen: list[Statistics] = []
    report = Report(assumptions=list(model.report.assumptions), notes=list(model.report.notes))
    recipe, source = options.quantization.recipe, model.program
    halves = recipe is not None and has_halves(source)
    if halves:
        source = source.with_graphs(without_halves)
    ctx = Context(
        default_rules().extended(options.rules),
        report,
        options.recurrence if recipe is None else replace(options.recurrence, whiles=_whiles(model)),
        options.tf_ops,
        target_named(options.target),
        on_stage=on_stage,
        variables=model.imported.variable_names if model.imported else (),
        recipe=recipe,
        precision=options.precision,
        halves=halves,
    )
    before, after = around_quantization(passes)
    program = run_pipeline(source, ctx, before, dump_dir=options.dump_dir)
    if options.strict:
        all_fused(ctx)
    unquantized = None
    if ctx.recipe is not None:
        apart = replace(ctx, recipe=None, report=Report(), on_stage=lambda stage: None)
        trained = has_trained_steps(model.program)  # which the passes before have taken for what they stand for
        floats = run_pipeline(source, apart, passes) if trained else run_pipeline(program, apart, after)
        unquantized = Model(floats, model.imported, limits=model.limits)
    attempt = partial(_attempt, program, ctx, _LastPasses(after), options.quantization, seen)
    dumped = _LastPasses(after, options.dump_dir, len(before))
    made = _attempt(program, ctx, dumped, options.quantization, seen, ctx.recipe, None)
    if ctx.recipe is not None and unquantized is not None and seen and options.quantization.measured:
        started = time.perf_counter()
        made = with_steps_that_help(made, ctx.recipe, unquantized.program, options.quantization.calibration, attempt)
        seconds = made.report.seconds
        seconds["quantize"] = seconds.get("quantize", 0.0) + time.perf_counter() - started
    program, report = made.program, made.report
    if ctx.target.name != LoweringOptions.target:
        report.notes += ctx.target.losses_of(program)
    report.operators = operator_counts(program.graphs())
    report.interpreter_only = interpreter_only(program, ctx.target)
    lite = Model(program, model.imported, report, model.limits, unquantized, model.functions)
    lite.statistics = seen[0] if seen else None
    return lite


def _whiles(model: Model) -> frozenset[str] | None:
    """The sources of the WHILE operators of a model that is in TFLite operators already; None of others."""
    is_source = model.imported is not None or model.functions is not None
    if is_source and not model.report.operators:
        return None
    eqns = (eqn for graph in model.program.graphs() for eqn in all_eqns(graph))
    return frozenset(str(eqn.source) for eqn in eqns if eqn.op is while_)


def quantization_options(
    quantize: Recipe | RecipeName | Path | None, calibration: CalibrationData
) -> QuantizationOptions:
    """The options of quantization as `lower` and `convert` are given them."""
    again = repeatable(calibration)
    return QuantizationOptions(None if quantize is None else recipe_of(quantize), again)


@dataclass(frozen=True)
class _LastPasses:
    """The passes from quantization on.   dump_dir: where their texts go; dumped: how many passes' texts are there."""

    steps: tuple[PipelineStep, ...]
    dump_dir: Path | None = None
    dumped: int = 0


def _attempt(
    program: Program,
    ctx: Context,
    passes: _LastPasses,
    options: QuantizationOptions,
    seen: list[Statistics],
    recipe: Recipe | None,
    data: CalibrationData,
) -> Attempt:
    """Run the last passes on a program, by a recipe.

    data: to calibrate with; None for those of the options. seen: collects their statistics, first of all for the
    recipe that was asked for.
    """
    calibrated = (
        _calibration(options, seen)
        if data is None
        else _calibration(replace(options, calibration=data, known=None), [])
    )
    apart = replace(ctx, recipe=recipe, calibrate=calibrated, report=ctx.report.noting())
    if seen:  # not the first attempt, which told the stages
        apart = replace(apart, on_stage=lambda stage: None)
    changed = run_pipeline(program, apart, passes.steps, dump_dir=passes.dump_dir, dumped=passes.dumped)
    return Attempt(changed, apart.report)


def _calibration(options: QuantizationOptions, seen: list[Statistics]) -> Calibrate | None:
    """Function that finds ranges; None without data.   seen: receives its statistics"""
    data = options.calibration
    if data is None:
        return None

    def found(
        program: Program,
        observed: Sequence[Observed],
        histograms: Sequence[Observed],
        moments: Mapping[Observed, Moments],
    ) -> Statistics:
        earlier = (*seen, *([] if options.known is None else [options.known]))
        whole = next(filter(None, (k.where_whole(program, observed, histograms, moments) for k in earlier)), None)
        seen.append(whole or calibrate(program, observed, data, histograms=histograms, moments=moments))
        return seen[-1]

    return found


def operator_counts(graphs: Iterable[Graph]) -> dict[str, int]:
    """How many operators of each kind the files' subgraphs hold, most frequent first."""
    counts = Counter(eqn.op.name for graph in graphs for eqn in all_eqns(graph))
    return dict(counts.most_common())
