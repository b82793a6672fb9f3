"""Printing: text of models as it is, whole lines, colours on a terminal alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape

from jfuse.base.errors import printable
from jfuse.passes.options import CountedStage, OnStage

console = Console()
errors = Console(stderr=True)


def show(text: str, *, to: Console = console) -> None:
    """Print text of a model: nothing in it is obeyed, nothing is wrapped, folded or cut."""
    to.print(printable(text), markup=False, highlight=False, soft_wrap=True)


def show_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Print labels with their texts; the lines of a text stand under each other."""
    width = max((len(label) for label, _ in rows), default=0) + 2
    for label, text in rows:
        first, *more = printable(text).split("\n")
        console.print(f"[bold]{label:<{width}}[/bold]{escape(first)}", highlight=False, soft_wrap=True)
        for line in more:
            console.print(" " * width + escape(line), highlight=False, soft_wrap=True)


def show_columns(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print aligned columns under their names."""
    cells = [[printable(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for i, row in enumerate(cells):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        console.print(f"[bold]{escape(line)}[/bold]" if i == 0 else escape(line), highlight=False, soft_wrap=True)


@contextmanager
def progress() -> Iterator[OnStage]:
    """A line with the stage that runs now, on a terminal."""
    with errors.status("starting") as status:
        yield lambda stage: status.update(escape(printable(progress_text(stage))))


def progress_text(stage: str) -> str:
    """The stage, with how far it is where that is counted."""
    if not isinstance(stage, CountedStage):
        return f"{stage} …"
    total = f" of {max(stage.total, stage.done):,}" if stage.total else ""
    return f"{stage} … {stage.done:,}{total} {stage.unit}"


@contextmanager
def silenced(silent: bool) -> Iterator[None]:
    """Print nothing, neither results nor progress, where that is asked for."""
    if not silent:
        yield
        return
    before = console.quiet, errors.quiet
    console.quiet = errors.quiet = True
    try:
        yield
    finally:
        console.quiet, errors.quiet = before
