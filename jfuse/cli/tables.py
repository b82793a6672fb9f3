"""The summary of a conversion, as tables."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Column, Table

from jfuse.errors import printable
from jfuse.report import Report


def print_summary(console: Console, report: Report, file: Path) -> None:
    """What fused, what was refused and why, operators, the largest error, size and time."""
    if report.fused:
        console.print(_fusions(report))
    if report.refused:
        console.print(_refusals(report))
    table = Table(show_header=False, title="file", title_justify="left")
    table.add_row("written", _plain(str(file)))
    table.add_row("size", f"{report.size_bytes:,} bytes")
    table.add_row("operators", ", ".join(f"{count} {name}" for name, count in report.operators.items()))
    table.add_row("largest error", _largest_error(report))
    table.add_row("time", f"{sum(report.seconds.values()):.1f} s ({_slowest(report)})")
    for line in told(report):
        table.add_row("note", _plain(line))
    console.print(table)


def told(report: Report) -> list[str]:
    """What was assumed, what is kept between calls, what became of loops, and what else is worth a line."""
    loops = (f"loop at {loop.source}: {loop}" if loop.source else f"loop: {loop}" for loop in report.loops)
    custom = (f"custom operators: {c}" for c in report.custom)
    facts = (*(f"assumed: {a}" for a in report.assumptions), *(f"kept: {k}" for k in report.kept), *custom)
    return [*facts, *loops, *report.notes]


def _fusions(report: Report) -> Table:
    table = _titled("fusions", "fused", "into", "where", "proof")
    for fusion in report.fused:
        proof = f"{fusion.samples} samples, largest error {fusion.error:.1e}"
        table.add_row(*map(_plain, (fusion.composite, ", ".join(fusion.becomes), fusion.source)), proof)
    return table


def _refusals(report: Report) -> Table:
    table = _titled("refusals", "not fused", "because", "where")
    for refusal in report.refused:
        table.add_row(*map(_plain, (refusal.what, refusal.reason, refusal.source)))
    return table


def _titled(title: str, *headers: str) -> Table:
    """A table whose cells wrap: op names and node paths are longer than a terminal likes."""
    return Table(*(Column(h, overflow="fold") for h in headers), title=title, title_justify="left")


def _largest_error(report: Report) -> str:
    if not report.differences:
        return "not compared"
    worst = max(report.differences, key=lambda d: d.error)
    return f"{worst.error:.1e} of at most {worst.tolerance:.0e} ({worst.pair}, {worst.output})"


def _slowest(report: Report) -> str:
    ranked = sorted(report.seconds.items(), key=lambda item: -item[1])[:3]
    return ", ".join(f"{name} {seconds:.1f}" for name, seconds in ranked)


def _plain(text: str) -> str:
    """Text of a model: neither the terminal nor the table obeys what stands in it."""
    return escape(printable(text))
