"""`jfuse bench`, `jfuse check` and `jfuse diff`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jfuse
from jfuse.api.diff import diff as compared
from jfuse.api.load import load
from jfuse.api.optimize import optimize as optimized
from jfuse.api.quantize import quantize_report
from jfuse.api.tune import tune as tuned
from jfuse.base.json_form import JsonFormat, write_data
from jfuse.benchmark.comparison import bench as measured
from jfuse.benchmark.page import write_benchmark_page
from jfuse.benchmark.picture import need_matplotlib, write_benchmark_picture
from jfuse.benchmark.result import HEADER, Benchmark, cells_of, write_benchmark
from jfuse.cli import interrupts
from jfuse.cli.clock import elapsed_s
from jfuse.cli.console import progress, show, show_columns, show_rows
from jfuse.cli.options import Reports
from jfuse.cli.spelling import as_options
from jfuse.cli.tables import summary
from jfuse.passes.options import Pipeline
from jfuse.reports.as_json import write_report
from jfuse.reports.noise import write_noise_explorer, write_noise_html
from jfuse.reports.target_check import RuntimesCheck, TargetCheck
from jfuse.verification.quantization_noise.report import Order

CHECK = JsonFormat("jfuse.check", 1, TargetCheck | RuntimesCheck)


def bench(models: Sequence[Path], reports: Reports, png: Path | None, **arguments: Any) -> None:
    """Measure each model, print its table, and write the reports."""
    if png is not None:
        need_matplotlib()
    results: list[Benchmark] = []
    for model in models:
        with progress() as on_stage:
            results.append(measured(model, on_stage=on_stage, **arguments))
        _print(results[-1])
    interrupts.need_none()
    if reports.json is not None:
        write_benchmark(results, reports.json)
    if reports.html is not None:
        write_benchmark_page(results, reports.html)
    if png is not None:
        write_benchmark_picture(results, png)


def _print(result: Benchmark) -> None:
    show(f"{result.model} on {result.machine}")
    show_columns(HEADER, cells_of(result))
    for row in result.rows:
        for note in row.notes:
            show(as_options(f"  {row.name}: {note}"))


def diff(a: Path, b: Path, json: Path | None, **arguments: Any) -> bool:
    """Print the differences of two models; return whether they are equal."""
    with progress() as on_stage:
        on_stage("import")
        found = compared(a, b, **arguments)
    for line in found.lines():
        show(line)
    if json is not None:
        write_data(found.to_json(), json)
    return found.equal


def check(model: Path, target: str | None, device: str | None, json: Path | None) -> bool:
    """Print the check, and say whether each target that is named, else any of all, and the device take the file."""
    found = jfuse.check(model, target, device=device)  # type: ignore[arg-type]  # a word: check refuses unknown targets
    details = [found] if target is None or isinstance(found, TargetCheck) else found.targets
    for line in (line for each in details for line in each.lines()):
        show(line)
    if json is not None:
        write_data(CHECK.content(found), json)
    takes_all = found.runs if isinstance(found, TargetCheck) or target is not None else bool(found.takes_it)
    if found.device is not None:
        for line in found.device.lines():
            show(line)
    return takes_all and (found.device is None or found.device.runs)


# `jfuse optimize` and `jfuse tune`: files made better by measurement.


def optimize(model: Path, output: Path, json: Path | None, **arguments: Any) -> None:
    """Write the better file, and print a summary."""
    with progress() as on_stage:
        result = optimized(model, pipeline=Pipeline(on_stage=on_stage), **arguments)
        interrupts.need_none()
        result.save(output)
    write_report(result.report, json, output.name, model)
    show_rows(summary(result.report, output, elapsed_s()))


def tune(source: Path, output: Path, json: Path | None, pipeline: Pipeline, **arguments: Any) -> None:
    """Write the file with the fastest forms, and print their times."""
    with progress() as on_stage:
        result = tuned(source, pipeline=replace(pipeline, on_stage=on_stage), **arguments)
        interrupts.need_none()
        result.save(output)
    write_report(result.report, json, output.name, source)
    show_rows(summary(result.report, output, elapsed_s()))


# `jfuse quantize-report`: where a quantized file loses precision.


@dataclass(frozen=True)
class NoiseFiles:
    """Where the report goes besides the terminal."""

    json: Path | None = None
    html: Path | None = None
    explorer: Path | None = None


def noise_report(file: Path, against: Path, data: str, out: NoiseFiles, by: Order, *, most: int, unsafe: bool) -> None:
    """Print the worst tensors, and write the report."""
    with progress() as on_stage:
        on_stage("measuring")
        model = load(file, unsafe=unsafe)
        found = quantize_report(model, against, data, unsafe=unsafe)
        found.subject = str(file)
    show(f"{found.subject} against {found.reference}, {found.calls} calls in {found.seconds:.1f} s ({found.backend})")
    show_columns(*found.table(most or None, by))
    for text in found.unmatched:
        show(f"  not compared: {text}")
    for text in found.notes:
        show(f"  note: {text}")
    if out.json is not None:
        found.write_json(out.json)
    if out.html is not None:
        write_noise_html(found, out.html)
    if out.explorer is not None:
        write_noise_explorer(found, model, out.explorer)
