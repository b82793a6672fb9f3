"""The fields of the schema's tables, found out by asking the generated accessors what they would read."""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers.number_types import to_numpy_type

from jfuse.tflite.schema import members

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
