"""The HTML page: one file that opens without a network. This module lays it out; page/ has the scripts that draw it."""

from __future__ import annotations

import base64
import hashlib
import heapq
import json
import os
from collections import defaultdict
from importlib.resources import files
from pathlib import Path
from typing import Any

from jfuse.base.files import write_atomic
from jfuse.base.json_form import as_json
from jfuse.ir.graph import Program
from jfuse.records.conversion import Report
from jfuse.records.verification import EquationError, Verification
from jfuse.reports.as_json import to_json
from jfuse.reports.rows import PageRow, PageValue, Rows, rows_of

# The lanes in which values run down beside the rows: each value has one from where it begins to its last reader.

COLUMNS = 9
"""Number of lanes; further values share the last one."""


def place(found: Rows) -> int:
    """Give every value its lane and every row the lane of its dot, in one walk; the number of lanes in use.

    A result takes over the lane of an operand that is read for the last time, so that a chain runs straight down.
    """
    begins: dict[int, list[PageValue]] = defaultdict(list)
    ends: dict[int, list[PageValue]] = defaultdict(list)
    for value in found.values:
        begins[value.row].append(value)
        if value.readers:
            ends[value.readers[-1]].append(value)
    free = list(range(COLUMNS))
    lane: dict[int, int] = {}  # of the values that have one of their own, by identity
    widest = 0
    for number, row in enumerate(found.rows):
        left = sorted(lane.pop(id(value)) for value in ends[number] if id(value) in lane)
        row.column = left[0] if left else free[0] if free else COLUMNS - 1
        for value in begins[number]:
            value.column = COLUMNS - 1
            if left or free:
                value.column = lane[id(value)] = left.pop(0) if left else heapq.heappop(free)
            widest = max(widest, value.column)
        if begins[number]:
            row.column = begins[number][0].column
        unread = [lane.pop(id(value)) for value in begins[number] if not value.readers and id(value) in lane]
        for column in (*left, *unread):
            heapq.heappush(free, column)
        widest = max(widest, row.column)
    return widest + 1


_SCRIPTS = ("model", "tree", "lanes", "pane", "plot", "details", "search", "tables", "main")
"""The parts of the page's script, in the order in which they need each other."""
_STYLES = ("base", "search_and_plot", "graphs", "details_and_tables")


def write_html(
    before: Program | None,
    after: Program,
    verification: Verification,
    path: str | os.PathLike[str],
    *,
    report: Report | None = None,
) -> Path:
    """Write the page: whole or not at all. Raises JfuseError where that cannot be written.

    before: the graph of the reference, as imported, where there is one. after: the graph of what was verified, which
    `verification.equations` speak of. report: of the conversion, if there was one.
    """
    write_atomic(path, page(page_data(before, after, verification, report)).encode())
    return Path(path)


def page_data(
    before: Program | None, after: Program, verification: Verification, report: Report | None = None
) -> dict[str, Any]:
    """Everything that the page shows, as JSON has it."""
    sides = [(before, "before"), (after, "after")]
    page_sides = {name: None if program is None else _Side(program) for program, name in sides}
    for error in (
        verification.equations if verification.first is None else (*verification.equations, verification.first)
    ):
        for side in (page_sides["after"], page_sides["before"]):
            if side is not None and side.take(error):
                break
    content = to_json(verification)
    del content["equations"]
    return {
        "verification": content,
        "conversion": as_json(report),
        "sides": {name: None if side is None else side.data() for name, side in page_sides.items()},
    }


