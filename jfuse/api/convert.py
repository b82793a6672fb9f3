"""`jfuse.convert`: load, lower and verify in one."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jfuse.api.load import load_selected
from jfuse.api.lower import lowered, quantization_options
from jfuse.api.quantized_sizes import source_bytes
from jfuse.api.sides import with_installed, with_source_in_f32
from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS
from jfuse.base.option_values import path_of, several
from jfuse.frontends.selection import Selection
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.context import OnStage
from jfuse.passes.options import (
    CustomOptions,
    Loop,
    LoweringOptions,
    Machine,
    Padding,
    Precision,
    Preference,
    RecurrenceOptions,
    Requirement,
    State,
    TfOpOptions,
    mode_of,
)
from jfuse.passes.own import Pass
from jfuse.passes.pipeline import changes_results, with_own
from jfuse.quantization.data import CalibrationData
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.recipe_names import RecipeName
from jfuse.tflite.model_metadata import Metadata, metadata_of
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.names import TargetName
from jfuse.verification.allocation import need_allocation
from jfuse.verification.inputs.user_inputs import need_inputs
from jfuse.verification.latency import latency_of
from jfuse.verification.noise import noise_of, unmeasured
from jfuse.verification.options import FindingOptions, SamplingOptions, VerifyOptions
from jfuse.verification.plan import leaks_infinities, passes_infinities_on
from jfuse.verification.sides import Sides
from jfuse.verification.verify import verify_sides


@only_jfuse_errors("conversion")
def convert(
    source: Any,
    specs: Any = None,
    *,
    params: Any = None,
    mutable: Sequence[str] | bool | None = None,
    dynamic_shapes: Any = None,
    signatures: Sequence[str] | None = None,
    input_signature: Sequence[Any] | None = None,
    input_tensors: Sequence[str] | None = None,
    output_tensors: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int | None]] | None = None,
    batch: int | None = None,
    rules: Iterable[Rule] = (),
    passes: Sequence[Pass | Callable[..., Any]] = (),
    recover: bool = RecurrenceOptions.recover,
    state: State = RecurrenceOptions.state,
    padding: Padding | None = RecurrenceOptions.padding,
    loop: Loop = RecurrenceOptions.loop,
    prefer: Preference = RecurrenceOptions.prefer,
    machine: Machine = RecurrenceOptions.machine,
    require: Requirement | None = RecurrenceOptions.require,
    target: TargetName | Sequence[TargetName] = LoweringOptions.target,
    precision: Precision = LoweringOptions.precision,
    strict: bool = LoweringOptions.strict,
    select_tf_ops: bool = TfOpOptions.select_tf_ops,
    custom_ops: Mapping[str, CustomOptions] | None = None,
    verify: bool = True,
    samples: Any = None,
    tolerance: float | Mapping[str, float] | None = None,
    equations: bool = False,
    unsafe: bool = False,
    dump_dir: str | Path | None = None,
    quantize: Recipe | RecipeName | Path | None = None,
    calibration: CalibrationData = None,
    metadata: Metadata | Mapping[str, Any] | str | Path | None = None,
    on_stage: OnStage = lambda stage: None,
) -> Model:
    """`load`, `lower` and `verify` in one; `result.save(path)` writes the file, `result.report` describes it.

    `result.verification` has the comparison. If outputs differ, VerifyFailed has it, and the `report` so far.

    Arguments as for `load` and `lower`; `verify=False` skips the comparison with TensorFlow and LiteRT (fusions are
    still proven or tested).
    samples: inputs of your own to compare on instead of drawn ones, as `verify` takes `inputs`.
    tolerance, equations: as in `verify`.
    quantize, calibration: as in `lower`. The model before quantization is compared with TensorFlow;
        `report.noise` has the SNR of the quantized file against it, in LiteRT on the calibration data (else on drawn
        inputs).
    strict: as in `lower`; a recipe that makes nothing smaller is an error, too, else a warning in `report.warnings`.
    metadata: of the file, as for `Model.with_metadata`.
    """
    if samples is not None and not verify:
        raise JfuseError("samples= needs verify=True", found="verify=False", remedy="one of the two")
    need_inputs("samples=", samples)
    steps = with_own(passes)
    about = None if metadata is None else metadata_of(metadata)
    selection = Selection(
        signatures,
        input_signature,
        input_tensors,
        output_tensors,
        shapes,
        batch,
        specs,
        params,
        dynamic_shapes,
        mutable,
    )
    options = LoweringOptions(
        several("rules=", rules, "rules"),
        RecurrenceOptions(recover, mode_of(state), padding, loop, prefer, machine, require=require),
        TfOpOptions(select_tf_ops, {} if custom_ops is None else custom_ops),
        replace(quantization_options(quantize, calibration), source_bytes=source_bytes(source)),
        target=target,
        strict=strict,
        dump_dir=None if dump_dir is None else path_of("dump_dir=", dump_dir),
        precision=precision,
    )
    started = time.perf_counter()
    on_stage("import")
    given = tuple(options.tf_ops.custom_ops)
    model = load_selected(source, selection, rules=options.rules, custom_ops=given, unsafe=unsafe).keeping(state)
    imported = time.perf_counter() - started
    lite = lowered(model, options, steps, on_stage)
    lite.report.seconds = {"import": imported, **lite.report.seconds}
    if about is not None:
        lite = lite.with_metadata(about)
    on_stage("export")
    started = time.perf_counter()
    lite.report.size_bytes = lite.size_bytes
    lite.report.seconds["export"] = time.perf_counter() - started
    if verify:
        on_stage("verify")
        sampling, finding = SamplingOptions(inputs=samples, edges="none"), FindingOptions(shrink=0, equations=equations)
        compared = VerifyOptions(sampling, finding, tolerance)
        reference = Model(lite.program) if changes_results(steps) else model
        _compare(lite, reference, target_named(target).runtimes, compared, options.quantization.calibration)
    elif target_named(target).in_interpreter:
        lite.report.notes += need_allocation(lite.program, lite.to_bytes(), lite.limits or DEFAULT_LIMITS)
    return lite


def _compare(
    lite: Model, source: Model, runtimes: Sequence[str], options: VerifyOptions, data: CalibrationData
) -> None:
    """Add the verification to the model and to its report.   runtimes: further ones

    Of a quantized model the float one is compared, and the quantized one with that, on the data of its calibration.
    """
    started = time.perf_counter()
    is_passed_on = passes_infinities_on(source.program) and not leaks_infinities(lite.program, runtimes)
    if options.sampling.inputs is None and is_passed_on:
        options = replace(options, sampling=replace(options.sampling, edges="infinite"))
    sides, notes = with_installed(Sides.of_model(lite.unquantized or lite, source), runtimes)
    sides = with_source_in_f32(sides)
    try:
        verification = verify_sides(sides, options)
    except VerifyFailed as failed:
        failed.report = lite.report
        raise
    lite.verification = verification
    lite.report.compared(verification.differences, [*verification.notes, *notes])
    if lite.unquantized is not None:
        lite.report.noise = noise_of(lite, lite.unquantized, data)
        lite.report.notes += unmeasured(lite.program)
        lite.report.latency = latency_of(lite, lite.unquantized)
    lite.report.seconds["verify"] = time.perf_counter() - started
