"""A verification, and the conversion before it, as JSON: docs/reports.md says what each field means."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from jfuse.base.json_form import JsonFormat, write_data
from jfuse.records.conversion import Report
from jfuse.records.verification import Verification

FORMAT = JsonFormat("jfuse.verification", 1, Verification, {"conversion": Report | None})


def to_json(verification: Verification, report: Report | None = None) -> dict[str, Any]:
    """The content of `write_json` as dicts, lists, texts, numbers, bools and None.

    report: of the conversion that made the compared file, if there was one.
    """
    return FORMAT.content(verification, conversion=report)


def write_json(verification: Verification, path: str | os.PathLike[str], report: Report | None = None) -> Path:
    """Write the verification as JSON: whole or not at all. Raises JfuseError where that cannot be written."""
    return write_data(to_json(verification, report), path)


def write_report(report: Report, path: str | os.PathLike[str] | None, subject: str, reference: object) -> None:
    """Write the report of a conversion in the same form; nothing without a path.

    subject, reference: the file that was made, and the source.
    """
    if path is not None:
        verification = Verification(subject, str(reference), list(report.differences), seconds=dict(report.seconds))
        write_json(verification, path, report)
