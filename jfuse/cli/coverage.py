"""`jfuse ops`: describes ops."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from jfuse.cli.console import show
from jfuse.cli.spelling import as_options
from jfuse.reports import coverage
from jfuse.reports.as_json import write_data


def markdown() -> bool:
    """Print the tables of all ops in Markdown. True: the command succeeded."""
    typer.echo(coverage.markdown(), nl=False)
    return True


def tell(name: str | None, json: Path | None) -> bool:
    """Describe one op, or list all without a name; False for an unknown name."""
    if json is not None:
        ops = [asdict(op) for op in coverage.tensorflow_ops() if name in (None, op.name)]
        builtins = [asdict(b) for b in coverage.builtins() if name is None or name.upper() == b.name]
        write_data({"format": "jfuse.ops", "version": 1, "ops": ops, "builtins": builtins}, json)
    for line in coverage.about(name) if name else coverage.listing():
        show(as_options(line))
    return not name or coverage.is_known(name)
