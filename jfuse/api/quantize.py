"""`quantize`: a model in fewer bits; `quantize_report`: where a quantized file loses precision."""

from __future__ import annotations

import time
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jfuse.api.load import load, load_selected
from jfuse.api.lower import lower, lowered
from jfuse.api.quantized_sizes import source_bytes
from jfuse.base.errors import JfuseError
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS
from jfuse.base.options import given
from jfuse.frontends.selection import Inputs
from jfuse.model import Model
from jfuse.passes.options import Forms, LoweringOptions, Pipeline, QuantizationOptions
from jfuse.passes.pipeline import PipelineStep, with_own
from jfuse.quantization.data import RANDOM, CalibrationData, repeatable
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.recipe_json import recipe_of
from jfuse.quantization.recipe_names import RecipeName
from jfuse.quantization.statistics import Statistics
from jfuse.running.loaded_file import asked
from jfuse.running.programs.device import Device
from jfuse.tflite.associated_files import with_files_of
from jfuse.tflite.mapped_file import read_file
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.names import TargetName
from jfuse.verification.allocation import need_allocation
from jfuse.verification.latency import latency_of
from jfuse.verification.quantization_noise.measured import measured
from jfuse.verification.quantization_noise.of_file import noise_of, unmeasured
from jfuse.verification.quantization_noise.pairs import computes_with_integers
from jfuse.verification.quantization_noise.reached import reaching
from jfuse.verification.quantization_noise.report import QuantizeReport
from jfuse.verification.quantization_noise.search import Goal


@only_jfuse_errors("quantization")
def quantize(
    source: Any,
    recipe: Recipe | RecipeName | Path,
    calibration: CalibrationData = None,
    *,
    target: Mapping[str, Any] | TargetName | Sequence[TargetName] | None = None,
    forms: Forms | None = None,
    pipeline: Pipeline | None = None,
    verify: bool = True,
    device: str | None = None,
    inputs: Inputs | Any = None,
    batch: int | None = None,
    unsafe: bool = False,
) -> Model:
    """A model in the numbers that a recipe asks for; `result.unquantized` is the same in floats.

    source: a Model, as `load` or `lower` gave it, the path of a float .tflite file, or anything else that `load` takes.
    recipe, calibration: as `lower` has `quantize` and `calibration`. inputs, batch, unsafe: as in `load`.
    target: how good the file has to be, as {"snr_db": 30}, of its worst output in LiteRT against the float model's, or
        {"accuracy_drop": 0.005, "metric": function}: the function takes all outputs by name, calls along a new first
        axis, and gives a number that may be less by so much than for the float model's. The operators are left float
        that are needed for it, as few as possible; `report.notes` says which and why. It takes a model of one signature
        without states, and the first 32 items of the calibration data, but all of them for a function, which may so
        compare them with labels; they are kept in memory. Or the name of a runtime or several, as `lower` has
        it: the file is written for them.
    forms, pipeline: as in `lower`. By default the loops of a .tflite file stay in the form that they have. A recipe
        that makes nothing smaller is a warning of the report, with `strict` of `jfuse.Forms` an error.
    verify: measure in LiteRT how far the outputs are from the float model's; `report.noise` has it in decibels.
    device: a command that starts a Python with ai-edge-litert elsewhere, as `jfuse.Verify` has it: the noise is
        measured there as well.

    Raises VerifyFailed if the file has lost the model's outputs, JfuseError if the target is not reached.
    """
    goal = None if target is None or isinstance(target, Sequence) else Goal.of(target)
    there = None if device is None else Device(device)
    about = None if there is None else asked(there)  # before anything slow
    named = recipe_of(recipe)  # refuses None, which `lower` takes for no recipe
    own = given(Pipeline, "pipeline", pipeline)
    form = given(Forms, "forms", forms, target=target if isinstance(target, Sequence) else None)
    own.on_stage("import")
    if isinstance(source, Model) and (inputs is not None or batch is not None):
        raise JfuseError("inputs= and batch= apply to sources", remedy="jfuse.load(source, inputs=…, batch=…)")
    chosen = Inputs.of(inputs, batch=batch, unsafe=unsafe or None)
    model = (source if isinstance(source, Model) else load_selected(source, chosen, own)).keeping(form.state)
    data = repeatable(calibration)
    options = LoweringOptions(form, own, QuantizationOptions(named, data, source_bytes=source_bytes(source)))
    steps = with_own(own.passes)
    lite = lowered(model, options, steps)
    if goal is not None:
        own.on_stage("search")
        statistics = lite.statistics
        lite = reaching(goal, lite, named, data, lambda *how: _again(model, options, steps, statistics, *how))
    own.on_stage("export")
    if isinstance(source, str | Path) and Path(source).suffix == ".tflite" and zipfile.is_zipfile(source):
        carried = with_files_of(bytes(read_file(Path(source))[0]), lite.to_bytes(), Path(source))
        lite = lite.with_bytes(carried, lite.report)
    lite.report.size_bytes = lite.size_bytes
    if verify and lite.unquantized is not None:
        own.on_stage("verify")
        started = time.perf_counter()
        lite.report.noise = noise_of(lite, lite.unquantized, data, there)
        lite.report.notes += [] if about is None else [f"the noise was also measured on {about}"]
        lite.report.notes += unmeasured(lite.program)
        lite.report.latency = latency_of(lite, lite.unquantized)
        lite.report.seconds["verify"] = time.perf_counter() - started
    elif target_named(form.target).in_interpreter:
        lite.report.notes += need_allocation(lite.program, lite.to_bytes(), lite.limits or DEFAULT_LIMITS)
    return lite


