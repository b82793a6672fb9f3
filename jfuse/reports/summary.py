"""Summarize fusions with their proofs, and refusals with reason and remedy."""

from __future__ import annotations

from collections.abc import Iterator

from jfuse.records.conversion import Report
from jfuse.records.remedies import remedy_of

Rows = list[tuple[str, str]]


def fusions(report: Report) -> Rows:
    """Rows of fusions and refusals: labels and texts, which may have several lines."""
    rows = [("fused", str(fusion)) for fusion in report.fused]
    return rows + [
        ("not fused", "\n".join(filter(None, (f"{r.what} at {r.source}" if r.source else r.what, r.reason, remedy))))
        for r, remedy in zip(report.refused, _remedies(report), strict=True)
    ]


def _remedies(report: Report) -> Iterator[str]:
    """Yield the remedy at the first refusal of each condition, "" at others."""
    explained: set[str] = set()
    for refusal in report.refused:
        remedy = remedy_of(refusal.condition)
        yield f"try: {remedy}" if remedy and refusal.condition not in explained else ""
        explained.add(refusal.condition)
