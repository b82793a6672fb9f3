"""The HTML page of a benchmark: tables and bar charts in one file that opens without a network."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from jfuse.base.errors import printable
from jfuse.base.files import write_atomic
from jfuse.base.notebooks import as_html
from jfuse.benchmark.charts import charts, profile_chart
from jfuse.benchmark.result import HEADER, Benchmark, BenchRow, cells_of

_STYLE = """
body { font-family: sans-serif; margin: 2em auto; max-width: 70em; padding: 0 1em; color: #222; background: #fff }
table { border-collapse: collapse; margin: 1em 0 }
th, td { border-bottom: 1px solid #ccc; padding: 0.25em 0.7em; text-align: left; vertical-align: top }
svg { max-width: 100%; height: auto; display: block; margin: 1em 0 }
"""


def write_benchmark_page(results: Sequence[Benchmark], path: str | os.PathLike[str]) -> Path:
    """Write the page: whole or not at all. Raises JfuseError where that cannot be written."""
    write_atomic(path, benchmark_page(results).encode())
    return Path(path)


def benchmark_page(results: Sequence[Benchmark]) -> str:
    """The HTML text. Its policy allows its own style, by its digest, and no script or request at all."""
    digest = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    head = [
        "<!doctype html>",
        "<html lang='en'><head><meta charset='utf-8'>",
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        f"<title>jfuse bench</title><style>{_STYLE}</style></head><body>",
    ]
    return "\n".join([*head, *(line for result in results for line in _model(result)), "</body></html>\n"])


@as_html.register
def _shown(result: Benchmark) -> str:
    """In a notebook: table and charts."""
    return "\n".join(_model(result))


def _model(result: Benchmark) -> Iterator[str]:
    yield f"<h1>{_safe(Path(result.model).name)}</h1>"
    versions = ", ".join(f"{name} {text}" for name, text in result.versions.items())
    inputs = ", ".join(f"{name}: {text}" for name, text in result.inputs.items())
    yield f"<p>{_safe(result.model)}, inputs {_safe(inputs)}; {_safe(result.machine)}; {_safe(versions)}</p>"
    yield _table(HEADER, cells_of(result))
    for row in result.rows:
        for note in row.notes:
            yield f"<p>{_safe(row.name)}: {_safe(note)}</p>"
    yield from (chart.svg for chart in charts(result))
    for row in result.rows:
        if row.profile:
            yield from _profile(row)


def _profile(row: BenchRow) -> Iterator[str]:
    """The operators by kind as a chart, and each of them in a table that is folded."""
    chart = profile_chart(row)
    if chart.groups:
        yield chart.svg
    rows = [(o.op, o.name, o.reason if o.us is None else f"{o.us:.4g}") for o in row.profile]
    yield f"<details><summary>{_safe(row.name)}: {len(rows)} operators</summary>"
    yield _table(("operator", "output", "us"), rows)
    yield "</details>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["<table>", "<tr>" + "".join(f"<th>{_safe(cell)}</th>" for cell in header) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{_safe(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "\n".join([*lines, "</table>"])


def _safe(text: str) -> str:
    return escape(printable(text))
