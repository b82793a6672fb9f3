"""`jfuse ops`: describes ops."""

from __future__ import annotations

from pathlib import Path

import typer

from jfuse.base.json_form import JsonFormat, write_data
from jfuse.cli.console import show
from jfuse.cli.spelling import as_options
from jfuse.reports import coverage

OPS = {"ops": list[coverage.TensorflowOp], "builtins": list[coverage.Builtin]}
FORMAT = JsonFormat("jfuse.ops", 1, more=OPS)


def markdown() -> bool:
    """Print the tables of all ops in Markdown. True: the command succeeded."""
    typer.echo(coverage.markdown(), nl=False)
    return True


def tell(name: str | None, json: Path | None) -> bool:
    """Describe one op, or list all without a name; False for an unknown name."""
    if json is not None:
        ops = [op for op in coverage.tensorflow_ops() if name in (None, op.name)]
        builtins = [b for b in coverage.builtins() if name is None or name.upper() == b.name]
        write_data(FORMAT.content(ops=ops, builtins=builtins), json)
    for line in coverage.about(name) if name else coverage.listing():
        show(as_options(line))
    return not name or coverage.is_known(name)
