"""Bar charts as SVG, which pages hold inline and the documentation as files; no library draws them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from jfuse.base.errors import printable

COLOURS = ("#3b6fb6", "#d98032", "#4f9d69", "#a65fa8", "#8a7f72")
_LABEL, _WIDTH, _VALUE = 230, 420, 190  # pixels: of the labels, of the longest bar, and behind it
_BAR, _GAP, _TOP = 16, 12, 46
_FONT = "font-family='sans-serif' font-size='12'"
_LONGEST_LABEL = 34


@dataclass(frozen=True)
class Bar:
    """One bar: its series (the colour), its length, the text behind it, and a mark further on, such as the p90."""

    series: str
    value: float
    text: str
    mark: float | None = None


@dataclass(frozen=True)
class BarGroup:
    """Bars under one label."""

    label: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True)
class BarChart:
    """Groups of bars under a title.   logarithmic: as `bar_chart` has it"""

    title: str
    groups: tuple[BarGroup, ...]
    logarithmic: bool = False

    @property
    def svg(self) -> str:
        """The chart as an SVG element."""
        return bar_chart(self.title, self.groups, logarithmic=self.logarithmic)


def bar_chart(title: str, groups: Sequence[BarGroup], *, logarithmic: bool = False) -> str:
    """The chart as an SVG element: horizontal bars, groups under one another, a colour for each series.

    logarithmic: lengths go by powers of ten, from the one below the least value on; zero has no length then.
    """
    series = list(dict.fromkeys(bar.series for group in groups for bar in group.bars))
    scale = _scale([v for g in groups for b in g.bars for v in (b.value, b.mark) if v is not None], logarithmic)
    lines: list[str] = []
    y = _TOP
    for group in groups:
        lines.append(_text(_LABEL - 8, y + _BAR / 2 + 4, _cut(group.label), "end"))
        for bar in group.bars:
            lines += _bar(bar, y, scale, COLOURS[series.index(bar.series) % len(COLOURS)])
            y += _BAR + 2
        y += _GAP
    width, height = _LABEL + _WIDTH + _VALUE, y + 4
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    name = escape(printable(title), {"'": "&apos;"})
    background = f"<rect width='{width}' height='{height}' fill='#ffffff'/>"
    return "\n".join(
        [
            f"{head} role='img' aria-label='{name}' {_FONT} fill='#222222'>",
            background,
            _text(8, 18, title, "start", "font-weight='bold'"),
            *_legend(series),
            *lines,
            "</svg>\n",
        ]
    )


def _bar(bar: Bar, y: float, scale: Scale, colour: str) -> list[str]:
    length = scale.length(bar.value)
    elements = [f"<rect x='{_LABEL}' y='{y}' width='{length:.1f}' height='{_BAR}' fill='{colour}'/>"]
    end = length
    if bar.mark is not None:
        end = max(end, scale.length(bar.mark))
        x = _LABEL + scale.length(bar.mark)
        elements.append(
            f"<line x1='{x:.1f}' x2='{x:.1f}' y1='{y}' y2='{y + _BAR}' stroke='{colour}' stroke-width='2'/>"
        )
    elements.append(_text(_LABEL + end + 6, y + _BAR / 2 + 4, bar.text, "start"))
    return elements


def _legend(series: Sequence[str]) -> list[str]:
    if len(series) < 2:
        return []
    elements, x = [], float(_LABEL)
    for number, name in enumerate(series):
        colour = COLOURS[number % len(COLOURS)]
        elements.append(f"<rect x='{x:.0f}' y='26' width='10' height='10' fill='{colour}'/>")
        elements.append(_text(x + 14, 35, name, "start"))
        x += 30 + 7 * len(name)
    return elements


@dataclass(frozen=True)
class Scale:
    """A scale that maps values to lengths of bars."""

    low: float
    high: float
    logarithmic: bool

    def length(self, value: float) -> float:
        """The length in pixels; 0 below the scale, the full width for NaN and infinity."""
        if not math.isfinite(value):
            return _WIDTH
        if not self.logarithmic:
            return _WIDTH * value / self.high if self.high > 0 else 0.0
        if value <= 0:
            return 0.0
        return max(0.0, _WIDTH * (math.log10(value) - self.low) / (self.high - self.low))


def _scale(values: Sequence[float], logarithmic: bool) -> Scale:
    finite = [v for v in values if math.isfinite(v)]
    if not logarithmic:
        return Scale(0.0, max(finite, default=0.0), False)
    positive = [v for v in finite if v > 0] or [1.0]
    low = math.floor(math.log10(min(positive)) - 0.01)
    return Scale(low, max(math.log10(max(positive)), low + 1.0), True)


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}' {more}>{escape(printable(text))}</text>"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_LABEL else f"{text[: _LONGEST_LABEL - 1]}…"
