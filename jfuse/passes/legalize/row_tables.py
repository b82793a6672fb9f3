"""Computes on whole constant tables what the graph computes on their rows, and looks rows up in the result.

w[ids] / s[ids], as Keras's quantized `Embedding` has it, becomes (w / s)[ids]. Integers can still represent w / s.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import users, with_bodies
from jfuse.kernels import ops
from jfuse.lowering.row_tables import RowTable, picks_rows, row_table
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
