"""Embedding tables: embedding_lookup and embedding_matmul."""

from __future__ import annotations

import numpy as np

from jfuse.ir.dims import Shape, floor_divided, is_known, product, same, symbols_in, symbols_of
from jfuse.ir.graph import Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar, type_of
from jfuse.lowering.rule_tools.rule_context import site
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor
from jfuse.lowering.rules import fuses, need

_MOST_ROWS = 2**31 - 3  # an id is i32, and so is one more than the last


@fuses("embedding_lookup", "embedding_matmul", claims={"compare"}, makes=("EMBEDDING_LOOKUP",))
def fuse_embedding(table: Array, ids: Array) -> Array:
    """Rows of a table by id -> EMBEDDING_LOOKUP.   table: n[rows, ...]; ids: i[...] -> n[..., ...]

    A body that gives its rows another shape, as flat ones, gets a RESHAPE. TFLite fails on an id out of range. So does
    a body that gathers; one that multiplies with a one-hot row gives zeros there, and the table gets a row of zeros
    before and behind it for that. Claims the comparison in the one-hot row.
    """
    need(rank(table) >= 2, "table_rank", want="2 or more", got=str(type_of(table)))
    need(dtype(ids).is_integer, "integer_ids", want="an integer", got=str(type_of(ids)))
    rows = table.shape[0]
    need(isinstance(rows, int) and 0 < rows <= _MOST_ROWS, "table_size", want=f"1 to {_MOST_ROWS} rows", got=rows)
    if site().index_limit(ids) is None:
        table, ids = _guarded(table, ids)
    ids = ids if dtype(ids) is DType.i32 else ops.cast(ids, out_data_type=DType.i32)
    looked_up = ops.embedding_lookup(ids if rank(ids) == 1 else ops.reshape(ids, [-1]), table)
    shape = _shape(ids, table)
    if rank(ids) == 1 and len(shape) == rank(table):
        return looked_up
    sources = [v for v in (ids, looked_up) if isinstance(v, Var)]
    return ops.reshape(looked_up, shape_tensor(shape, sources))


def _shape(ids: Array, table: Array) -> Shape:
    """The shape of the result: of the ids and a row, or that of the body where it has as many elements."""
    own, (first, *row) = (*ids.shape, *table.shape[1:]), site().result_type(0).shape or (1,)
    size = product(tuple(row))
    if len(own) == 1 + len(row) or not is_known(size) or not size:
        return own
    count = floor_divided(product(own), size)
    is_lost = symbols_of(first) - symbols_in((own,))  # its body does not know how many rows there are
    return (count, *row) if is_lost or same(first, count) is True else own


def _guarded(table: Array, ids: Array) -> tuple[Array, Array]:
    """A table with a row of zeros at both ends, and ids that fall on them where they were out of range.

    Compared in the dtype of the ids: an i64 is cut to 32 bits only when it is in range.
    """
    need(is_constant(table), "ids_out_of_range", want="a constant table", got=str(type_of(table)))
    zeros = np.zeros_like(table[:1])
    extended = np.concatenate([zeros, table, zeros])
    info = np.iinfo(dtype(ids).numpy)
    fits = info.max > len(table)
    need(fits, "ids_dtype", want=f"ids that can be {len(table)}", got=str(type_of(ids)))
    if info.min < 0:
        ids = ops.maximum(ids, scalar(-1, ids))
    return extended, ops.add(ops.minimum(ids, scalar(len(table), ids)), scalar(1, ids))
