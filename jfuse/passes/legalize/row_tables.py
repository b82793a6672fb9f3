"""What is computed of the rows of constant tables, as rows of one table.

Of w[ids] / s[ids], as in Keras's quantized `Embedding`, the rows of w / s are left, which integers stand for anyway.
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
    found: dict[Var, RowTable] = {}
    for eqn in graph.eqns:
        table = row_table(eqn, found)
        if table is not None:
            found[eqn.outputs[0]] = table
    readers, results = users(graph), set(graph.outputs)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        table = found.get(eqn.outputs[0]) if eqn.outputs else None
        if table is None or picks_rows(eqn) or not wanted(eqn):
            return None
        (var,) = eqn.outputs
        if var.type.dtype is not DType.f32:
            return None
        if var not in results and all(not found.keys().isdisjoint(r.outputs) for r in readers.get(var, ())):
            return None
        row = tuple(map(int, var.type.shape[table.ids.type.rank :]))
        if table.rows * prod(row) > table.elements:
            return None
        return [ops.gather(table.make().reshape(table.rows, *row), rewriting.current(table.ids))]

    rewriting = Rewriting(with_bodies(graph, lambda body: with_row_tables(body, wanted)))
    return rewriting.run(visit)
