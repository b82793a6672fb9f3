"""What the command line says of a conversion."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jfuse.cli.spelling import as_options
from jfuse.report import Report
from jfuse.reports.summary import Rows, fusions, largest_error, operators, told


def summary(report: Report, file: Path, elapsed_s: float, seconds: Mapping[str, float] | None = None) -> Rows:
    """What fused, what was refused and why, operators, the largest error, size and time: labels and texts.

    elapsed_s: since the command began. seconds: of its steps; by default those of the conversion.
    """
    rows = [
        *fusions(report),
        ("written", f"{file} ({report.size_bytes:,} bytes)"),
        ("operators", operators(report)),
        ("largest error", largest_error(report)),
        ("time", _times(report.seconds if seconds is None else seconds, elapsed_s)),
    ]
    rows += [("note", line) for line in told(report)]
    return [(label, as_options(text)) for label, text in rows]


def _times(seconds: Mapping[str, float], elapsed_s: float) -> str:
    """The time that has passed, and the steps that took most of it; what no step counts is the start of Python."""
    steps = {**seconds, "start-up": max(0.0, elapsed_s - sum(seconds.values()))}
    ranked = sorted(steps.items(), key=lambda item: -item[1])[:4]
    return f"{elapsed_s:.1f} s ({', '.join(f'{name} {s:.1f}' for name, s in ranked)})"
