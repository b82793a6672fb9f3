"""Reading the tables of a flatbuffer with every offset and length checked, whatever the bytes are.

The generated module's own reader follows offsets blindly: out of the file, and the same ones again and again.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

import numpy as np

from jfuse.base.errors import BadFlatbuffer
from jfuse.tflite.read.flatbuffer_fields import Field, fields_of, object_of

_OFFSET = Struct("<I")  # of strings, vectors and tables, from where it stands
_VTABLE = Struct("<i")  # back from a table to the list of its fields' places
_LENGTHS = Struct("<HH")  # of that list and of the table, in bytes
_SLACK = 4096  # bytes; tables and vectors of a small file may share a few bytes


def read_root(data: Any, table: type) -> Any:
    """The root table as the generated module's object (`ModelT`), with all that hangs on it.

    data: the bytes of the file, or a memory map. Vectors of numbers are views of it, strings are bytes.
    Raises BadFlatbuffer with the field's name where an offset or a length leads out of the file. It also raises where
    tables are shared so often that reading would take longer than the file is long.
    """
    reader = _Reader(data)
    return reader.table(reader.target(0), table)


class _Reader:
    """One file. Whatever several offsets lead to is read once."""

    def __init__(self, data: Any) -> None:
        self._data = data
        self._view = memoryview(data)
        self._size = len(data)
        self._left = 2 * self._size + _SLACK  # bytes that may still be read, those of overlapping parts again
        self._tables: dict[tuple[int, type], Any] = {}
        self._strings: dict[int, bytes] = {}
        self._layouts: dict[tuple[int, type], tuple[int, list[tuple[int, Field]]]] = {}

    def table(self, start: int, kind: type) -> Any:
        """The table at a place."""
        key = (start, kind)
        if key not in self._tables:
            self._tables[key] = self._read_table(start, kind)
        return self._tables[key]

    def _read_table(self, start: int, kind: type) -> Any:
        self._need(start, 4)
        length, fields = self._layout(start - _VTABLE.unpack_from(self._view, start)[0], kind)
        self._need(start, length)
        table = object_of(kind)()
        for offset, field in fields:
            try:
                self._set(table, field, start + offset)
            except BadFlatbuffer as error:
                inner = error.where or ""
                error.where = f"{field.name}{'' if inner.startswith('[') or not inner else '.'}{inner}"
                raise
        return table

    def _layout(self, start: int, kind: type) -> tuple[int, list[tuple[int, Field]]]:
        """The length of a table, and the places of the fields that it has; many tables share one such list."""
        key = (start, kind)
        if key not in self._layouts:
            self._need(start, _LENGTHS.size)
            length, table = _LENGTHS.unpack_from(self._view, start)
            if length < 4 or length % 2 or table < 4:
                raise BadFlatbuffer("a table has an impossible list of fields", found=f"{length} and {table} bytes")
            self._need(start, length)
            places = np.frombuffer(self._data, "<u2", (length - 4) // 2, start + 4).tolist()
            fields = [(places[f.slot], f) for f in fields_of(kind) if f.slot < len(places) and places[f.slot]]
            for place, field in fields:
                width = field.scalar.itemsize if field.scalar is not None and not field.is_vector else 4
                if place < 4 or place + width > table:
                    raise BadFlatbuffer("a field lies outside of its table", where=field.name, found=place)
            self._layouts[key] = table, fields
        return self._layouts[key]

    def _set(self, table: Any, field: Field, place: int) -> None:
        if field.is_vector:
            setattr(table, field.name, self._vector(field, self.target(place)))
        elif field.scalar is not None:
            setattr(table, field.name, np.frombuffer(self._data, field.scalar, 1, place)[0].item())
        elif field.union is not None:
            number = getattr(table, f"{field.name}Type")  # its slot comes first
            if number and number not in field.union:
                raise BadFlatbuffer("a union holds a table that the schema does not know", found=number)
            if number:
                setattr(table, field.name, self.table(self.target(place), field.union[number]))
        elif field.table is not None:
            setattr(table, field.name, self.table(self.target(place), field.table))
        else:
            setattr(table, field.name, self._string(self.target(place)))

    def _vector(self, field: Field, start: int) -> Any:
        length = self._length(start)
        if field.scalar is not None:
            self._take(start + 4, length * field.scalar.itemsize)
            return np.frombuffer(self._data, field.scalar, length, start + 4)
        self._take(start + 4, length * 4)
        offsets = np.frombuffer(self._data, "<u4", length, start + 4).tolist()
        items = []
        for i, offset in enumerate(offsets):
            target = start + 4 + 4 * i + offset
            try:
                items.append(self._string(target) if field.table is None else self.table(target, field.table))
            except BadFlatbuffer as error:
                error.where = f"[{i}]{'.' if error.where else ''}{error.where or ''}"
                raise
        return items

    def _string(self, start: int) -> bytes:
        if start not in self._strings:
            length = self._length(start)
            self._take(start + 4, length)
            self._strings[start] = bytes(self._view[start + 4 : start + 4 + length])
        return self._strings[start]

    def _length(self, start: int) -> int:
        self._need(start, 4)
        length: int = _OFFSET.unpack_from(self._view, start)[0]
        return length

    def target(self, place: int) -> int:
        """Where the offset at a place leads."""
        self._need(place, 4)
        offset: int = _OFFSET.unpack_from(self._view, place)[0]
        return place + offset

    def _take(self, start: int, size: int) -> None:
        """As `_need`, for bytes that are read one by one."""
        self._need(start, size)
        self._left -= size
        if self._left < 0:
            raise BadFlatbuffer("the parts of the file overlap", expected=f"{self._size} bytes of vectors and strings")

    def _need(self, start: int, size: int) -> None:
        if start < 0 or start + size > self._size:
            extent = f"{size} bytes at {start}"
            raise BadFlatbuffer(
                "an offset or a length leads out of the file", expected=f"{self._size} bytes in all", found=extent
            )
