"""`jfuse ops`: what jfuse knows of ops."""

from __future__ import annotations

import typer

from jfuse.cli.console import show
from jfuse.cli.spelling import as_options
from jfuse.reports import coverage


def markdown() -> bool:
    """Print the tables of all ops in Markdown. True: the command succeeded."""
    typer.echo(coverage.markdown(), nl=False)
    return True


def tell(name: str | None) -> bool:
    """Print what there is to say of one op, or of all without a name; False where nobody knows the name."""
    for line in coverage.about(name) if name else coverage.listing():
        show(as_options(line))
    return not name or coverage.is_known(name)
