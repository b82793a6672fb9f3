"""What a conversion did, in lines: what fused with its proof, what did not and why, what was assumed and kept."""

from __future__ import annotations

from collections.abc import Iterator

from jfuse.report import Fusion, Report
from jfuse.reports.explain import remedy_of

Rows = list[tuple[str, str]]


def fusions(report: Report) -> Rows:
    """What fused and what was refused: labels and texts, which may have several lines."""
    rows = [("fused", _fusion(fusion)) for fusion in report.fused]
    return rows + [
        ("not fused", "\n".join(filter(None, (f"{r.what} at {r.source}" if r.source else r.what, r.reason, remedy))))
        for r, remedy in zip(report.refused, _remedies(report), strict=True)
    ]


def _remedies(report: Report) -> Iterator[str]:
    """What to do about each refusal, where the first of its condition stands."""
    told: set[str] = set()
    for refusal in report.refused:
        remedy = remedy_of(refusal.condition)
        yield f"try: {remedy}" if remedy and refusal.condition not in told else ""
        told.add(refusal.condition)


def operators(report: Report) -> str:
    """How many operators of each kind the file has."""
    return ", ".join(f"{count} {name}" for name, count in report.operators.items())


def largest_error(report: Report) -> str:
    """The largest error of all outputs, with its tolerance, and between whom."""
    if not report.differences:
        return "not compared"
    worst = max(report.differences, key=lambda d: d.error)
    return f"{worst.error:.1e} of at most {worst.tolerance:.0e} ({worst.pair}, {worst.output})"


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
