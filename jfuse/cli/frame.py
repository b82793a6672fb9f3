"""What all commands share: the application that they belong to, and what happens around their work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from jfuse.cli.quiet import quiet
from jfuse.cli.spelling import as_options
from jfuse.errors import JfuseError, printable

app = typer.Typer(
    help="TensorFlow functions to proven, fused TensorFlow Lite files.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help, that pipes well and needs no more imports
    pretty_exceptions_enable=False,
)


@contextmanager
def work(verbose: bool = False, silent: bool = False, refused: int = 1) -> Iterator[None]:
    """Without what libraries print; an error of jfuse's becomes its message and the exit code `refused`.

    silent: nothing is printed but errors.
    """
    with quiet(verbose):
        from jfuse.cli.console import silenced

        try:
            with silenced(silent):
                yield
        except JfuseError as error:
            _say(f"{type(error).__name__}: {error}")
            raise typer.Exit(refused) from error
        except OSError as error:
            _say(f"cannot read or write: {error}")
            raise typer.Exit(refused) from error


def _say(message: str) -> None:
    typer.echo(printable(as_options(message)), err=True)
