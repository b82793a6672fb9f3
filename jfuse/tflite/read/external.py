"""Weights in files beside a .tflite file. Its operators' constants name them, and saving puts them into the file.

LiteRT's CompiledModel finds them as this does; its Interpreter cannot run such a file (measured on 2.3.0).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer, ImportFailed, LowerError
from jfuse.tflite.mapped_file import MappedFile, mapped_of, read_file
from jfuse.tflite.read.fields import checked_index, text
from jfuse.tflite.read.flatbuffer_reader import read_root

_PLAIN = frozenset({"", "unpacked"})


def has_other_files(data: bytes) -> bool:
    """Whether a file that could be read names weights in others."""
    return bool(read_root(data, schema.Model).externalBuffers)


class ExternalBuffers:
    """The external buffers of one file, by the id that tensors name them by. Whatever they give are views of the files.

    groups, tables: the file's, one group for each file of weights. folder: where the .tflite file is; None where that
    is not known, as it was given as its bytes.
    """

    def __init__(self, groups: Sequence[Any], tables: Sequence[Any], folder: Path | None) -> None:
        self._groups = groups
        self._tables = tables
        self._folder = folder
        self._files: dict[str, np.ndarray] = {}
        self._mapped: list[MappedFile | None] = []

    def mapped(self) -> tuple[MappedFile, ...]:
        """The files of weights that are mapped."""
        return mapped_of(self._mapped)

    def bytes_of(self, number: int, where: str) -> np.ndarray:
        """The bytes of an external buffer: u8[n].

        Raises BadFlatbuffer where there is none of that id, or its place is not in a file in the folder, ImportFailed
        where the file cannot be read.
        """
        if number not in self._by_id:
            raise BadFlatbuffer("there is no such external buffer", where=where, found=number)
        table = self._by_id[number]
        packing = text(table.packing, where)
        if packing not in _PLAIN:
            raise LowerError(
                "the weights of a tensor are packed in another file in a way that jfuse does not know",
                where=where,
                expected="plain numbers ('unpacked')",
                found=packing,
                remedy="put the weights into the file",
            )
        group = self._groups[checked_index(int(table.group), len(self._groups), "group of external buffers", where)]
        name = text(group.name, where)
        data = self._file(name, where)
        start, size = int(table.offset), int(table.length)
        if start + size > len(data):
            raise BadFlatbuffer(
                f"an external buffer lies beyond the end of {name!r}",
                where=where,
                expected=f"{len(data)} bytes at most",
                found=start + size,
            )
        return data[start : start + size]

    @cached_property
    def _by_id(self) -> dict[int, Any]:
        by_id = {int(table.id): table for table in self._tables}
        if len(by_id) != len(self._tables):
            found_ids = [int(table.id) for table in self._tables]
            raise BadFlatbuffer("two external buffers have one id", where="external buffers", found=found_ids)
        return by_id

    def _file(self, name: str, where: str) -> np.ndarray:
        if name not in self._files:
            path = self._path(name, where)
            try:
                if not path.is_file():  # a pipe or a device would be read without end
                    raise ImportFailed("the weights' file is missing", where=where, expected=f"the file {path}")
                data, mapped = read_file(path)
            except OSError as error:
                raise ImportFailed("the weights' file cannot be read", where=where, found=f"{path}: {error}") from error
            except ImportFailed as error:
                error.where = f"{where}, {error.where}" if error.where else where
                raise
            self._files[name] = np.frombuffer(data, np.uint8)
            self._mapped.append(mapped)
        return self._files[name]

    def _path(self, name: str, where: str) -> Path:
        if self._folder is None:
            raise ImportFailed(
                "the data of a tensor is in another file",
                where=where,
                found=name,
                remedy="load the .tflite file by its path, so that jfuse knows where the other one is",
            )
        path = Path(name)
        if not name or "\0" in name or path.is_absolute() or path.drive or ".." in path.parts:
            raise BadFlatbuffer(
                "a file of weights is not in the folder of the .tflite file",
                where=where,
                expected="a path below that folder",
                found=name,
                remedy="put it beside the file, and name it so",
            )
        return self._folder / path
