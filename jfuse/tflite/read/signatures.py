"""The signatures of a .tflite file: the names by which its inputs and outputs are called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Graph, Signature, State
from jfuse.tflite.read.fields import text
from jfuse.tflite.read.subgraph import Subgraph


class Entries(Protocol):
    """The subgraphs of a file that signatures name."""

    def subgraph(self, index: int, where: str | None = None) -> Subgraph:
        """The reader of the subgraph with that index.   where: what names it, for an error where there is none"""

    def entry(self, index: int) -> tuple[Graph, tuple[State, ...]]:
        """A subgraph as a graph, and what it keeps between calls."""


def unnamed_signature(file: Entries, index: int, key: str) -> Signature:
    """A signature for a subgraph for which the file has none: by the names of its tensors."""
    reader = file.subgraph(index)
    names = [[reader.tensors.name(i) for i in places] for places in (reader.inputs, reader.outputs)]
    graph, states = file.entry(index)
    return Signature(key, graph, _unique(names[0]), _unique(names[1]), states)


def signature(file: Entries, table: Any) -> Signature:
    """A signature as the program has it, of its table in the file; BadFlatbuffer where names do not fit the tensors."""
    key = text(table.signatureKey)
    where = f"signature {key!r}"
    reader = file.subgraph(int(table.subgraphIndex), where)
    graph, states = file.entry(reader.index)
    inputs = _names_in_order(table.inputs or (), reader.inputs, f"{where}, inputs")
    outputs = _names_in_order(table.outputs or (), reader.outputs, f"{where}, outputs")
    return Signature(key, graph, inputs, outputs, states)


def _names_in_order(maps: Sequence[Any], places: Sequence[int], where: str) -> tuple[str, ...]:
    """The names of the tensors at `places`; the file may list them in any order."""
    names: dict[int, list[str]] = {}
    for entry in maps:
        names.setdefault(int(entry.tensorIndex), []).append(text(entry.name, where))
    if sorted(places) != sorted(index for index, group in names.items() for _ in group):
        raise BadFlatbuffer(
            "a signature does not name each tensor once", where=where, expected=sorted(places), found=sorted(names)
        )
    in_order = tuple(names[place].pop(0) for place in places)
    if len(set(in_order)) != len(in_order):
        raise BadFlatbuffer("two tensors of a signature have one name", where=where, found=in_order)
    return in_order


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name if names.count(name) == 1 and name else f"{name}_{i}" for i, name in enumerate(names))
