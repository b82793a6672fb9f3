"""The report of `jfuse convert`: what was converted, what it became, and how far apart the two are."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import typer

import jfuse
from jfuse.errors import JfuseError, VerifyFailed
from jfuse.files import writable_target
from jfuse.model import Model
from jfuse.reports.as_json import write_json
from jfuse.reports.page import write_html
from jfuse.verification.result import Verification

Json = Annotated[Path | None, typer.Option("--json", help="A file for a report of the conversion, as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="A file for a report of the conversion, as a page.")]
Samples = Annotated[Path | None, typer.Option("--samples", help="A .npz file with inputs of your own to compare on.")]


def set_environment() -> None:
    """What TensorFlow is to start with, where the user has not set it. Before it is imported: it reads this once."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # its start-up chatter is not about the user's model
    # Its oneDNN kernels refuse softmax over more than 5 axes, and give other shapes for no rows: no good reference.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")


def check_targets(source: Path, output: Path, *reports: Path | None) -> None:
    """Raise BadParameter where a file cannot be written, or would take the source's place, before anything slow."""
    origin = source.resolve()
    for path in (output, *filter(None, reports)):
        try:
            target = writable_target(path)
        except JfuseError as error:
            raise typer.BadParameter(f"{path}: {error.found}") from error
        if target == origin or (origin.is_dir() and target.is_relative_to(origin)):
            raise typer.BadParameter(f"{path} is the source, or in its folder: it would be overwritten")


@dataclass(frozen=True)
class Compared:
    """What a conversion is compared on, and up to what: as `jfuse.convert` has it."""

    samples: Path | None = None
    tolerance: float | None = None


def write_reports(
    result: Model, source: Path, output: Path, json: Path | None, html: Path | None, compared: Compared | None
) -> None:
    """Compare the result with its source, along the graph for a page, and write what was asked for.

    compared: None tells of the conversion alone. Raises VerifyFailed, after writing, where the two differ.
    """
    found, failed = (Verification("", ""), None) if compared is None else _found(result, compared, html is not None)
    found = replace(found, subject=output.name, reference=str(source))
    if json is not None:
        write_json(found, json, result.report)
    if html is not None:
        before = None if result.imported is None else result.imported.program
        write_html(before, result.program, found, html, report=result.report)
    if failed is not None:
        raise failed


def _found(result: Model, compared: Compared, equations: bool) -> tuple[Verification, VerifyFailed | None]:
    """What `jfuse.convert` compares, and the error where outputs differ."""
    inputs, tolerance = compared.samples, compared.tolerance
    try:
        found = jfuse.verify(result, edges="none", shrink=0, equations=equations, inputs=inputs, tolerance=tolerance)
        return found, None
    except VerifyFailed as failed:
        if failed.verification is None:
            raise
        return failed.verification, failed
