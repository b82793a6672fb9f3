"""The page and the tables as notebooks show them: HTML that is put into a cell."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from jfuse.base.notebooks import as_html
from jfuse.model import Model
from jfuse.records.conversion import Report
from jfuse.records.verification import Verification
from jfuse.reports.page import page, page_data
from jfuse.reports.summary import fusions

_HEIGHT = 640  # pixels


@as_html.register
def _model(model: Model) -> str:
    verification = model.verification or Verification("", "")
    return _framed(page(page_data(model.imported_program, model.program, verification, model.report)))


@as_html.register
def _verification(found: Verification) -> str:
    if found.after is None:
        pairs = (
            (f"{d.signature}, {d.output} ({d.pair})", f"{d.error:.1e} of at most {d.tolerance:.0e}")
            for d in found.differences
        )
        return _table(pairs)
    return _framed(page(page_data(found.before, found.after, found)))


@as_html.register
def _report(report: Report) -> str:
    rows = [*fusions(report), ("operators", report.operators_text()), *report.errors()]
    return _table([*rows, *(("note", line) for line in report.told())])


def _framed(text: str) -> str:
    """The page within the cell: a document of its own, whose script reaches nothing of the notebook's."""
    return (
        f'<iframe srcdoc="{escape(text)}" sandbox="allow-scripts" title="jfuse" '
        f'style="width:100%;height:{_HEIGHT}px;border:1px solid #ccc"></iframe>'
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    cells = (
        f"<tr><th style='text-align:left;vertical-align:top'>{escape(label)}</th>"
        f"<td style='text-align:left;white-space:pre-wrap'>{escape(text)}</td></tr>"
        for label, text in rows
    )
    return f"<table>{''.join(cells)}</table>"
