"""The application of all commands, and the frame around each: errors, signals, output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from jfuse.base.errors import JfuseError, printable
from jfuse.base.users_code import is_users
from jfuse.cli.options import Terminal
from jfuse.cli.spelling import as_options, from_tflite_convert
from jfuse.cli.streams.quiet import quiet
from jfuse.cli.written_files import need_apart

_WrongUse: Any = typer.BadParameter.__bases__[0]  # UsageError of click, which newer versions of typer bring along


_BY_USE = (
    "convert explain quantize verify check bench tune optimize inspect diff quantize-report demo rules passes ops"
).split()


class _Commands(TyperGroup):
    """The commands in the order of their use. Wrong use is printed: names of files in it are not obeyed."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, as the help has them."""
        return sorted(super().list_commands(ctx), key=_BY_USE.index)

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """As any group; of its own options."""
        with _printable_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """As any group; the command reads its options here."""
        with _printable_errors():
            return super().invoke(ctx)


class _Command(TyperCommand):
    """A command that writes over nothing that it reads."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """The arguments, then the options: those of one object of options under its name."""
        groups: dict[str, list[Any]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            is_argument = parameter.param_type_name == "argument"
            group = "Arguments" if is_argument else getattr(parameter, "rich_help_panel", None) or "Options"
            groups.setdefault(group, []).extend([record] if record else [])
        for group, records in groups.items():
            if records:
                with formatter.section(group):
                    formatter.write_dl(records)

    def invoke(self, ctx: Any) -> Any:
        """As any command."""
        names = {
            str(p.name): str(p.metavar) if p.param_type_name == "argument" else max(p.opts, key=len)
            for p in self.params
        }
        need_apart(ctx.params, names)
        return super().invoke(ctx)


class LikeTfliteConvert(_Command):
    """A command that takes the flags of TensorFlow's tflite_convert, too."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As any command."""
        return list(super().parse_args(ctx, from_tflite_convert(args)))


@contextmanager
def _printable_errors() -> Iterator[None]:
    try:
        yield
    except _WrongUse as error:
        error.message = printable(error.message)
        raise


class _Application(typer.Typer):
    """An application whose commands are of one class."""

    def command(
        self, *args: Any, cls: type[TyperCommand] | None = None, **kwargs: Any
    ) -> Callable[[CommandFunctionType], CommandFunctionType]:
        """As any application."""
        return super().command(*args, cls=cls or _Command, **kwargs)


app = _Application(
    cls=_Commands,
    help="Convert TensorFlow, Keras, JAX and PyTorch models to fused, verified TensorFlow Lite files.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help, that pipes well and needs no more imports
    pretty_exceptions_enable=False,
)


@contextmanager
def work(terminal: Terminal, refused: int = 1) -> Iterator[None]:
    """Without what libraries print; an error of jfuse's becomes its message and the exit code `refused`."""
    with quiet(terminal.verbose):
        from jfuse.cli.console import silenced

        try:
            with silenced(terminal.quiet):
                yield
        except JfuseError as error:
            _say(f"{type(error).__name__}: {error}")
            raise typer.Exit(refused) from error
        except OSError as error:
            if is_users(error):
                raise
            _say(f"cannot read or write: {error}")
            raise typer.Exit(refused) from error


def _say(message: str) -> None:
    typer.echo(printable(as_options(message)), err=True)
