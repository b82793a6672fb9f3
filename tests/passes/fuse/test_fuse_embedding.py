"""Embeddings marked as composites: EMBEDDING_LOOKUP where every id is looked up as the source does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import function
from tensorflow.python.ops import functional_ops, gen_array_ops, inplace_ops

import jfuse
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites import embedding
from tests.cells import BATCH, STEPS, f32, weights
from tests.passes.fuse.composites import Function, call, conditions, fused, op_names

TABLE = weights(5, 3)


def gathered(table: Array, ids: Array) -> Array:
    return ops.gather(table, ids, axis=0)


def one_hot(table: Array, ids: Array) -> Array:
    """What the guide's embedding_matmul does: rows of zeros for ids out of range, which of 64 bits become i32."""
    if ids.type.dtype is DType.i64:
        ids = ops.cast(ops.minimum(ops.maximum(ids, np.int64(-1)), np.int64(5)), out_data_type=DType.i32)
    rows = ops.one_hot(ids, 5, np.asarray(1, np.float32), np.asarray(0, np.float32))
    return ops.batch_matmul(rows, table)


def rows_in_place(table: Any, ids: Any) -> Any:
    """Each row written by an inplace update, in a loop whose number of steps is computed in floats."""
    rows = inplace_ops.empty([tf.shape(ids)[0], 3], tf.float32)

    @function.Defun(tf.int32, tf.float32, tf.int32, tf.float32)
    def step(i: Any, table: Any, ids: Any, rows: Any) -> Any:
        row = tf.reshape(tf.gather(table, tf.gather(ids, i)), [1, 3])
        return table, ids, gen_array_ops.inplace_update(rows, [i], row)

    return functional_ops.For(0, tf.shape(ids)[0], 1, [table, ids, rows], step, rewrite_with_while=True)[2]


def rows_appended(table: Any, ids: Any) -> Any:
    """A list that grows, whose size the loop does not state."""
    count = tf.shape(ids)[0]

    def step(i: Any, rows: Any) -> Any:
        return i + 1, tf.concat([rows, tf.gather(table, ids[i : i + 1])], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None, None])]
    return tf.while_loop(lambda i, rows: i < count, step, [0, tf.zeros([0, 3])], shape_invariants=shapes)[1]


def rows_masked(table: Any, ids: Any) -> Any:
    """As many rows as a mask lets through, which is all."""
    return tf.boolean_mask(tf.gather(table, ids), tf.ones_like(ids, tf.bool))


def embedding_graph(body: Function, ids: TensorType, table: TensorType | None = None) -> Graph:
    def model(ids: Array, *tables: Array) -> Array:
        return call(body, [tables[0] if tables else TABLE, ids], ["params", "indices"], "embedding_matmul")[0]

    return trace_graph(model, [ids] + ([] if table is None else [table]))


@pytest.mark.parametrize("shape", [(BATCH,), (BATCH, 6), (BATCH, STEPS), (2, 3)])
@pytest.mark.parametrize("dtype", [DType.i32, DType.i64])
def test_embedding_by_gather(shape: tuple[Any, ...], dtype: DType) -> None:
    result, ctx = fused(embedding_graph(gathered, TensorType(shape, dtype)), embedding.fuse_embedding)
    assert conditions(ctx) == []
    assert op_names(result).count("embedding_lookup") == 1
    assert "maximum" not in op_names(result)
    sizes = [2, 6 if len(shape) > 1 and shape[1] == 6 else 3][: len(shape)]
    ids = np.random.default_rng(2).integers(0, 5, sizes).astype(dtype.numpy)
    np.testing.assert_array_equal(evaluate(result, [ids])[0], TABLE[ids])


def test_rows_of_another_shape_are_reshaped() -> None:
    def flat(table: Array, ids: Array) -> Array:
        return ops.reshape(ops.gather(table, ids, axis=0), [-1, 4])

    table = weights(5, 4).reshape(5, 2, 2)

    def model(ids: Array) -> Array:
        return call(flat, [table, ids], ["params", "indices"], "embedding_lookup")[0]

    result, ctx = fused(trace_graph(model, [TensorType((BATCH,), DType.i32)]), embedding.fuse_embedding)
    assert conditions(ctx) == []
    assert [op_names(result)[i] for i in (0, -1)] == ["embedding_lookup", "reshape"]
    ids = np.array([4, 0, 0], np.int32)
    np.testing.assert_array_equal(evaluate(result, [ids])[0], table[ids].reshape(3, 4))


