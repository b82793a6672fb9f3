"""The bar charts of benchmarks as one PNG, drawn by matplotlib."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError, printable
from jfuse.base.files import write_atomic
from jfuse.benchmark.charts import charts, profile_chart
from jfuse.benchmark.result import Benchmark
from jfuse.reports.bars import COLOURS, BarChart

_WIDTH, _HEAD, _BAR = 9.0, 0.75, 0.24  # inches: of the picture, of a title with its axis, of a bar with its gap
_DPI = 120


def need_matplotlib() -> None:
    """Raise JfuseError where matplotlib is not installed; called before anything is measured."""
    if find_spec("matplotlib") is None:
        raise JfuseError(
            "the picture is drawn by matplotlib, which is not installed",
            remedy='pip install "jfuse[bench]"; --html draws the same charts without it',
        )


def write_benchmark_picture(results: Sequence[Benchmark], path: str | os.PathLike[str]) -> Path:
    """Write the charts of all models, under one another: whole or not at all. Raises JfuseError where that fails."""
    need_matplotlib()
    write_atomic(path, benchmark_picture(results))
    return Path(path)


def benchmark_picture(results: Sequence[Benchmark]) -> bytes:
    """The PNG: for each model the charts that the page has, its operators' times too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    found = [(Path(result.model).name, chart) for result in results for chart in _all(result)]
    heights = [_HEAD + _BAR * sum(len(group.bars) + 0.5 for group in chart.groups) for _, chart in found]
    figure = Figure(figsize=(_WIDTH, sum(heights) or _HEAD), dpi=_DPI, layout="constrained")
    FigureCanvasAgg(figure)
    if found:
        plots = figure.subplots(len(found), 1, squeeze=False, height_ratios=heights)[:, 0]
        for (model, chart), axes in zip(found, plots, strict=True):
            _draw(axes, f"{model}: {chart.title}" if len(results) > 1 else chart.title, chart)
    file = io.BytesIO()
    figure.savefig(file, format="png")
    return file.getvalue()


def _all(result: Benchmark) -> list[BarChart]:
    profiles = (profile_chart(row) for row in result.rows if row.profile)
    return [*charts(result), *(chart for chart in profiles if chart.groups)]


def _draw(axes: Any, title: str, chart: BarChart) -> None:
    """Horizontal bars, groups under one another, a colour for each series; a mark where a bar has one."""
    series = list(dict.fromkeys(bar.series for group in chart.groups for bar in group.bars))
    y, ticks = 0.0, []
    for group in chart.groups:
        ticks.append(y + (len(group.bars) - 1) / 2)
        for bar in group.bars:
            colour = COLOURS[series.index(bar.series) % len(COLOURS)]
            axes.barh(y, bar.value, color=colour, label=bar.series)
            if bar.mark is not None:
                axes.plot([bar.mark, bar.mark], [y - 0.4, y + 0.4], color=colour)
            axes.annotate(
                f" {_plain(bar.text)}", (max(bar.value, bar.mark or 0.0), y), va="center", fontsize=8, clip_on=False
            )
            y += 1
        y += 0.5
    axes.set_yticks(ticks, [_plain(group.label) for group in chart.groups], fontsize=8)
    axes.set_title(_plain(title), fontsize=9, loc="left")
    axes.tick_params(axis="x", which="both", labelsize=7)
    axes.invert_yaxis()
    axes.margins(x=0.25)
    if chart.logarithmic and any(bar.value > 0 for group in chart.groups for bar in group.bars):
        axes.set_xscale("log")
    if len(series) > 1:
        handles, names = axes.get_legend_handles_labels()
        first = {name: handle for handle, name in reversed(list(zip(handles, names, strict=True)))}
        axes.legend(
            [first[name] for name in series],
            series,
            fontsize=7,
            ncols=len(series),
            loc="lower right",
            bbox_to_anchor=(1, 1),
        )


def _plain(text: str) -> str:
    """The text as it is: matplotlib takes dollars for mathematics."""
    return printable(text).replace("$", r"\$")
