"""Lookups marked as composites: HASHTABLE_LOOKUP and EMBEDDING_LOOKUP_SPARSE."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.composites import embedding as rules
from tests.cells import BATCH, weights
from tests.end_to_end.invokes import check_invokes
from tests.passes.fuse.composites import call, conditions, fused, op_names

KEYS = np.array([-3, 4, 17, 900], np.int32)
VALUES = weights(4, 3)
IDS = TensorType((BATCH,), DType.i32)
PLACES = np.array([[0, 0], [0, 1], [2, 0], [2, 2]], np.int32)
SHAPE = np.array([3, 4], np.int32)
TABLE = weights(7, 2)


def looked_up(lookup: Any, keys: Any, values: Any) -> Any:
    hits = ops.equal(ops.expand_dims(lookup, 1), keys)
    ones = ops.cast(hits, out_data_type=DType.f32)
    return ops.batch_matmul(ones, values), ops.cast(ops.reduce_any(hits, [1]), out_data_type=DType.u8)


def missing_is_one(lookup: Any, keys: Any, values: Any) -> Any:
    found, hits = looked_up(lookup, keys, values)
    return ops.add(found, np.float32(1)), hits


def table_graph(body: Any = looked_up, keys: Any = KEYS, ids: TensorType = IDS) -> Graph:
    def model(x: Any) -> Any:
        return call(body, [x, keys, VALUES], ["lookup", "keys", "values"], "hashtable_lookup")

    return trace_graph(model, [ids])


def test_hashtable_lookup() -> None:
    result, ctx = fused(table_graph(), rules.fuse_hashtable_lookup)
    assert conditions(ctx) == []
    assert op_names(result) == ["maximum", "minimum", "hashtable_lookup"]
    x = np.array([4, 900, 5, -3, 2**31 - 1, -(2**31)], np.int32)
    found, hits = evaluate(result, [x])
    np.testing.assert_array_equal(found, [VALUES[1], VALUES[3], [0] * 3, VALUES[0], [0] * 3, [0] * 3])
    assert hits.tolist() == [1, 1, 0, 1, 0, 0]


@pytest.mark.parametrize(
    ("graph", "condition"),
    [
        (table_graph(missing_is_one), "not_equal"),
        (table_graph(keys=KEYS[::-1].copy()), "keys_not_sorted"),
        (table_graph(keys=np.array([0, 1, 2, 2**30], np.int32)), "keys_far_apart"),
        (table_graph(keys=KEYS.astype(np.int64), ids=TensorType((BATCH,), DType.i64)), "lookup_operands"),
    ],
)
def test_no_hashtable_lookup(graph: Graph, condition: str) -> None:
    result, ctx = fused(graph, rules.fuse_hashtable_lookup)
    assert conditions(ctx) == [condition]
    assert "hashtable_lookup" not in op_names(result)


def combined(combiner: str) -> Any:
    """The sparse tensor as a dense one, multiplied with the table."""

    def body(params: Any, ids: Any, indices: Any, shape: Any, weights: Any) -> Any:
        rows = ops.mul(ops.gather(params, ids, axis=0), ops.expand_dims(weights, 1))
        place = ops.expand_dims(ops.gather(indices, np.int32(0), axis=1), 1)
        total = ops.scatter_nd(place, rows, [3, 2])
        if combiner == "sum":
            return total
        ones = weights if combiner == "mean" else ops.mul(weights, weights)
        norm = ops.scatter_nd(place, ops.expand_dims(ones, 1), [3, 1])
        norm = norm if combiner == "mean" else ops.sqrt(norm)
        return ops.div(total, ops.add(norm, np.array([[0], [1], [0]], np.float32)))  # row 1 has no id

    return body


def sparse_graph(combiner: str, of: str | None = None, indices: np.ndarray = PLACES) -> Graph:
    names = ["params", "ids", "indices", "dense_shape", "weights"]

    def model(ids: Any, weights: Any) -> Any:
        operands = [TABLE, ids, indices, SHAPE, weights]
        return call(combined(of or combiner), operands, names, "embedding_lookup_sparse", combiner=combiner)[0]

    return trace_graph(model, [TensorType((4,), DType.i32), TensorType((4,), DType.f32)])


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_embedding_lookup_sparse(combiner: str) -> None:
    result, ctx = fused(sparse_graph(combiner), rules.fuse_embedding_lookup_sparse)
    assert conditions(ctx) == []
    assert op_names(result) == ["embedding_lookup_sparse"]


@pytest.mark.parametrize(
    ("graph", "condition"),
    [
        (sparse_graph("mean", of="sum"), "not_equal"),
        (sparse_graph("mean", indices=PLACES[[0, 2, 1, 3]]), "indices_not_sorted"),
        (sparse_graph("max", of="sum"), "combiner"),
    ],
)
def test_no_embedding_lookup_sparse(graph: Graph, condition: str) -> None:
    result, ctx = fused(graph, rules.fuse_embedding_lookup_sparse)
    assert conditions(ctx) == [condition]
    assert "embedding_lookup_sparse" not in op_names(result)


def guarded(kind: str, guard: Any) -> Any:
    """Sums of rows over a divisor that `guard` keeps from 0, as of rows without ids."""

    def body(params: Any, ids: Any, indices: Any, dense_shape: Any, weights: Any) -> Any:
        rows, of = tf.gather(params, ids) * weights[:, None], indices[:, 0]
        total = tf.math.unsorted_segment_sum(rows, of, 3)
        divisor = tf.math.unsorted_segment_sum(weights if kind == "mean" else weights**2, of, 3)
        return guard(total, (divisor if kind == "mean" else tf.sqrt(divisor))[:, None])

    attribute = f'name: "embedding_lookup_sparse" attr {{key: "combiner" value {{s: "{kind}"}}}}'
    return tf.function(body, experimental_implements=attribute, autograph=False)


GUARDS = {
    "where": lambda total, d: total / tf.where(d > 0, d, tf.ones_like(d)),
    "no_nan": tf.math.divide_no_nan,
    "at_least": lambda total, d: total / tf.maximum(d, 0.1),
}


@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("kind", ["mean", "sqrtn"])
def test_guarded_divisors(kind: str, guard: str) -> None:
    """Also of weights whose sums are negative; where they are constants nothing else is left."""
    body = guarded(kind, GUARDS[guard])
    ids = tf.TensorSpec([4], tf.int32, name="ids")
    weights = tf.TensorSpec([4], tf.float32, name="weights")

    def model(ids: Any, *weights: Any) -> Any:
        return body(tf.constant(TABLE), ids, PLACES, SHAPE, weights[0] if weights else tf.ones(4))

    fixed = jfuse.convert(tf.function(model, input_signature=[ids], autograph=False), verify=False)
    assert fixed.report.operators == {"embedding_lookup_sparse": 1}
    free = jfuse.convert(tf.function(model, input_signature=[ids, weights], autograph=False))
    assert free.report.operators["embedding_lookup_sparse"] == 1
    assert free.report.refused == []


def test_from_tensorflow() -> None:
    import tensorflow as tf

    @tf.function(experimental_implements="hashtable_lookup", autograph=False)
    def table(lookup: Any, keys: Any, values: Any) -> Any:
        hits = tf.equal(lookup[:, None], keys)
        return tf.matmul(tf.cast(hits, tf.float32), values), tf.reduce_any(hits, 1)

    def model(x: Any) -> Any:
        found, hits = table(x, tf.constant(KEYS), tf.constant(VALUES))
        return found * 2.0, hits

    spec = tf.TensorSpec((None,), tf.int32, name="x")
    lite = jfuse.convert(tf.function(model, input_signature=[spec], autograph=False))
    assert [f.rule for f in lite.report.fused] == ["fuse_hashtable_lookup"]
    choices = np.array([*KEYS, 5, 2**31 - 1], np.int32)
    check_invokes(lite, lambda seed: {"x": np.roll(choices, seed)})


def test_what_is_known_at_run_time_only_is_refused() -> None:
    def keys(x: Any, keys: Any) -> Any:
        return call(looked_up, [x, keys, VALUES], ["lookup", "keys", "values"], "hashtable_lookup")

    def indices(ids: Any, weights: Any, places: Any) -> Any:
        names = ["params", "ids", "indices", "dense_shape", "weights"]
        return call(combined("sum"), [TABLE, ids, places, SHAPE, weights], names, "embedding_lookup_sparse")[0]

    four = TensorType((4,), DType.i32)
    graphs = {
        rules.fuse_hashtable_lookup: trace_graph(keys, [IDS, four]),
        rules.fuse_embedding_lookup_sparse: trace_graph(
            indices, [four, TensorType((4,), DType.f32), TensorType((4, 2), DType.i32)]
        ),
    }
    for rule, graph in graphs.items():
        assert conditions(fused(graph, rule)[1]) == ["lookup_at_run_time"]


SEEDS = np.array([[0.123, 0.456, 1.5], [-0.321, 1.234, 7.0]], np.float32)


def projection(threshold: float = 0.0, type: str = "dense") -> Any:  # noqa: A002
    """A projection of i32[4] with weights, spelled in TensorFlow's ops."""
    import tensorflow as tf

    implements = f'name: "lsh_projection" attr {{ key: "type" value {{ s: "{type}" }} }}'

    @tf.function(experimental_implements=implements, autograph=False)
    def project(hash: Any, input: Any, weight: Any) -> Any:  # noqa: A002
        seeds = tf.reshape(tf.bitcast(hash, tf.uint8), [1, -1, 4])
        rows = tf.reshape(tf.bitcast(input, tf.uint8), [-1, 1, 4])
        keys = tf.concat([tf.tile(seeds, [4, 1, 1]), tf.tile(rows, [1, 6, 1])], 2)
        prints = tf.bitcast(tf.fingerprint(tf.reshape(keys, [24, 8])), tf.int64)
        scores = tf.reshape(tf.cast(prints, tf.float64), [4, 6]) * tf.cast(weight[:, None], tf.float64)
        return tf.cast(tf.reduce_sum(scores, 0) > threshold, tf.int32)

    def model(input: Any, weight: Any) -> Any:  # noqa: A002
        return project(tf.constant(SEEDS), input, weight)

    specs = [tf.TensorSpec((4,), tf.int32, name="input"), tf.TensorSpec((4,), tf.float32, name="weight")]
    return tf.function(model, input_signature=specs, autograph=False)