def _again(
    model: Model,
    options: LoweringOptions,
    steps: tuple[PipelineStep, ...],
    known: Statistics | None,
    recipe: Recipe,
    measured: bool,
) -> Model:
    """Lower the model again with another recipe.   known: statistics that were already collected"""
    changed = replace(options.quantization, recipe=recipe, known=known, measured=measured)
    quiet = replace(options.pipeline, on_stage=Pipeline.on_stage)
    lenient = replace(options.forms, strict=False)
    return lowered(model, LoweringOptions(lenient, quiet, changed), steps)


@only_jfuse_errors("the quantization report")
def quantize_report(
    model: Any, against: Any = None, data: CalibrationData = RANDOM, *, unsafe: bool = False
) -> QuantizeReport:
    """Rank the equations of a quantized model by the noise that they add, with names and the noise of their values.

    model: a quantized Model, or the path of any .tflite file: in int8, int16, with integer
        weights beside floats, or in f16.
    against: the same in floats: a .tflite file, a Model, or anything that `jfuse.load` takes, which is lowered first.
        By default `model.unquantized`. Values are matched by operands, names and positions; `unmatched` of the
        result lists the others.
    data: real inputs, as `calibration` of `jfuse.quantize`; by default drawn ones. unsafe: as `jfuse.load` has it.

    All is computed on XLA, both models and every equation by itself as one program over many samples; operators for
    whose types there is no integer body run in LiteRT. Raises JfuseError where the two take other inputs.
    """
    quantized = model if isinstance(model, Model) else load(model, unsafe=unsafe)
    floats = quantized.unquantized if against is None else against
    if floats is None:
        raise JfuseError("a quantized file alone has no reference", remedy="against=, the model in floats")
    is_lowered = against is None or (isinstance(against, str | Path) and Path(against).suffix == ".tflite")
    reference = floats if isinstance(floats, Model) else load(floats, unsafe=unsafe)
    reference = reference if is_lowered else lower(reference)
    if any(map(computes_with_integers, reference.program.graphs())):
        raise JfuseError(
            "the model to compare against computes with integers",
            expected="the quantized model first, then the same model in floats",
        )
    report = measured(quantized.program, reference.program, data)
    report.subject, report.reference = _text(model, "the quantized model"), _text(against, "the float model")
    return report


def _text(given: Any, otherwise: str) -> str:
    return str(given) if isinstance(given, str | Path) else otherwise
