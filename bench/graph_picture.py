"""Two graphs beside each other as SVG, drawn as the page of a report draws them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.sax.saxutils import escape

_ROW, _LANE, _INDENT, _TOP = 17, 9, 14, 60  # pixels
_SIDE, _GAP = 400, 20
_BLOCKS = ("scope", "body")
_INK, _PALE, _LINE, _FUSED = "#222222", "#777777", "#9aa3ad", "#3b6fb6"


def graphs(title: str, sides: Mapping[str, Mapping[str, Any]], marked: str) -> str:
    """The SVG.   sides: by heading, as bench/graphs.py has them; marked: the operation that stands out"""
    height = _TOP + _ROW * max(len(side["rows"]) for side in sides.values()) + 10
    width = len(sides) * _SIDE + (len(sides) - 1) * _GAP
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' height='{height}'"
    lines = [
        f"{head} role='img' aria-label='{escape(title)}' font-family='sans-serif' font-size='11' fill='{_INK}'>",
        f"<rect width='{width}' height='{height}' fill='#ffffff'/>",
        f"<text x='8' y='18' font-size='12' font-weight='bold'>{escape(title)}</text>",
    ]
    for number, (heading, side) in enumerate(sides.items()):
        lines.append(f"<g transform='translate({number * (_SIDE + _GAP)} 0)'>")
        lines.append(f"<text x='8' y='42' font-weight='bold'>{heading}: {side['operations']} operations</text>")
        lines += [*_values(side), *_rows(side, marked), "</g>"]
    return "\n".join([*lines, "</svg>\n"])


def _y(row: int) -> float:
    return _TOP + _ROW * (row + 0.5)


def _x(lane: int) -> float:
    return 12 + _LANE * lane


def _values(side: Mapping[str, Any]) -> Iterator[str]:
    """Each value from its row down its lane, and from there to every reader."""
    for row, lane, readers in side["values"]:
        x = _x(lane)
        path = [f"M{_x(side['rows'][row][4])} {_y(row)}"]
        if side["rows"][row][4] != lane:
            path.append(f"Q{x} {_y(row)} {x} {_y(row) + _ROW / 2}")
        for reader in readers:
            end, dot = _y(reader), _x(side["rows"][reader][4])
            path.append(f"L{x} {end - (_ROW / 2 if dot != x else 0)}")
            if dot != x:
                path.append(f"Q{x} {end} {dot} {end}M{x} {end - _ROW / 2}")
        yield f"<path d='{''.join(path)}' fill='none' stroke='{_LINE}'/>"


def _rows(side: Mapping[str, Any], marked: str) -> Iterator[str]:
    left = _x(side["lanes"]) + 4
    for number, (kind, label, depth, type_, lane) in enumerate(side["rows"]):
        x, y = left + _INDENT * depth, _y(number)
        colour = _FUSED if label == marked else _INK
        if kind not in (*_BLOCKS, "return"):
            yield f"<circle cx='{_x(lane)}' cy='{y}' r='3' fill='{colour}'/>"
        weight = " font-weight='bold'" if kind == "op" else f" fill='{_PALE}'" if kind in (*_BLOCKS, "return") else ""
        name = f"<tspan{weight}>{escape(label)}</tspan>"
        shown = f" <tspan fill='{_PALE}'>{escape(type_)}</tspan>" if type_ and kind not in _BLOCKS else ""
        yield f"<text x='{x}' y='{y + 4}' fill='{colour}'>{name}{shown}</text>"
