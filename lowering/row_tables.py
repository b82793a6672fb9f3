"""Values that have a row for each of their ids, made of rows of constant tables.

Keras's quantized `Embedding` is w[ids] / s[ids], whose rows are those of w / s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.kernels import ops


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
