"""Tables that the command line prints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from jfuse.cli.spelling import as_options
from jfuse.ir.graph import Program
from jfuse.programs.cost import OperatorCost
from jfuse.records.conversion import Report
from jfuse.reports.summary import Rows, fusions


def summary(report: Report, file: Path, elapsed_s: float, seconds: Mapping[str, float] | None = None) -> Rows:
    """Rows of labels and texts: fusions, refusals, operators, largest error, size and time.

    elapsed_s: since the command began. seconds: of its steps; by default those of the conversion.
    """
    rows = [
        *fusions(report),
        ("written", f"{file} ({report.size_bytes:,} bytes)"),
        ("operators", report.operators_text()),
        *report.errors(),
        ("time", _times(report.seconds if seconds is None else seconds, elapsed_s)),
    ]
    rows += report.told_rows()
    return [(label, as_options(text)) for label, text in rows]


Columns: TypeAlias = tuple[tuple[str, ...], list[tuple[str, ...]]]
"""The names of columns, and their rows."""


def signature_columns(program: Program) -> Columns:
    """Columns of inputs, outputs and states of each signature: key, name, type."""
    rows: list[tuple[str, ...]] = []
    for of in program.signatures:
        outputs = zip(of.output_names, of.graph.outputs, strict=False)
        taken = zip(of.input_names, of.graph.inputs, strict=False)
        rows += [(of.key, "input", name, str(var.type)) for name, var in taken]
        rows += [(of.key, "output", name, str(atom.type)) for name, atom in outputs]
        rows += [(of.key, "state", state.name, str(state.initial.type)) for state in of.states]
    return ("signature", "", "name", "type"), rows


def cost_columns(costs: Sequence[OperatorCost], by: str) -> Columns:
    """Columns of costs, by operator or summed by type or layer.   by: operator, type or layer"""
    measured = any(row.us is not None for row in costs)
    rows = [
        (
            row.layer if by == "layer" else row.op,
            *([row.name] if by == "operator" else [str(row.count)]),
            *_numbers(row, measured),
        )
        for row in costs
    ]
    names = ("layer" if by == "layer" else "operator", "name" if by == "operator" else "count")
    return (*names, "MACs", "bytes of constants", "bytes of results", *(["microseconds"] if measured else [])), rows


def _numbers(row: OperatorCost, measured: bool) -> tuple[str, ...]:
    time = [row.reason if row.us is None else f"{row.us:,.1f}"] if measured else []
    return f"{row.macs:,}", f"{row.weight_bytes:,}", f"{row.activation_bytes:,}", *time


def _times(seconds: Mapping[str, float], elapsed_s: float) -> str:
    """The elapsed time, and the longest steps; the rest is the start of Python."""
    steps = {**seconds, "start-up": max(0.0, elapsed_s - sum(seconds.values()))}
    ranked = sorted(steps.items(), key=lambda item: -item[1])[:4]
    return f"{elapsed_s:.1f} s ({', '.join(f'{name} {s:.1f}' for name, s in ranked)})"
