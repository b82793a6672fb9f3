"""Embedding tables: embedding_lookup and embedding_matmul."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, floor_divided, is_known, product, same, symbols_in, symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns, producers, substitute_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.case_distinctions import run_time_switches
from jfuse.lowering.rule_tools.operands import as_i32
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


# Lookups without a TensorFlow op, as composites: hashtable_lookup, embedding_lookup_sparse and lsh_projection.

_COMBINERS = ("sum", "mean", "sqrtn")


@fuses("hashtable_lookup", claims={"compare", "select"}, makes=("HASHTABLE_LOOKUP",))
def fuse_hashtable_lookup(lookup: Array, keys: Array, values: Array) -> tuple[Array, Array]:
    """Rows of values by key, zeros for what is no key, and which keys there were -> HASHTABLE_LOOKUP.

    lookup: i32[n]; keys: i32[k], ascending constants less than 2^31 apart; values: any[k, ...];
    results: any[n, ...], u8|bool[n]. Claims the comparison with the keys, and the choice of zeros.
    """
    need(
        dtype(lookup) is dtype(keys) is DType.i32,
        "lookup_operands",
        want="i32",
        got=f"{type_of(lookup)}, {type_of(keys)}",
    )
    need(rank(lookup) == 1 and rank(keys) == 1, "lookup_operands", want=1, got=f"{type_of(lookup)}, {type_of(keys)}")
    need(is_constant(keys), "lookup_at_run_time", want="constant keys", got=str(type_of(keys)))
    wide = np.asarray(keys, np.int64)
    need(len(wide) and bool((np.diff(wide) > 0).all()), "keys_not_sorted", want="ascending keys, one at least")
    # The runtime subtracts what it compares; the lookup may be anything, so the keys have half of the range.
    near = -(2**30) <= wide[0] and wide[-1] < 2**30
    need(near, "keys_far_apart", want="keys from -2^30 to 2^30", got=f"{wide[0]} to {wide[-1]}")
    low, high = (np.asarray(end, np.int32) for end in (wide[0] - 1, wide[-1] + 1))
    rows, hits = ops.hashtable_lookup(ops.minimum(ops.maximum(lookup, low), high), keys, values)
    hits_dtype = site().result_type(1).dtype
    return rows, hits if hits_dtype is DType.u8 else ops.cast(hits, out_data_type=hits_dtype)


@fuses("embedding_lookup_sparse", makes=("EMBEDDING_LOOKUP_SPARSE",))
def fuse_embedding_lookup_sparse(
    params: Array, ids: Array, indices: Array, dense_shape: Array, weights: Array, *, combiner: str = "mean"
) -> Array:
    """Weighed sums, means, or sums over the root of the squares of embeddings by row -> EMBEDDING_LOOKUP_SPARSE.

    params: f32[rows, ...]; ids: i32|i64[n]; indices: i32|i64[n, rank], where each id stands, constant and row by row;
    dense_shape: i32|i64[rank], constant; weights: f32[n]; result: f32[*dense_shape[:-1], ...]
    A body that guards its divisor, as of rows without ids, gets sums over weights that its own factors have multiplied.
    """
    need(combiner in _COMBINERS, "combiner", want=" or ".join(_COMBINERS), got=combiner)
    need(
        dtype(params) is DType.f32 and dtype(weights) is DType.f32,
        "lookup_operands",
        want="f32",
        got=str(type_of(params)),
    )
    need(rank(params) >= 2, "lookup_operands", want="2 or more", got=str(type_of(params)))
    need(is_constant(dense_shape), "lookup_at_run_time", want="a constant shape", got=str(type_of(dense_shape)))
    need(is_constant(indices), "lookup_at_run_time", want="constant indices", got=str(type_of(indices)))
    outer = [tuple(place) for place in np.asarray(indices)[:, :-1].tolist()]
    if combiner != "sum" and next(run_time_switches(site().body), None) is not None:
        operands = dict(params=params, ids=ids, indices=indices, dense_shape=dense_shape, weights=weights)
        rows: Any = np.ravel_multi_index(np.transpose(outer), np.asarray(dense_shape)[:-1]) if outer else []
        weights, combiner = ops.mul(weights, ops.gather(_factors(operands), np.asarray(rows, np.int32))), "sum"
    # The kernel divides a row's sum as soon as another row begins.
    need(combiner == "sum" or outer == sorted(outer), "indices_not_sorted", want="the ids of a row side by side")
    limit = site().index_limit(ids)
    need(limit is not None, "ids_out_of_range", want="a body that gathers with the ids as they are")
    return ops.embedding_lookup_sparse(
        as_i32(ids), as_i32(indices), as_i32(dense_shape), weights, params, combiner=combiner.upper()
    )


def _factors(operands: Mapping[str, Array]) -> Array:
    """Compute the body's factor of each row of sums: its result for sums of ones."""
    body, names = site().body, site().arguments
    bound = [operands.get(name) for name in names]
    bound = list(operands.values()) if any(a is None for a in bound) else bound
    table = next(v for v, a in zip(body.inputs, bound, strict=True) if a is operands["params"])
    total = _sums(body, table)
    need(total.type.is_static, "lookup_operands", want="sums of known sizes", got=str(total.type))
    ones = Const(np.ones([int(d) for d in total.type.shape], np.float32))
    after = substitute_graph(body, {total: ones})
    (factors,) = evaluate(replace(after, eqns=live_eqns(after, after.outputs)), bound)
    rows = product(body.outputs[0].type.shape[: -(rank(operands["params"]) - 1)])
    return ops.reshape(ops.strided_slice(ops.reshape(factors, [rows, -1]), [0, 0], [rows, 1], [1, 1]), [-1])


def _sums(body: Graph, table: Var) -> Var:
    """The last value from a table that is more than another one element by element: the sums of its rows."""
    made, of_table = producers(body), {table}
    for eqn in body.eqns:
        of_table.update(eqn.outputs if of_table.intersection(a for a in eqn.inputs if isinstance(a, Var)) else ())
    (atom,) = body.outputs
    while isinstance(atom, Var) and (maker := made.get(atom)) is not None:
        sources = [a for a in maker.inputs if isinstance(a, Var) and a in of_table]
        if len(sources) != 1 or not (maker.op.elementwise or maker.op.moves == "renames"):
            break
        (atom,) = sources
    need(isinstance(atom, Var), "lookup_operands", want="a result that depends on the table")
    assert isinstance(atom, Var)
    return atom


@fuses("lsh_projection", makes=("LSH_PROJECTION",))
def fuse_lsh_projection(hash: Array, input: Array, weight: Array, *, type: str = "dense") -> Array:  # noqa: A002 - the interface
    """Bits of a projection by hashing -> LSH_PROJECTION.

    hash: f32[hashes, bits]; input: any[n, ...] but strings; weight: f32[n]; result: i32[hashes * bits] for dense, a
    number for each hash for sparse.
    """
    need(type in ("dense", "sparse"), "projection_type", want="dense or sparse", got=type)
    need(
        dtype(hash) is dtype(weight) is DType.f32,
        "lookup_operands",
        want="f32",
        got=f"{type_of(hash)}, {type_of(weight)}",
    )
    need(dtype(input) is not DType.string, "lookup_operands", want="lookup_operands", got=str(type_of(input)))
    return ops.lsh_projection(hash, input, weight, type=type.upper())
