"""The option tables of operators that are kept as they are: as bytes of their own, without the subgraphs they name."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import flatbuffers
import numpy as np

from jfuse.tflite.schema import new_options, subgraph_fields


def packed_options(table: Any) -> bytes:
    """An option table as a flatbuffer; b"" for None. The subgraphs that it names are left out."""
    if table is None:
        return b""
    table = copy.copy(table)
    for field in subgraph_fields(table):
        if (value := getattr(table, field)) is not None:
            setattr(table, field, np.zeros_like(value) if isinstance(value, np.ndarray) else 0)
    builder = flatbuffers.Builder(64)
    builder.Finish(table.Pack(builder))
    return bytes(builder.Output())


def named_subgraphs(table: Any) -> list[int]:
    """The subgraphs that an option table names, in the order of its fields."""
    indices: list[int] = []
    for field in subgraph_fields(table):
        value = getattr(table, field)
        indices += [] if value is None else [int(i) for i in np.atleast_1d(value)]
    return indices


def opaque_table(builtin: str, options: bytes, bodies: Sequence[int]) -> tuple[int, int, Any]:
    """The option table in the bytes of `packed_options`: (union 1 or 2, number in the union, table or None).

    bodies: the subgraphs that it names.
    """
    union, number, table = new_options(builtin)
    if not options or table is None:
        return union, 0, None
    table = type(table).InitFromPackedBuf(options)
    left = list(bodies)
    for field in subgraph_fields(table):
        value = getattr(table, field)
        if isinstance(value, np.ndarray):
            setattr(table, field, np.array([left.pop(0) for _ in value], np.int32))
        elif value is not None:
            setattr(table, field, left.pop(0))
    return union, number, table
