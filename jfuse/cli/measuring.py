"""`jfuse bench`, `jfuse check` and `jfuse diff`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jfuse
from jfuse.api.diff import diff as compared
from jfuse.base.json_form import JsonFormat, write_data
from jfuse.benchmark.comparison import bench as measured
from jfuse.benchmark.page import write_benchmark_page
from jfuse.benchmark.picture import need_matplotlib, write_benchmark_picture
from jfuse.benchmark.result import HEADER, Benchmark, cells_of, write_benchmark
from jfuse.cli import interrupts
from jfuse.cli.console import progress, show, show_columns
from jfuse.cli.options import Reports
from jfuse.cli.spelling import as_options
from jfuse.reports.target_check import RuntimesCheck, TargetCheck

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
