"""`jfuse verify`: a model beside what it should answer like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table

import jfuse
from jfuse.errors import JfuseError, VerifyFailed, printable
from jfuse.reports.as_json import write_json
from jfuse.reports.page import write_html
from jfuse.verification.result import Verification
from jfuse.verification.verify import OnProgress

Model = Annotated[str, typer.Argument(help="A .tflite file, a SavedModel folder or a .keras file.")]
Against = Annotated[
    str | None, typer.Option(help="What it should answer like, of the same kinds; without it XLA for a file.")
]
Samples = Annotated[
    int, typer.Option(help="Independent first calls (rows of them, where something is kept) to compare besides.")
]
Calls = Annotated[int, typer.Option(help="Calls in a row for each signature and choice of sizes.")]
Seed = Annotated[int, typer.Option(help="Of everything that is drawn.")]
Inputs = Annotated[Path | None, typer.Option(help="A .npz file with your own inputs.")]
Size = Annotated[list[str] | None, typer.Option(help="An open size, as in B=4; several times for several sizes.")]
AllowedError = Annotated[float | None, typer.Option("--tolerance", help="The largest max|a-b| / max|b| of outputs.")]
Edges = Annotated[str, typer.Option(help="Edge values to try: none, finite or nan.")]
Empty = Annotated[bool, typer.Option("--empty", help="Also try a batch of no rows.")]
Device = Annotated[str | None, typer.Option(help="What XLA runs on: cpu or gpu.")]
LiteRtLimit = Annotated[
    float | None,
    typer.Option("--litert-limit", help="Seconds that LiteRT may take for a sample; by default 100 times others."),
]
Json = Annotated[Path | None, typer.Option("--json", help="A file for what was found, as JSON.")]
Html = Annotated[Path | None, typer.Option("--html", help="A file for what was found, as a page.")]
SaveFailing = Annotated[Path, typer.Option(help="A folder for the inputs that show a difference.")]


def sizes_of(words: Sequence[str] | None) -> dict[str, int] | None:
    """The sizes in words like B=4; raises typer.BadParameter for others."""
    found = {}
    for word in words or ():
        name, equals, number = word.partition("=")
        if not (name and equals and number.isdigit()):
            raise typer.BadParameter(f"{word!r} is no size; write it as B=4", param_hint="--size")
        found[name] = int(number)
    return found or None


@contextmanager
def progress(errors: Console) -> Iterator[OnProgress]:
    """A line with how many calls were compared."""
    columns = TextColumn("comparing"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=errors, transient=True) as shown:
        line = shown.add_task("comparing", total=None)
        yield lambda done, total: shown.update(line, completed=done, total=max(total, done) if total else None)


_UNITS = ("max|a-b|", "ulp", "cosine", "SNR dB")
_WIDE = 100  # columns, below which these would be folded


def print_verification(console: Console, found: Verification) -> None:
    """A row for each output of each pair, and what else is worth a line; further units where there is room."""
    wide = console.width >= _WIDE
    names = ("output", "compared", "error", "at most", *(_UNITS if wide else ()), "calls")
    table = Table(
        *(Column(name, overflow="fold") for name in names),
        title=escape(f"{found.subject} beside {found.reference or 'itself'}"),
        title_justify="left",
    )
    several = len({d.signature for d in found.differences}) > 1
    for d in found.differences:
        m = d.measure
        units = (f"{m.absolute:.2e}", f"{m.ulp:g}", f"{m.cosine:.6f}", f"{m.snr:.1f}") if m else ("", "", "", "")
        color = "[green]" if d.error <= d.tolerance else "[red]"
        name = f"{d.signature}: {d.output}" if several else d.output
        row = (escape(printable(name)), d.pair, f"{color}{d.error:.2e}", f"{d.tolerance:.0e}", *(units if wide else ()))
        table.add_row(*row, str(d.samples))
    console.print(table)
    for reason in dict.fromkeys(f"{d.tolerance:.0e}: {d.reason}" for d in found.differences if d.reason):
        console.print(printable(f"  {reason}"), markup=False, highlight=False)
    for note in found.notes:
        console.print(printable(f"  note: {note}"), markup=False, highlight=False, soft_wrap=True)
    seconds = sum(found.seconds.values())
    console.print(f"{found.samples} calls compared in {seconds:.1f} s ({found.backend})", highlight=False)


def verified(
    errors: Console, model: str, against: str | None, **options: object
) -> tuple[Verification, VerifyFailed | None]:
    """What `jfuse.verify` finds, and its error where outputs differ. Other errors pass."""
    with progress(errors) as on_progress:
        try:
            return jfuse.verify(model, against, on_progress=on_progress, **options), None  # type: ignore[arg-type]
        except VerifyFailed as failed:
            if failed.verification is None:
                raise
            return failed.verification, failed


def write_reports(found: Verification, json: Path | None, html: Path | None) -> None:
    """Write what was asked for; a page needs a graph."""
    if json is not None:
        write_json(found, json)
    if html is not None:
        if found.after is None:
            raise JfuseError("there is no graph to show", found=found.subject, remedy="--json")
        write_html(found.before, found.after, found, html)
