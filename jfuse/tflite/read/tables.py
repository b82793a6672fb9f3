"""The lookup tables of a .tflite file, read as constants: the first operands of a lookup."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jfuse.base.errors import BadFlatbuffer, LowerError
from jfuse.ir.graph import Atom, Const
from jfuse.tflite.read.fields import options_of
from jfuse.tflite.read.states import StateReader

ON_TABLES = frozenset({"HASHTABLE", "HASHTABLE_IMPORT"})
"""Builtins without an equation: in the IR a table is two constants."""

Contents = tuple[Const, Const]


def filled_tables(reader: StateReader) -> dict[int, Contents]:
    """Read the constants that a subgraph fills tables with, by the table's number. Raises LowerError if computed."""
    numbers = _handles(reader)
    contents_of: dict[int, Contents] = {}
    for builtin, operator in reader.calls():
        if builtin != "HASHTABLE_IMPORT":
            continue
        handle, keys, values = reader.tensors.exactly(operator.inputs, 3, f"{reader.where} ({builtin})")
        contents = (reader.tensors.constant(keys), reader.tensors.constant(values))
        if handle not in numbers or contents[0] is None or contents[1] is None:
            raise LowerError("the contents of a table are computed", where=reader.where, expected="constants")
        contents_of.setdefault(numbers[handle], (contents[0], contents[1]))  # the runtime ignores later imports
    return contents_of


def lookup_operands(reader: StateReader, tables: Mapping[int, Contents], operator: Any) -> list[Atom | None]:
    """The operands of a HASHTABLE_FIND, the contents of its table in place of the handle."""
    handle, *others = reader.tensors.exactly(operator.inputs, 3, f"{reader.where} (HASHTABLE_FIND)")
    number = _handles(reader).get(handle)
    if number is None or number not in tables:
        raise BadFlatbuffer("a lookup table is never filled", where=reader.where)
    return [*tables[number], *(reader.read(i) for i in others)]


def _handles(reader: StateReader) -> dict[int, int]:
    """The numbers of the tables of a subgraph, by the tensor with the handle."""
    number_of = {}
    for builtin, operator in reader.calls():
        if builtin == "HASHTABLE" and (table := options_of(builtin, operator)) is not None:
            (handle,) = reader.tensors.exactly(operator.outputs, 1, f"{reader.where} ({builtin})")
            number_of[handle] = int(table.tableId)
    return number_of
