"""`jfuse.convert`: load, lower and verify in one."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from jfuse.api.load import load_selected
from jfuse.api.lower import lowered, quantization_options
from jfuse.api.quantized_sizes import source_bytes
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.base.limits import DEFAULT_LIMITS
from jfuse.base.option_values import need_truth
from jfuse.base.options import given
from jfuse.frontends.selection import Inputs
from jfuse.lowering.rules import Rule
from jfuse.model import Model
from jfuse.passes.options import Forms, LoweringOptions, Pipeline, State
from jfuse.passes.pipeline import changes_results, with_own
from jfuse.quantization.data import CalibrationData
from jfuse.quantization.recipe import Recipe
from jfuse.quantization.recipe_names import RecipeName
from jfuse.running.loaded_file import start_early
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.names import TargetName
from jfuse.verification.allocation import need_allocation
from jfuse.verification.inputs.user_inputs import need_inputs
from jfuse.verification.options import Verify


@only_jfuse_errors("conversion")
def convert(
    source: Any,
    inputs: Inputs | Any = None,
    *,
    batch: int | None = None,
    target: TargetName | Sequence[TargetName] | None = None,
    state: State | None = None,
    forms: Forms | None = None,
    quantize: Recipe | RecipeName | Path | None = None,
    calibration: CalibrationData = None,
    verify: bool | Verify = True,
    rules: Iterable[Rule] | None = None,
    pipeline: Pipeline | None = None,
    unsafe: bool = False,
) -> Model:
    """`load`, `lower` and `verify` in one; `result.save(path)` writes the file, `result.report` describes it.

    `result.verification` has the comparison. If outputs differ, VerifyFailed has it, and the `report` so far.

    source, inputs, batch, unsafe: as for `load`; target, state, forms, rules, pipeline: as for `lower`.
    verify: a `jfuse.Verify` compares as it says; False skips the comparison with TensorFlow and LiteRT (fusions are
        still proven or tested).
    quantize, calibration: as in `lower`. The model before quantization is compared with TensorFlow;
        `report.noise` has the SNR of the quantized file against it, in LiteRT on the calibration data (else on drawn
        inputs). A recipe that makes nothing smaller is a warning, with `strict` of `jfuse.Forms` an error.
    """
    own = given(Pipeline, "pipeline", pipeline, rules=rules)
    asked = given(Forms, "forms", forms, target=target, state=state)
    chosen = Inputs.of(inputs, batch=batch, unsafe=unsafe or None)
    if not isinstance(verify, Verify):
        need_truth("verify=", verify)
    compared = verify if isinstance(verify, Verify) else Verify() if verify else None
    if compared is not None:
        need_inputs("inputs=", compared.inputs)
    steps = with_own(own.passes)
    quantization = replace(quantization_options(quantize, calibration), source_bytes=source_bytes(source))
    started = time.perf_counter()
    own.on_stage("import")
    if compared is not None or target_named(asked.target).in_interpreter:
        start_early()
    model = load_selected(source, chosen, own).keeping(asked.state)
    imported = time.perf_counter() - started
    lite = lowered(model, LoweringOptions(asked, own, quantization), steps)
    lite.report.seconds = {"import": imported, **lite.report.seconds}
    own.on_stage("export")
    started = time.perf_counter()
    lite.report.size_bytes = lite.size_bytes
    lite.report.seconds["export"] = time.perf_counter() - started
    if compared is not None:
        from jfuse.api.verify import compare_with_source

        reference = Model(lite.program) if changes_results(steps) else model
        further = target_named(asked.target).runtimes
        compare_with_source(lite, reference, further, compared, quantization.calibration, own.on_stage)
    elif target_named(asked.target).in_interpreter:
        lite.report.notes += need_allocation(lite.program, lite.to_bytes(), lite.limits or DEFAULT_LIMITS)
    return lite
