"""Reads a file for constants that are views of its bytes: into memory, or as a map that is watched if it is large.

Changing a mapped file in place changes the weights of the program. Truncating it makes the system end the process that
reads beyond its end (SIGBUS). So the file is checked before the program is printed, run or written; a change at the
very moment of reading is not noticed. Replacing a file by renaming another one is safe: the old one stays while it is
mapped.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.ir.contents import give_back
from jfuse.ir.graph import Program

COPIED = 256 * 2**20
"""Bytes up to which a file is read into memory: reading costs a tenth of a second then."""
_CHUNK = 2**26


@dataclass(frozen=True)
class MappedFile:
    """A file that is mapped, and what it was like then."""

    path: Path
    data: Any
    _handle: int = field(repr=False)
    _like: tuple[int, ...] = field(repr=False)

    def need_unchanged(self) -> None:
        """Raise ImportFailed where the file was written to or cut short since."""
        if _like(os.fstat(self._handle)) != self._like:
            raise ImportFailed(
                "the file has changed since it was loaded",
                where=str(self.path),
                expected="a file that stays as it is while a model that was loaded from it is used",
                remedy="load it again; to replace a file while it is used, write another one and rename it",
            )

    def forget(self, offset: int, size: int) -> None:
        """Give back the memory in which so many bytes were read, until they are read again."""
        give_back(self.data[offset : offset + size])

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        close(self._handle)  # as the interpreter ends, modules have lost their names


def read_file(path: Path, copied: int | None = None) -> tuple[Any, MappedFile | None]:
    """The bytes of a regular file, and the file where they are mapped.

    copied: bytes up to which it is read into memory, COPIED at most.
    Raises ImportFailed where it cannot be read, is no regular file, or changes while it is read.
    """
    try:
        # A pipe would be waited for. Windows reads a file as text otherwise: line ends become others, ^Z is the end.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        try:
            before = os.fstat(handle)
            if not stat.S_ISREG(before.st_mode):
                raise ImportFailed("this is no regular file", where=str(path))
            if before.st_size > (COPIED if copied is None else min(copied, COPIED)):
                with os.fdopen(os.dup(handle), "rb") as file:
                    data = np.memmap(file, np.uint8, mode="r")
                mapped = MappedFile(path, data, os.dup(handle), _like(before))
                mapped.need_unchanged()
                return data, mapped
            contents = _all(handle)
            if _like(os.fstat(handle)) != _like(before) or len(contents) != before.st_size:
                raise ImportFailed("the file changes while it is read", where=str(path), remedy="load it again")
            return contents, None
        finally:
            os.close(handle)
    except OSError as error:
        raise ImportFailed("the file cannot be read", where=str(path), found=error.strerror) from error


def need_unchanged(program: Program) -> None:
    """Raise ImportFailed where a file that constants of the program are views of has changed."""
    for file in program.facts.mapped:
        file.need_unchanged()


def mapped_of(files: Iterable[MappedFile | None]) -> tuple[MappedFile, ...]:
    """The files that are mapped into memory, without None for those that are not."""
    return tuple(file for file in files if file is not None)


def _all(handle: int) -> bytes:
    parts = []
    while part := os.read(handle, _CHUNK):
        parts.append(part)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _like(status: os.stat_result) -> tuple[int, ...]:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
