"""Computes on whole constant tables what the graph computes on their rows, and looks rows up in the result.

w[ids] / s[ids], as Keras's quantized `Embedding` has it, becomes (w / s)[ids]. Integers can still represent w / s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import users, with_bodies
from jfuse.kernels import ops
from jfuse.passes.rewrite import Rewriting


def with_row_tables(graph: Graph, wanted: Callable[[Eqn], bool]) -> Graph:
    """The graph with one table of floats for several, where none gets larger; bodies included.

    wanted: whether to make one for what an equation gives.
    """
    tables: dict[Var, RowTable] = {}
    for eqn in graph.eqns:
        table = row_table(eqn, tables)
        if table is not None:
            tables[eqn.outputs[0]] = table
    readers, results = users(graph), set(graph.outputs)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        table = tables.get(eqn.outputs[0]) if eqn.outputs else None
        if table is None or picks_rows(eqn) or not wanted(eqn):
            return None
        (var,) = eqn.outputs
        if var.type.dtype is not DType.f32:
            return None
        # Only the last value of a chain becomes a table: the ones before it vanish with their readers.
        if var not in results and all(not tables.keys().isdisjoint(r.outputs) for r in readers.get(var, ())):
            return None
        row = tuple(map(int, var.type.shape[table.ids.type.rank :]))
        if table.rows * prod(row) > table.elements:
            return None
        return [ops.gather(table.make().reshape(table.rows, *row), rewriting.current(table.ids))]

    rewriting = Rewriting(with_bodies(graph, lambda body: with_row_tables(body, wanted)))
    return rewriting.run(visit)


# Values that have a row for each of their ids, made of rows of constant tables.
# Keras's quantized `Embedding` is w[ids] / s[ids], whose rows are those of w / s.


@dataclass(frozen=True)
class RowTable:
    """A value with a row for each of its ids, which depends on this id alone.

    ids: i32|i64[...], whose axes are the first ones of the value. rows: how many ids there are. elements: of the
    largest table that it is made of. make: gives the value of all ids: any[1, ..., 1, rows, ...].
    """

    ids: Var
    rows: int
    elements: int
    make: Callable[[], np.ndarray]


def picks_rows(eqn: Eqn) -> bool:
    """Whether an equation picks rows of a constant table."""
    is_plain = eqn.op is ops.gather and not eqn.params["axis"] and not eqn.params["batch_dims"]
    return is_plain and isinstance(eqn.inputs[0], Const) and isinstance(eqn.inputs[1], Var)


def row_table(eqn: Eqn, tables_of: Mapping[Var, RowTable]) -> RowTable | None:
    """Return an equation's result as a table; None where it is none."""
    if picks_rows(eqn):
        return _picked(eqn)
    variables = [a for a in eqn.inputs if isinstance(a, Var)]
    tables = [tables_of[a] for a in variables if a in tables_of]
    if not tables or len(tables) < len(variables) or len({(t.ids, t.rows) for t in tables}) > 1:
        return None
    ids, rows, elements = tables[0].ids, tables[0].rows, max(t.elements for t in tables)
    shape, rank = eqn.outputs[0].type.shape, ids.type.rank
    if shape[:rank] != ids.type.shape or not all(map(is_known, shape[rank:])):
        return None
    if eqn.op.moves == "renames":
        (table,) = tables
        of_all = (*(1 for _ in range(rank - 1)), rows, *map(int, shape[rank:]))
        return RowTable(ids, rows, elements, lambda: table.make().reshape(of_all))
    if not _is_by_row(eqn, len(shape), rank):
        return None

    def make() -> np.ndarray:
        operands = [
            tables_of[a].make() if isinstance(a, Var) else a.array if isinstance(a, Const) else a for a in eqn.inputs
        ]
        return np.asarray(eqn.op.run(operands, eqn.params, ())[0])

    return RowTable(ids, rows, elements, cache(make))  # what several read is computed once


def _picked(eqn: Eqn) -> RowTable | None:
    table, ids = eqn.inputs
    assert isinstance(table, Const), "picks_rows"
    assert isinstance(ids, Var), "picks_rows"
    array, before = table.array, (1,) * (ids.type.rank - 1)
    return (
        RowTable(ids, len(array), array.size, lambda: array.reshape(*before, *array.shape)) if ids.type.rank else None
    )


def _is_by_row(eqn: Eqn, result: int, rank: int) -> bool:
    """Whether an equation computes each row by itself.   result: its rank; rank: that of the ids"""
    if eqn.op is ops.gather:
        return eqn.params["axis"] >= rank and not eqn.params["batch_dims"] and isinstance(eqn.inputs[0], Var)
    return eqn.op.elementwise and all(_fits(a, result, rank) for a in eqn.inputs if a is not None)


def _fits(atom: Atom, result: int, rank: int) -> bool:
    """Whether an operand is the same for all ids, or a table itself."""
    shape = atom.type.shape
    return (
        len(shape) == result
        if isinstance(atom, Var)
        else all(d == 1 for d in shape[: max(len(shape) - result + rank, 0)])
    )
