"""`jfuse convert`, `jfuse inspect` and `jfuse explain`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import jfuse
from jfuse.api import quantize as api_quantize
from jfuse.api.load import load
from jfuse.api.lower import lowered
from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.base.json_form import write_data
from jfuse.cli import interrupts
from jfuse.cli.clock import elapsed_s
from jfuse.cli.console import progress, show, show_columns, show_rows
from jfuse.cli.options import Reports, one_of
from jfuse.cli.spelling import as_options
from jfuse.cli.tables import cost_columns, signature_columns, summary
from jfuse.frontends.selection import Inputs
from jfuse.model import Model
from jfuse.passes.options import CostOrder, CountedStage, Forms, LoweringOptions, Pipeline
from jfuse.passes.pipeline import STAGES, passes_until
from jfuse.programs.cost import FORMAT, FileCost, cost_of, in_order
from jfuse.quantization.data import RANDOM, CalibrationData
from jfuse.quantization.npz import npz_arrays
from jfuse.quantization.statistics import is_earlier
from jfuse.records.conversion import Report
from jfuse.records.verification import Verification
from jfuse.reports.as_json import write_json, write_report
from jfuse.reports.explain import explain_lines
from jfuse.reports.noise import write_quantized_html
from jfuse.reports.page import write_html
from jfuse.tflite.model_metadata import Metadata, TensorMetadata, metadata_of
from jfuse.verification.options import Verify


@dataclass(frozen=True)
class About:
    """Metadata for the file.   labels: files by output, "" for the only output"""

    metadata: Metadata | None = None
    labels: Mapping[str, Path] = field(default_factory=dict)

    @classmethod
    def of(cls, metadata: Path | None, labels: Mapping[str, Path]) -> About:
        """Read metadata from a .json file. Raises JfuseError if that fails."""
        return cls(None if metadata is None else metadata_of(metadata), labels)

    def given_to(self, result: Model) -> Model:
        """The model with this metadata."""
        if self.metadata is None and not self.labels:
            return result
        known = self.metadata or Metadata()
        outputs = dict(known.outputs)
        for name, path in self.labels.items():
            of = name or _only_output(result)
            outputs[of] = replace(outputs.get(of, TensorMetadata()), labels=path)
        return result.with_metadata(replace(known, outputs=outputs))


def _only_output(result: Model) -> str:
    names = list(dict.fromkeys(n for s in result.signatures.values() for n in s.output_names))
    if len(names) != 1:
        raise JfuseError("labels are of one output", expected=f"--labels OUTPUT=FILE, of {', '.join(names)}")
    return names[0]


def convert(
    source: Path,
    output: Path,
    reports: Reports,
    about: About,
    compare: Verify | None,
    c_array: Path | None,
    *,
    pipeline: Pipeline,
    **arguments: Any,
) -> None:
    """Write the file and the reports, and print what was done.   compare: None for no comparison"""
    equations = reports.html is not None and arguments.get("quantize") is None
    verify = False if compare is None else replace(compare, each_equation=equations)
    with progress() as on_stage:
        try:
            own = replace(pipeline, on_stage=on_stage)
            result = jfuse.convert(source, verify=verify, pipeline=own, **arguments)
        except VerifyFailed as failed:
            if failed.verification is not None:
                _write_reports(source, output, reports, failed.verification, failed.report)
            raise
        interrupts.need_none()
        _write_reports(
            source, output, reports, result.verification, result.report, result, arguments.get("calibration")
        )
        interrupts.need_none()
        result = about.given_to(result)
        result.save(output)
        if c_array is not None:
            result.save_c_array(c_array)
    show_rows(summary(result.report, output, elapsed_s()))


def without_labels(calibration: str | None, key: str | None) -> CalibrationData:
    """The data of an .npz file without the array that holds its labels."""
    if calibration is None or key is None:
        return calibration
    arrays = npz_arrays(calibration)
    if key not in arrays:
        raise JfuseError(f"{calibration} has no array {key!r}", expected=", ".join(arrays), remedy="--labels-key")
    return {name: array for name, array in arrays.items() if name != key}


def quantize(
    source: Path,
    output: Path,
    json: Path | None,
    recipe: Any,
    calibration: CalibrationData,
    pipeline: Pipeline,
    **arguments: Any,
) -> None:
    """Write the quantized file, and print a summary."""
    with progress() as on_stage:
        own = replace(pipeline, on_stage=on_stage)
        result = api_quantize.quantize(source, recipe, calibration, pipeline=own, **arguments)
        interrupts.need_none()
        result.save(output)
    write_report(result.report, json, output.name, source)
    # The loops of a file were written as loops: what they might have become is a matter of the conversion before.
    refused = [] if source.suffix == ".tflite" else result.report.refused
    show_rows(summary(replace(result.report, refused=refused), output, elapsed_s()))


@dataclass(frozen=True)
class CostTable:
    """A table of costs.

    by: "operator", "type" or "layer". sort: as `ProgramCost.sorted` has it. measure: also the time.
    """

    by: str = "type"
    sort: CostOrder = "macs"
    measure: bool = False
    json: Path | None = None

    def show(self, model: Model) -> None:
        """Print the costs of each signature, and write them as JSON."""
        with progress() as on_stage:
            counted = CountedStage.of(on_stage, "measure", "operators")
            data = model.to_bytes() if self.measure else None
            costs = [cost_of(model.signature(key), None, data, counted) for key in model.signatures]
        if self.json is not None:
            write_data(FORMAT.content(FileCost(tuple(costs))), self.json)
        for cost in costs:
            rows = {"operator": cost.operators, "type": cost.by_type(), "layer": cost.by_layer()}[self.by]
            show("")
            show(next(cost.lines()))
            show_columns(*cost_columns(in_order(rows, self.sort), self.by))


def inspect(source: Path, stage: str | None, table: CostTable | None, html: Path | None, inputs: Inputs) -> None:
    """Print the text form of a source, or tables of it; write the page where one is asked for.

    stage: the pass after which it is shown; as it was imported without.
    """
    one_of("stage", stage, (None, *STAGES))
    passes = None if stage is None else passes_until(stage)
    with progress() as on_stage:
        on_stage("import")
        model = load(source, inputs)
        before = None if passes is None else model.program
        options = LoweringOptions(pipeline=Pipeline(on_stage=on_stage))
        shown = model if passes is None else lowered(model, options, passes)
        if html is not None:
            write_html(before, shown.program, Verification(source.name, ""), html)
    if table is not None:
        show_columns(*signature_columns(shown.program))
        table.show(shown)
    else:
        show(str(shown))


def explain(source: Path, json: Path | None, inputs: Inputs, forms: Forms, pipeline: Pipeline) -> None:
    """Print the result for each recurrence, and the reason."""
    with progress() as on_stage:
        own = replace(pipeline, on_stage=on_stage)
        result = jfuse.convert(source, inputs, verify=False, forms=forms, pipeline=own)
    write_report(result.report, json, source.name, source)
    for line in explain_lines(result.report):
        show(as_options(line))


def _write_reports(
    source: Path,
    output: Path,
    reports: Reports,
    found: Verification | None,
    report: Report,
    result: Model | None = None,
    data: CalibrationData = None,
) -> None:
    """Write the requested reports.   result: None if outputs differ; the verification then has the graphs

    data: calibration data of a quantized result; its page is measured on them.
    """
    found = replace(found or Verification("", ""), subject=output.name, reference=str(source))
    if reports.json is not None:
        write_json(found, reports.json, report)
    if reports.html is not None and result is not None and result.unquantized is not None:
        noise = api_quantize.quantize_report(result, data=RANDOM if data is None or is_earlier(data) else data)
        write_quantized_html(result.imported_program, found, noise, reports.html, report)
    elif reports.html is not None:
        before, after = (found.before, found.after) if result is None else (result.imported_program, result.program)
        assert after is not None
        write_html(before, after, found, reports.html, report=report)
