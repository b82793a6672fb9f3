"""The tables that the command line prints."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from jfuse.cli.tables import print_summary
from jfuse.report import Refusal, Report


def printed(report: Report) -> str:
    text = StringIO()
    print_summary(Console(file=text, width=160), report, Path("m.tflite"))
    return text.getvalue()


def test_refusals_are_printed_with_condition_detail_and_place() -> None:
    """The condition is what docs/refusals.md explains; brackets are types, not markup."""
    detailed = Refusal("acme.cell", "fuse_cell", "input_rank", "net[b]/cell (PartitionedCall)", "want 2, got f32[b]")
    bare = Refusal("loop", "loops", "trip_count_unknown", "while (While)")
    rows = [line.split("│")[1:4] for line in printed(Report(refused=[detailed, bare])).splitlines()]
    cells = [[cell.strip() for cell in row] for row in rows if len(row) == 3]
    assert ["acme.cell", "input_rank: want 2, got f32[b]", "net[b]/cell (PartitionedCall)"] in cells
    assert ["loop", "trip_count_unknown", "while (While)"] in cells


def test_refusals_as_text() -> None:
    assert str(Refusal("acme.cell", "fuse_cell", "input_rank", "net/cell", "want 2")) == (
        "fuse_cell: input_rank failed at net/cell: want 2"
    )
    assert str(Refusal("loop", "loops", "no_steps", "")) == "loops: no_steps failed"
