"""What the command line says of a conversion."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from jfuse.cli.spelling import as_options
from jfuse.report import Fusion, Report

Rows = list[tuple[str, str]]


def summary(report: Report, file: Path, elapsed_s: float, seconds: Mapping[str, float] | None = None) -> Rows:
    """What fused, what was refused and why, operators, the largest error, size and time: labels and texts.

    elapsed_s: since the process began. seconds: of its steps; by default those of the conversion.
    """
    rows = [("fused", _fusion(fusion)) for fusion in report.fused]
    rows += [
        ("not fused", "\n".join(filter(None, (f"{r.what} at {r.source}" if r.source else r.what, r.reason))))
        for r in report.refused
    ]
    rows += [
        ("written", f"{file} ({report.size_bytes:,} bytes)"),
        ("operators", ", ".join(f"{count} {name}" for name, count in report.operators.items())),
        ("largest error", _largest_error(report)),
        ("time", _times(report.seconds if seconds is None else seconds, elapsed_s)),
    ]
    rows += [("note", line) for line in told(report)]
    return [(label, as_options(text)) for label, text in rows]


def told(report: Report) -> Iterator[str]:
    """What was assumed, what is kept between calls, what became of loops, and what else is worth a line."""
    yield from (f"assumed: {a}" for a in report.assumptions)
    yield from (f"kept: {k}" for k in report.kept)
    yield from (f"custom operators: {c}" for c in report.custom)
    yield from (f"quantized: {q}" for q in report.quantized)
    yield from (f"noise: {n}" for n in report.noise)
    yield from (f"loop at {loop.source}: {loop}" if loop.source else f"loop: {loop}" for loop in report.loops)
    yield from (f"tuned: {t}" for t in report.tuned)
    yield from report.notes


def _fusion(fusion: Fusion) -> str:
    proof = f"proven with {fusion.samples} samples, largest error {fusion.error:.1e}"
    if fusion.unproven:
        proof = f"not proven: {fusion.unproven}"
    lines = [f"{fusion.composite} at {fusion.source}", f"into {', '.join(fusion.becomes)}; {proof}"]
    return "\n".join(lines if fusion.speed is None else [*lines, str(fusion.speed)])


def _largest_error(report: Report) -> str:
    if not report.differences:
        return "not compared"
    worst = max(report.differences, key=lambda d: d.error)
    return f"{worst.error:.1e} of at most {worst.tolerance:.0e} ({worst.pair}, {worst.output})"


def _times(seconds: Mapping[str, float], elapsed_s: float) -> str:
    """The time that has passed, and the steps that took most of it; what no step counts is the start of Python."""
    steps = {**seconds, "start-up": max(0.0, elapsed_s - sum(seconds.values()))}
    ranked = sorted(steps.items(), key=lambda item: -item[1])[:4]
    return f"{elapsed_s:.1f} s ({', '.join(f'{name} {s:.1f}' for name, s in ranked)})"
