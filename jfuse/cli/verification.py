"""`jfuse verify`: compares a model with a reference."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import jfuse
from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.cli.console import errors, show, show_columns
from jfuse.cli.options import Reports
from jfuse.cli.spelling import as_options
from jfuse.records.conversion import Difference
from jfuse.records.verification import Verification
from jfuse.reports.as_json import write_json
from jfuse.reports.page import write_html
from jfuse.verification.options import Verify
from jfuse.verification.verify import OnProgress

_HEADER = ("output", "compared", "error", "at most", "max|a-b|", "ulp", "cosine", "SNR dB", "calls")


def verify(model: str, against: str | None, options: Verify, reports: Reports, **arguments: Any) -> None:
    """Compare, print and write the result; raises VerifyFailed afterwards if outputs differ."""
    here = Path() if options.save_failing is None else options.save_failing
    options = replace(options, save_failing=here, each_equation=reports.html is not None)
    found, failed = _verified(model, against, options, **arguments)
    print_verification(found)
    _write_reports(found, reports)
    if failed is not None:
        raise failed


def print_verification(found: Verification) -> None:
    """Print a row for each output of each pair, then notes."""
    several = len({d.signature for d in found.differences}) > 1
    show(f"{found.subject} beside {found.reference or 'itself'}")
    show_columns(_HEADER, [_row(d, several) for d in found.differences])
    for reason in dict.fromkeys(f"{d.tolerance:.0e}: {d.reason}" for d in found.differences if d.reason):
        show(f"  {reason}")
    for note in found.notes:
        show(as_options(f"  note: {note}"))
    show(f"{found.samples} calls compared in {sum(found.seconds.values()):.1f} s ({found.backend})")


def _row(d: Difference, several: bool) -> tuple[str, ...]:
    m = d.measure
    units = (f"{m.absolute:.2e}", f"{m.ulp:g}", f"{m.cosine:.6f}", f"{m.snr:.1f}") if m else ("", "", "", "")
    name = f"{d.signature}: {d.output}" if several else d.output
    differs = "" if d.error <= d.tolerance else " differs"
    return name, d.pair, f"{d.error:.2e}{differs}", f"{d.tolerance:.0e}", *units, str(d.samples)


def _verified(model: str, *arguments: Any, **named: Any) -> tuple[Verification, VerifyFailed | None]:
    """Call `jfuse.verify`; return its result, and the error if outputs differ. Other errors pass."""
    with _progress() as on_progress:
        try:
            return jfuse.verify(model, *arguments, on_progress=on_progress, **named), None
        except VerifyFailed as failed:
            if failed.verification is None:
                raise
            return failed.verification, failed


@contextmanager
def _progress() -> Iterator[OnProgress]:
    """A line with how many calls were compared, on a terminal."""
    columns = TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    # Elsewhere than on a terminal it would still write an empty line.
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as shown:
        line = shown.add_task("comparing", total=None)
        yield lambda done, total: shown.update(line, completed=done, total=max(total, done) if total else None)


def _write_reports(found: Verification, reports: Reports) -> None:
    """Write the requested reports; a page needs a graph."""
    if reports.json is not None:
        write_json(found, reports.json)
    if reports.html is not None:
        if found.after is None:
            raise JfuseError("there is no graph to show", found=found.subject, remedy="--json")
        write_html(found.before, found.after, found, reports.html)
