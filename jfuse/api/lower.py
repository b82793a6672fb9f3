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
from jfuse.base.options import given
from jfuse.ir.graph import Graph, Program
from jfuse.ir.walk import all_eqns, shares_bodies
from jfuse.kernels.control import while_
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.context import Attempt, Calibrate, Context
from jfuse.passes.fuse.trained_steps import has_trained_steps
from jfuse.passes.gates.all_fused import all_fused
from jfuse.passes.options import CountedStage, Forms, LoweringOptions, Pipeline, QuantizationOptions, State
from jfuse.passes.pipeline import PIPELINE, PipelineStep, around_quantization, run_pipeline, with_own
from jfuse.passes.quantize.half_files import has_halves, without_halves
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


@only_jfuse_errors("lowering")
def lower(
    model: Any,
    *,
    target: TargetName | Sequence[TargetName] | None = None,
    state: State | None = None,
    forms: Forms | None = None,
    quantize: Recipe | RecipeName | Path | None = None,
    calibration: CalibrationData = None,
    rules: Iterable[Rule] | None = None,
    pipeline: Pipeline | None = None,
) -> Model:
    """The model in TFLite builtins: loops recognised, composites fused and proven or tested, states placed.

    model: a Model, or any source of `load`.
    forms: a `jfuse.Forms`, which says what becomes of recurrences. target: what runs the file, and state: what lasts
        from one invoke to the next, in place of its fields.
    quantize: a recipe, which says what becomes of floats: by name ("float16", "dynamic", "int8_weights", "int8", …), in
        a .json file, or a `jfuse.Recipe`.
    calibration: inputs like those that the model will see, for recipes that compute in integers.
    pipeline: a `jfuse.Pipeline`: rules, passes and custom operators of your own. rules: in place of its field.
    Raises LowerError where something has no TFLite spelling; nothing is written then.
    """
    own = given(Pipeline, "pipeline", pipeline, rules=rules)
    asked = given(Forms, "forms", forms, target=target, state=state)
    model = (model if isinstance(model, Model) else load(model, pipeline=own)).keeping(asked.state)
    return lowered(model, LoweringOptions(asked, own, quantization_options(quantize, calibration)))


@only_jfuse_errors("lowering")
def lowered(model: Model, options: LoweringOptions, passes: tuple[PipelineStep, ...] | None = None) -> Model:
    """Lower a model with options that are already grouped.   passes: instead of those of the options"""
    passes = with_own(options.pipeline.passes) if passes is None else passes
    made = _lowered(model, options, passes)
    if options.quantization.recipe is None or PIPELINE[-1] not in passes:
        return made
    return kept_small(made, options, lambda changed: _lowered(model, changed, passes))


def _lowered(model: Model, options: LoweringOptions, passes: tuple[PipelineStep, ...]) -> Model:
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
        default_rules().extended(options.pipeline.rules),
        report,
        options.forms,
        options.pipeline,
        target_named(options.forms.target),
        on_stage=options.pipeline.on_stage,
        variables=model.imported.variable_names if model.imported else (),
        recipe=recipe,
        halves=halves,
        whiles=None if recipe is None else _whiles(model),
    )
    before, after = around_quantization(passes)
    dump_dir = None if options.pipeline.dump_dir is None else Path(options.pipeline.dump_dir)
    program = run_pipeline(source, ctx, before, dump_dir=dump_dir)
    if options.forms.strict:
        all_fused(ctx)
    unquantized = None
    if ctx.recipe is not None:
        apart = replace(ctx, recipe=None, report=Report(), on_stage=_silent)
        trained = has_trained_steps(model.program)  # which the passes before have taken for what they stand for
        floats = run_pipeline(source, apart, passes) if trained else run_pipeline(program, apart, after)
        unquantized = Model(floats, model.imported, limits=model.limits)
    attempt = partial(_attempt, program, ctx, _LastPasses(after), options.quantization, seen)
    dumped = _LastPasses(after, dump_dir, len(before))
    made = _attempt(program, ctx, dumped, options.quantization, seen, ctx.recipe, None)
    if ctx.recipe is not None and unquantized is not None and seen and options.quantization.measured:
        from jfuse.verification.quantization_noise.optional_steps import with_steps_that_help

        started = time.perf_counter()
        made = with_steps_that_help(made, ctx.recipe, unquantized.program, options.quantization.calibration, attempt)
        seconds = made.report.seconds
        seconds["quantize"] = seconds.get("quantize", 0.0) + time.perf_counter() - started
    program, report = made.program, made.report
    if ctx.target.name != Forms.target:
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
    on_stage = _silent if seen else ctx.on_stage  # the first attempt reports the stages
    on_calls = CountedStage.of(on_stage, "calibrate", "calls")
    calibrated = (
        _calibration(options, seen, on_calls)
        if data is None
        else _calibration(replace(options, calibration=data, known=None), [], on_calls)
    )
    apart = replace(ctx, recipe=recipe, calibrate=calibrated, report=ctx.report.noting(), on_stage=on_stage)
    changed = run_pipeline(program, apart, passes.steps, dump_dir=passes.dump_dir, dumped=passes.dumped)
    return Attempt(changed, apart.report)


def _silent(stage: str) -> None:
    """Report no stage."""


def _calibration(
    options: QuantizationOptions, seen: list[Statistics], on_calls: Callable[[int, int], None]
) -> Calibrate | None:
    """Function that finds ranges; None without data.   seen: receives its statistics"""
    data = options.calibration
    if data is None:
        return None
    from jfuse.quantization.calibrate import calibrate

    def found(
        program: Program,
        observed: Sequence[Observed],
        histograms: Sequence[Observed],
        moments: Mapping[Observed, Moments],
    ) -> Statistics:
        earlier = (*seen, *([] if options.known is None else [options.known]))
        whole = next(filter(None, (k.where_whole(program, observed, histograms, moments) for k in earlier)), None)
        seen.append(
            whole or calibrate(program, observed, data, histograms=histograms, moments=moments, on_calls=on_calls)
        )
        return seen[-1]

    return found


def operator_counts(graphs: Iterable[Graph]) -> dict[str, int]:
    """How many operators of each kind the files' subgraphs hold, most frequent first."""
    counts = Counter(eqn.op.name for graph in graphs for eqn in all_eqns(graph))
    return dict(counts.most_common())
