"""`jfuse check`: what a target makes of a file."""

from __future__ import annotations

from pathlib import Path

import typer

import jfuse
from jfuse.errors import printable


def tell(model: Path, target: str) -> bool:
    """Print the check, and say whether the target takes the file."""
    found = jfuse.check(model, target)
    for line in found.lines():
        typer.echo(printable(line))
    return found.runs
