"""`jfuse bench` and `jfuse diff`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jfuse.api.diff import diff as compared
from jfuse.benchmark.comparison import bench as measured
from jfuse.benchmark.page import write_benchmark_page
from jfuse.benchmark.picture import need_matplotlib, write_benchmark_picture
from jfuse.benchmark.result import HEADER, Benchmark, cells_of, write_benchmark
from jfuse.cli import interrupts
from jfuse.cli.console import progress, show, show_columns
from jfuse.cli.spelling import as_options
from jfuse.reports.as_json import write_data


def bench(models: Sequence[Path], json: Path | None, html: Path | None, png: Path | None, **arguments: Any) -> None:
    """Measure each model, print its table, and write the reports."""
    if png is not None:
        need_matplotlib()
    results: list[Benchmark] = []
    for model in models:
        with progress() as on_stage:
            results.append(measured(model, on_stage=on_stage, **arguments))
        _print(results[-1])
    interrupts.need_none()
    if json is not None:
        write_benchmark(results, json)
    if html is not None:
        write_benchmark_page(results, html)
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
