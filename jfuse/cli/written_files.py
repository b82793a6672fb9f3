"""Refuses output files that are inputs of the command, or other outputs: one check for all commands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import Any

import typer

from jfuse.base.errors import JfuseError
from jfuse.base.files import writable_target

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