@pytest.mark.parametrize("steps", [None, 5])
@pytest.mark.parametrize("body", [rows_in_place, rows_appended, rows_masked], ids=lambda body: body.__name__)
def test_rows_one_by_one(body: Any, steps: int | None) -> None:
    """As the guide of fusions has it; and with bodies that do not know how many rows they give."""
    table = tf.constant(TABLE)
    marked = tf.function(body, experimental_implements="embedding_lookup", autograph=False)
    spec = tf.TensorSpec([steps], tf.int32, name="ids")
    lite = jfuse.convert(tf.function(lambda ids: marked(table, ids), input_signature=[spec], autograph=False))
    assert lite.report.operators == {"embedding_lookup": 1}
    assert lite.report.refused == []
    ids = np.array([4, 0, 0, 3, 1], np.int32)
    np.testing.assert_array_equal(lite(ids), TABLE[ids])


@pytest.mark.parametrize("dtype", [DType.i32, DType.i64])
def test_embedding_by_one_hot_gives_zeros_out_of_range(dtype: DType) -> None:
    result, ctx = fused(embedding_graph(one_hot, TensorType((BATCH, 3), dtype)), embedding.fuse_embedding)
    assert conditions(ctx) == []
    assert op_names(result).count("embedding_lookup") == 1
    info = np.iinfo(dtype.numpy)
    ids = np.array([[0, 4, 2], [-1, 5, 3], [info.min, info.max, 1]], dtype.numpy)
    expected = [[TABLE[i] if 0 <= i < 5 else np.zeros(3) for i in row] for row in ids.tolist()]
    np.testing.assert_array_equal(evaluate(result, [ids])[0], expected)


def test_embedding_by_one_hot_in_a_computed_table_is_refused() -> None:
    graph = embedding_graph(one_hot, TensorType((BATCH,), DType.i32), f32(5, 3))
    result, ctx = fused(graph, embedding.fuse_embedding)
    assert conditions(ctx) == ["ids_out_of_range"]
    assert "embedding_lookup" not in op_names(result)


def test_embedding_by_gather_in_a_computed_table() -> None:
    graph = embedding_graph(gathered, TensorType((BATCH,), DType.i32), f32(5, 3))
    result, _ = fused(graph, embedding.fuse_embedding)
    assert op_names(result) == ["embedding_lookup"]


@pytest.mark.parametrize(
    ("ids", "table", "condition"),
    [
        (TensorType((BATCH,), DType.i32), f32(symbol("V"), 3), "table_size"),
        (TensorType((BATCH,), DType.i32), f32(5), "table_rank"),
    ],
)
def test_embeddings_that_are_refused(ids: TensorType, table: TensorType, condition: str) -> None:
    _, ctx = fused(embedding_graph(gathered, ids, table), embedding.fuse_embedding)
    assert conditions(ctx) == [condition]


def test_float_ids_are_refused() -> None:
    def body(table: Array, ids: Array) -> Array:
        return ops.gather(table, ops.cast(ids, out_data_type=DType.i32), axis=0)

    _, ctx = fused(embedding_graph(body, f32(BATCH)), embedding.fuse_embedding)
    assert conditions(ctx) == ["integer_ids"]


@pytest.mark.parametrize(("rows", "dtype", "condition"), [(126, "i8", None), (127, "i8", "ids_dtype")])
def test_ids_too_narrow_for_the_rows_around_the_table_are_refused(rows: int, dtype: str, condition: str | None) -> None:
    table = weights(rows, 3)

    def body(table: Array, ids: Array) -> Array:
        wide = ops.cast(ids, out_data_type=DType.i32)
        found = ops.one_hot(wide, rows, np.asarray(1, np.float32), np.asarray(0, np.float32))
        return ops.batch_matmul(found, table)

    def model(ids: Array) -> Array:
        return call(body, [table, ids], ["params", "indices"], "embedding_matmul")[0]

    result, ctx = fused(trace_graph(model, [TensorType((BATCH,), DType(dtype))]), embedding.fuse_embedding)
    assert conditions(ctx) == ([] if condition is None else [condition])
    assert ("embedding_lookup" in op_names(result)) == (condition is None)
    ids = np.array([-128, -1, 0, rows - 1, 127], np.int8)
    wanted = [table[i] if 0 <= i < rows else np.zeros(3) for i in ids.tolist()]
    np.testing.assert_array_equal(evaluate(result, [ids])[0], wanted)
