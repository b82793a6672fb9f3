"""The report of `jfuse convert`: what was converted, what it became, and how far apart the two are."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import jfuse
from jfuse.errors import VerifyFailed
from jfuse.model import Model
from jfuse.reports.as_json import write_json
from jfuse.reports.page import write_html
from jfuse.verification.result import Verification

Json = Annotated[Path | None, typer.Option("--json", help="A file for a report of the conversion, as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="A file for a report of the conversion, as a page.")]


def write_reports(
    result: Model, source: Path, output: Path, json: Path | None, html: Path | None, *, verify: bool
) -> None:
    """Compare the result with its source, along the graph for a page, and write what was asked for.

    verify: False tells of the conversion alone. Raises VerifyFailed, after writing, where the two differ.
    """
    found, failed = _compared(result, equations=html is not None) if verify else (Verification("", ""), None)
    found = replace(found, subject=output.name, reference=str(source))
    if json is not None:
        write_json(found, json, result.report)
    if html is not None:
        before = None if result.imported is None else result.imported.program
        write_html(before, result.program, found, html, report=result.report)
    if failed is not None:
        raise failed


def _compared(result: Model, *, equations: bool) -> tuple[Verification, VerifyFailed | None]:
    """What `jfuse.convert` compares, and the error where outputs differ."""
    try:
        return jfuse.verify(result, edges="none", shrink=0, equations=equations), None
    except VerifyFailed as failed:
        if failed.verification is None:
            raise
        return failed.verification, failed
