"""The application of all commands, and the frame around each: errors, signals, output."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import CommandFunctionType

from jfuse.base.errors import JfuseError, printable
from jfuse.base.files import writable_target
from jfuse.base.users_code import is_users
from jfuse.cli.options import Terminal
from jfuse.cli.spelling import as_options, from_tflite_convert
from jfuse.cli.streams.quiet import quiet

# Refuses output files that are inputs of the command, or other outputs: one check for all commands.

FILES = frozenset({"output", "json", "html", "explorer", "png", "c_array"})
"""The options that name a file to write. All others may name one that is read."""
_SOURCES = frozenset({"source", "model", "models", "a", "b", "against"})  # a folder is read with all that it holds
_DATA = (".npz", ".npy")


def need_apart(values: Mapping[str, Any], names: Mapping[str, str]) -> None:
    """Raise BadParameter where a file cannot be written, or would take the place of another, before anything slow.

    values: of a command's parameters; names: of these parameters, for the message. Links are followed.
    """
    written = [pair for name in sorted(FILES & values.keys()) for pair in _written(names[name], values[name])]
    targets = [(path, of, _target(path)) for path, of in written]
    for (path, of, target), (_, other_of, other) in combinations(targets, 2):
        if _is_same(target, other):
            raise typer.BadParameter(f"{path} is what both {of} and {other_of} write: one would be overwritten")
    for name in values.keys() - FILES:
        for read in _read(name, values[name]):
            for path, _, target in targets:
                if _would_change(target, read, name in _SOURCES):
                    raise typer.BadParameter(
                        f"{path} is {names[name]}, or in its folder, which is read: it would be overwritten"
                    )


def _written(option: str, path: Path | None) -> Iterator[tuple[Path, str]]:
    """The files that an option makes: of C++ source the headers, too."""
    if path is None:
        return
    yield path, option
    if option == "--c-array":
        yield path.with_name(f"{path.stem}.h"), option
        yield path.with_name(f"{path.stem}_ops.h"), option


def _target(path: Path) -> Path:
    try:
        return writable_target(path)
    except JfuseError as error:
        raise typer.BadParameter(f"{path}: {error.found}") from error


def _read(name: str, value: Any) -> Iterator[Path]:
    """The files and folders that a parameter names: directly, as OUTPUT=FILE, as a module, in a file of metadata."""
    for each in value if isinstance(value, list | tuple) else (value,):
        if not isinstance(each, str | Path):
            continue
        text = str(each)
        if name == "labels":
            text = text.rpartition("=")[2]
        elif name == "modules":
            text = f"{text.replace('.', '/')}.py"
        path = Path(text)
        if _exists(path):
            yield path.resolve()
        if name == "metadata":
            yield from _named_in(path)


def _named_in(path: Path) -> Iterator[Path]:
    """The files beside a JSON file that texts in it name. Whoever reads it reports that it is none."""
    try:
        pending = [json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError):
        return
    while pending:
        part = pending.pop()
        if isinstance(part, str) and _exists(path.parent / part):
            yield (path.parent / part).resolve()
        elif isinstance(part, dict | list):
            pending += part.values() if isinstance(part, dict) else part


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a text that can be no name
        return False


def _would_change(target: Path, read: Path, is_source: bool) -> bool:
    if not read.is_dir():
        return _is_same(target, read)
    if is_source:
        return target.is_relative_to(read)
    return target.parent == read and target.suffix in _DATA


def _is_same(a: Path, b: Path) -> bool:
    """Whether two names are of one file: also hard links, and names that differ in case where that does not count."""
    try:
        return a == b or a.samefile(b)
    except OSError:  # one of them is not there yet
        return False


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
