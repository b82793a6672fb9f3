"""The bar charts of a benchmark, which the page and the picture draw."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from jfuse.benchmark.result import Benchmark, BenchRow, label
from jfuse.reports.bars import Bar, BarChart, BarGroup


def charts(result: Benchmark) -> Iterator[BarChart]:
    """The plots of a model: latency, error, conversion time and memory, size."""
    rows = [row for row in result.rows if not row.error]
    latency = [
        BarGroup(
            row.name,
            tuple(
                Bar(label(threads), t.median_us, f"{t.median_us:.4g} us, p90 {t.p90_us:.4g}", t.p90_us)
                for threads, t in sorted(row.latency.items())
            ),
        )
        for row in rows
    ]
    yield from _chart("Latency of a call: median, and a mark at the 90th percentile", latency)
    errors = [(row, row.difference) for row in rows if row.difference is not None]
    yield from _chart(
        "Largest error of an output against the source, on a logarithmic scale",
        [BarGroup(row.name, (Bar("error", error, f"{error:.1e}"),)) for row, error in errors],
        logarithmic=True,
    )
    for title, unit, name, form in (
        ("Conversion", "s", "seconds", ".4g"),
        ("Peak memory of the conversion", "MiB", "peak_mib", ",.0f"),
        ("File size", "bytes", "size_bytes", ",.0f"),
    ):
        values = [(row, getattr(row, name)) for row in rows if getattr(row, name) is not None]
        yield from _chart(title, [BarGroup(row.name, (Bar(unit, v, f"{v:{form}} {unit}"),)) for row, v in values])


def _chart(title: str, groups: Sequence[BarGroup], *, logarithmic: bool = False) -> Iterator[BarChart]:
    filled = tuple(group for group in groups if group.bars)
    if filled:
        yield BarChart(title, filled, logarithmic)


def profile_chart(row: BenchRow) -> BarChart:
    """The operators of a file by kind, each timed alone; those that cannot run alone are left out."""
    sums: dict[str, float] = {}
    counts = Counter[str]()
    for timed in row.profile:
        if timed.us is not None:
            sums[timed.op] = sums.get(timed.op, 0.0) + timed.us
            counts[timed.op] += 1
    bars = tuple(
        BarGroup(f"{counts[op]} {op}", (Bar("us", us, f"{us:.4g} us"),))
        for op, us in sorted(sums.items(), key=lambda item: -item[1])
    )
    return BarChart(f"{row.name}: each operator alone, one thread", bars)
