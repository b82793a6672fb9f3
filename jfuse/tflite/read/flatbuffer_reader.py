"""Reading the tables of a flatbuffer with every offset and length checked, whatever the bytes are.

The generated module's own reader follows offsets blindly: out of the file, and the same ones again and again.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from struct import Struct
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import to_numpy_type

from jfuse.base.errors import BadFlatbuffer
from jfuse.tflite.schema import members

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
        for offset, member in fields:
            try:
                self._set(table, member, start + offset)
            except BadFlatbuffer as error:
                inner = error.where or ""
                error.where = f"{member.name}{'' if inner.startswith('[') or not inner else '.'}{inner}"
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
            for place, member in fields:
                width = member.scalar.itemsize if member.scalar is not None and not member.is_vector else 4
                if place < 4 or place + width > table:
                    raise BadFlatbuffer("a field lies outside of its table", where=member.name, found=place)
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


# The fields of the schema's tables, found out by asking the generated accessors what they would read.

# Which enum tells what is in a union. (A field's type stands in the field of the same name with `Type` behind it.)
_UNIONS: Mapping[tuple[str, str], type] = {
    ("Operator", "BuiltinOptions"): schema.BuiltinOptions,
    ("Operator", "BuiltinOptions2"): schema.BuiltinOptions2,
    ("QuantizationParameters", "Details"): schema.QuantizationDetails,
    ("DimensionMetadata", "ArraySegments"): schema.SparseIndexVector,
    ("DimensionMetadata", "ArrayIndices"): schema.SparseIndexVector,
}
_OF_A_VECTOR = ("AsNumpy", "Length", "IsNone")  # what a vector's accessor has beside it


@dataclass(frozen=True)
class Field:
    """One field of a table.

    name: as the generated object has it. scalar: the dtype of a number, or of a vector's items. table: the class of a
    subtable, or of a vector's items. union: the classes by the number in the field `name` + "Type". A field that has
    neither is a string, or a vector of strings.
    """

    name: str
    slot: int  # in a table's list of offsets, from 0 on
    is_vector: bool
    scalar: np.dtype[Any] | None = None
    table: type | None = None
    union: Mapping[int, type] | None = None


@cache
def fields_of(table: Any) -> tuple[Field, ...]:
    """The fields of a table, in the order of their slots."""
    beside = {name + suffix for name in vars(table) for suffix in _OF_A_VECTOR}
    fields = [_field(table, name) for name, member in vars(table).items() if _is_accessor(name, member, beside)]
    return tuple(sorted(fields, key=lambda f: f.slot))


def object_of(table: Any) -> type:
    """The class whose instances hold a table's fields as attributes."""
    made: type = getattr(schema, f"{table.__name__}T")
    return made


def _is_accessor(name: str, member: Any, beside: Collection[str]) -> bool:
    return inspect.isfunction(member) and name != "Init" and name not in beside


def _field(table: type, name: str) -> Field:
    probe = _Probe()
    instance = table()
    instance._tab = probe
    accessor = getattr(instance, name)
    result = accessor(0) if inspect.signature(accessor).parameters else accessor()
    attribute = name[0].lower() + name[1:]
    slot = (probe.offset - 4) // 2
    if probe.is_union:
        enum = _UNIONS[table.__name__, name]
        classes = {number: getattr(schema, member) for member, number in members(enum).items() if number}
        return Field(attribute, slot, False, union=classes)
    if probe.flags is not None:
        return Field(attribute, slot, probe.is_vector, scalar=np.dtype(to_numpy_type(probe.flags)))
    return Field(attribute, slot, probe.is_vector, table=None if probe.is_string else type(result))


@dataclass
class _Probe:
    """Replaces the reader behind an accessor, and notes the fields that it reads."""

    offset: int = 0
    flags: Any = None
    is_vector: bool = False
    is_string: bool = False
    is_union: bool = False
    Pos: int = 0
    Bytes: bytes = field(default=bytes(64))

    def Offset(self, offset: int) -> int:
        """The place of a field in the table: any but 0, which says that the field is absent."""
        self.offset = offset
        return offset

    def Get(self, flags: Any, position: int) -> int:
        """A number."""
        self.flags = flags
        return 0

    def Vector(self, offset: int) -> int:
        """Where a vector begins."""
        self.is_vector = True
        return 0

    def String(self, position: int) -> bytes:
        """A string."""
        self.is_string = True
        return b""

    def Indirect(self, position: int) -> int:
        """Where a table begins."""
        return 0

    def Union(self, target: Any, offset: int) -> None:
        """Point `target` to the table in a union."""
        self.is_union = True