def page(data: dict[str, Any]) -> str:
    """The HTML text. Its policy allows its own script and style, by their digests, and no request at all."""
    script = "".join(_part(f"{name}.js") for name in _SCRIPTS)
    script = f'"use strict";\n(() => {{\n{script}}})();\n'
    style = "".join(_part(f"{name}.css") for name in _STYLES)
    policy = (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    parts = {"POLICY": policy, "STYLE": style, "SCRIPT": script, "DATA": _as_script(data)}
    pieces = _part("page.html").split("@@")  # text, name, text, name, …: what is put in is not looked through again
    return "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))


class _Side:
    """One program: its distinct graphs as rows, and the errors of their operations."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._graphs = program.graphs()
        self._rows: list[Rows] = []
        for graph in self._graphs:
            named = next(s for s in program.signatures if s.graph is graph)
            self._rows.append(rows_of(graph, named.input_names, named.output_names))
        self._lanes = [place(found) for found in self._rows]
        self._row_of = [found.row_of() for found in self._rows]
        index = {id(graph): i for i, graph in enumerate(self._graphs)}
        self._index = {s.key: index[id(s.graph)] for s in program.signatures}
        self._errors: list[dict[tuple[int, str], EquationError]] = [{} for _ in self._graphs]

    def take(self, error: EquationError) -> bool:
        """Keep the error if this side has the equation; of two for one equation and pair the larger."""
        graph = self._index.get(error.signature)
        row = None if graph is None else self._row_of[graph].get(error.path)
        if graph is None or row is None or not self._is(self._rows[graph].rows[row], error):
            return False
        earlier = self._errors[graph].get((row, error.pair))
        if earlier is None or not _relative(error) <= _relative(earlier):
            self._errors[graph][row, error.pair] = error
        return True

    def _is(self, row: PageRow, error: EquationError) -> bool:
        return error.op == row.label or row.mark == "composite" == error.op

    def data(self) -> dict[str, Any]:
        """The side as the page reads it."""
        graphs = zip(self._graphs, self._rows, self._lanes, self._errors, strict=True)
        return {
            "signatures": dict(self._index),
            "graphs": [
                {
                    "name": graph.name,
                    "lanes": lanes,
                    "rows": [_row(row) for row in found.rows],
                    "values": [[v.row, v.index, v.column, v.readers] for v in found.values if v.readers],
                    "errors": [_error(row, error) for (row, _), error in sorted(errors.items(), key=lambda e: e[0])],
                }
                for graph, found, lanes, errors in graphs
            ],
        }


def _row(row: PageRow) -> dict[str, Any]:
    """The fields that say something."""
    fields = {
        "kind": row.kind,
        "label": row.label,
        "depth": row.depth,
        "end": row.end,
        "column": row.column,
        "path": list(row.path),
        "results": row.results,
        "reads": row.reads,
        "options": row.options,
        "source": row.source,
        "node": row.node,
        "layer": row.layer,
        "effects": list(row.effects),
        "mark": row.mark,
        "bytes": row.bytes or None,
        "folded": row.folded or None,
    }
    return {name: value for name, value in fields.items() if value or isinstance(value, int)}


def _error(row: int, error: EquationError) -> dict[str, Any]:
    return {
        "row": row,
        "pair": error.pair,
        "own": as_json(error.own),
        "layer": error.layer,
        "notes": _notes(error),
        **(as_json(error.measure) or {}),
    }


def _relative(error: EquationError) -> float:
    """The relative error; an unknown one sorts below all others."""
    return -1.0 if error.measure is None else error.measure.relative


def _notes(error: EquationError) -> list[str]:
    """Notes on an error: loop step, call, state, operands."""
    notes = [f"step {', '.join(map(str, error.steps))} of the loop"] if error.steps else []
    notes += [f"call {error.call + 1} in a row"] if error.call else []
    notes += [f"the state {error.state!r} lost its value between calls"] if error.state else []
    notes += [f"or an equation before it, from {error.first} on"] if error.first else []
    return [*notes, *error.operands]


def _part(name: str) -> str:
    return files("jfuse.reports").joinpath("page", name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _as_script(data: dict[str, Any]) -> str:
    """JSON for a `script` element: nothing in it ends the element or begins a comment, whatever names a model has."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