def test_lsh_projection() -> None:
    lite = jfuse.convert(projection())
    assert [(f.rule, f.samples) for f in lite.report.fused] == [("fuse_lsh_projection", 24)]
    assert lite.report.operators == {"lsh_projection": 1}
    check_invokes(lite)


@pytest.mark.parametrize(
    ("options", "condition"), [({"threshold": 3e18}, "not_equal"), ({"type": "thin"}, "projection_type")]
)
def test_no_lsh_projection(options: dict[str, Any], condition: str) -> None:
    model = jfuse.load(projection(**options))
    assert conditions(fused(model.signature().graph, rules.fuse_lsh_projection)[1]) == [condition]
    with pytest.raises(jfuse.JfuseError, match="Fingerprint"):
        jfuse.lower(model)


@pytest.mark.parametrize(("kind", "padding"), [("sqrt", "VALID"), ("sqrt", "SAME"), ("exp", "SAME")])
def test_l2_pool_by_its_formula(kind: str, padding: str) -> None:
    """Another function of the mean is no L2_POOL_2D."""
    root = getattr(tf, kind)

    @tf.function(experimental_implements="l2_pool_2d", autograph=False)
    def pool(x: Any) -> Any:
        return root(tf.nn.avg_pool2d(tf.square(x), 2, 2, padding))

    spec = tf.TensorSpec([None, 5, 4, 3], tf.float32, name="x")
    lite = jfuse.convert(tf.function(pool, input_signature=[spec], autograph=False))
    if kind == "sqrt":
        assert lite.report.operators == {"l2_pool_2d": 1}
    else:
        assert [r.condition for r in lite.report.refused] == ["not_equal"]


def test_l2_pool_without_a_pool_is_refused() -> None:
    @tf.function(experimental_implements="l2_pool_2d", autograph=False)
    def pool(x: Any) -> Any:
        return tf.sqrt(tf.square(x))

    spec = tf.TensorSpec([None, 5, 4, 3], tf.float32, name="x")
    lite = jfuse.convert(tf.function(pool, input_signature=[spec], autograph=False))
    assert [r.condition for r in lite.report.refused] == ["no_pool"]
