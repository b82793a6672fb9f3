"""Measurements of one model: a row for each file and for XLA."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

from jfuse.base.json_form import JsonFormat, write_data
from jfuse.base.notebooks import NotebookView
from jfuse.programs.operator_times import OperatorTime

ALL_THREADS = 0
"""The number of threads of a runner that chooses it itself."""


@dataclass(frozen=True)
class Latency:
    """The time of one call in microseconds: the median and the 90th percentile."""

    median_us: float
    p90_us: float

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Latency:
        """The latency of these calls."""
        ranked = sorted(seconds)
        return cls(1e6 * median(ranked), 1e6 * ranked[(9 * (len(ranked) - 1) + 9) // 10])


@dataclass(frozen=True)
class BenchRow:
    """One file, or XLA. Missing measurements are None; `error` says why there is no file.

    seconds, peak_mib: of the conversion in a process of its own, and the most memory that this held meanwhile, the
    libraries included. latency: by the number of threads. difference: the largest max|a - b| / max|b| of an output from
    the source's, over several calls in a row.
    """

    name: str
    error: str = ""
    seconds: float | None = None
    peak_mib: float | None = None
    size_bytes: int | None = None
    operators: Mapping[str, int] = field(default_factory=dict)
    latency: Mapping[int, Latency] = field(default_factory=dict)
    difference: float | None = None
    notes: tuple[str, ...] = ()
    profile: tuple[OperatorTime, ...] = ()
    json_also: ClassVar = {"latency": "latency_by_text"}

    @property
    def latency_by_text(self) -> dict[str, Latency]:
        """The latency by the number of threads, or by `all`."""
        return {str(threads or "all"): latency for threads, latency in self.latency.items()}

    def noted(self, note: str) -> BenchRow:
        """The row with one more note."""
        return replace(self, notes=(*self.notes, note))


@dataclass(frozen=True)
class Benchmark(NotebookView):
    """All rows of one model, and where they were measured.   inputs: the type of each, by name"""

    model: str
    machine: str
    versions: Mapping[str, str]
    inputs: Mapping[str, str]
    rows: tuple[BenchRow, ...]

    def row(self, name: str) -> BenchRow:
        """The row of a name. Raises KeyError where there is none."""
        rows_by_name = {row.name: row for row in self.rows}
        return rows_by_name[name]

    def __str__(self) -> str:
        lines = [f"{self.model} on {self.machine}"]
        return "\n".join([*lines, *("  ".join(cells) for cells in (HEADER, *cells_of(self)))])


FORMAT = JsonFormat("jfuse.benchmark", 1, more={"models": list[Benchmark]})
HEADER = ("file", "seconds", "peak MiB", "bytes", "operators", "median us (p90)", "error")


def cells_of(result: Benchmark) -> list[tuple[str, ...]]:
    """The table's cells, a row for each of the rows."""
    return [_cells(row) for row in result.rows]


def _cells(row: BenchRow) -> tuple[str, ...]:
    if row.error:
        return (row.name, "", "", "", "", "", row.error)
    latency = ", ".join(
        f"{label(threads)}: {t.median_us:.4g} ({t.p90_us:.4g})" for threads, t in sorted(row.latency.items())
    )
    return (
        row.name,
        _text(row.seconds, ".2f"),
        _text(row.peak_mib, ".0f"),
        _text(row.size_bytes, ","),
        _text(sum(row.operators.values()) if row.operators else None, ","),
        latency,
        _text(row.difference, ".1e"),
    )


def label(threads: int) -> str:
    """How many threads, in words."""
    return "all threads" if threads == ALL_THREADS else f"{threads} thread{'s' if threads > 1 else ''}"


def _text(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def to_json(results: Sequence[Benchmark]) -> dict[str, Any]:
    """The results as dicts, lists, texts and numbers."""
    return FORMAT.content(models=results)


def write_benchmark(results: Sequence[Benchmark], path: str | os.PathLike[str]) -> Path:
    """Write the results as JSON: whole or not at all. Raises JfuseError where that cannot be written."""
    return write_data(to_json(results), path)
