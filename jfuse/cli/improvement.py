"""`jfuse optimize` and `jfuse tune`: files made better by measurement."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from jfuse.api.optimize import optimize as optimized
from jfuse.api.tune import tune as tuned
from jfuse.cli import interrupts
from jfuse.cli.clock import elapsed_s
from jfuse.cli.console import progress, show_rows
from jfuse.cli.tables import summary
from jfuse.passes.options import Pipeline
from jfuse.reports.as_json import write_report


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
