"""Networks on graphs: nodes f32[nodes,6] and edges as two vectors, as indices of a sparse matrix, or as a dense one."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.written import Written

_SIZES = ((5, 9), (12, 40), (1, 1), (3, 0), (30, 100), (4, 7))  # nodes and edges, growing and shrinking
_RANDOM = np.random.default_rng(0)
_FIRST, _SECOND, _SCORE = ((0.4 * _RANDOM.standard_normal(s)).astype(np.float32) for s in ((6, 8), (8, 4), (16, 1)))
_X = tf.TensorSpec([None, 6], name="x")
_ENDS = tuple(tf.TensorSpec([None], tf.int32, name=name) for name in ("source", "target"))


def _nodes(n: int) -> tuple[int, int, dict[str, np.ndarray]]:
    nodes, edges = _SIZES[n % len(_SIZES)]
    return nodes, edges, {"x": np.random.default_rng(n).standard_normal((nodes, 6)).astype(np.float32)}


def _edges(n: int) -> dict[str, np.ndarray]:
    nodes, edges, drawn = _nodes(n)
    random = np.random.default_rng(n)
    return drawn | {name: random.integers(0, nodes, edges).astype(np.int32) for name in ("source", "target")}


def _sparse(n: int) -> dict[str, np.ndarray]:
    nodes, edges, drawn = _nodes(n)
    random = np.random.default_rng(n)
    places = np.unique(random.integers(0, nodes, (edges, 2)), axis=0).reshape(-1, 2)
    weights = random.standard_normal(len(places)).astype(np.float32)
    return drawn | {"places": random.permutation(places).astype(np.int64), "weights": weights}


def _traced(function: Any, *specs: Any) -> Any:
    return tf.function(function, input_signature=specs, autograph=False)


def convolution() -> Written:
    """Two layers of sums over the edges, with a loop at each node, divided by the roots of the degrees."""

    def model(x: Any, source: Any, target: Any) -> Any:
        nodes = tf.shape(x)[0]
        source, target = (tf.concat([v, tf.range(nodes)], 0) for v in (source, target))
        degree = tf.math.unsorted_segment_sum(tf.ones_like(target, tf.float32), target, nodes)
        weights = tf.math.rsqrt(tf.gather(degree, source) * tf.gather(degree, target))
        for kernel in (_FIRST, _SECOND):
            messages = tf.gather(x @ kernel, source) * weights[:, None]
            x = tf.nn.relu(tf.math.unsorted_segment_sum(messages, target, nodes))
        return {"y": x}

    return Written(_traced(model, _X, *_ENDS), _edges)


def attention() -> Written:
    """A softmax over the edges that end at a node."""

    def model(x: Any, source: Any, target: Any) -> Any:
        nodes, h = tf.shape(x)[0], x @ _FIRST
        ends = tf.concat([tf.gather(h, source), tf.gather(h, target)], 1)
        score = tf.squeeze(tf.nn.leaky_relu(ends @ _SCORE), 1)
        powers = tf.exp(score - tf.gather(tf.math.unsorted_segment_max(score, target, nodes), target))
        share = powers / tf.gather(tf.math.unsorted_segment_sum(powers, target, nodes), target)
        return {"y": tf.math.unsorted_segment_sum(share[:, None] * tf.gather(h, source), target, nodes)}

    return Written(_traced(model, _X, *_ENDS), _edges)


def message_passing() -> Written:
    """Four rounds of messages in a loop."""

    def model(x: Any, source: Any, target: Any) -> Any:
        nodes = tf.shape(x)[0]

        def step(i: Any, h: Any) -> Any:
            return i + 1, tf.tanh(tf.math.unsorted_segment_sum(tf.gather(h, source), target, nodes) + h)

        return {"y": tf.while_loop(lambda i, _: i < 4, step, (0, x @ _FIRST))[1]}

    return Written(_traced(model, _X, *_ENDS), _edges)


def sparse_products() -> Written:
    """Two products with a sparse matrix whose entries come in any order, and the sums of its rows."""

    def model(x: Any, places: Any, weights: Any) -> Any:
        nodes = tf.shape(x, tf.int64)[0]
        matrix = tf.sparse.reorder(tf.SparseTensor(places, weights, tf.stack([nodes, nodes])))
        h = tf.nn.relu(tf.sparse.sparse_dense_matmul(matrix, x @ _FIRST))
        total = tf.sparse.reduce_sum(matrix, 1)
        return {"y": tf.sparse.sparse_dense_matmul(matrix, h) / (1 + tf.abs(total[:, None]))}

    entries = tf.TensorSpec([None, 2], tf.int64, name="places"), tf.TensorSpec([None], name="weights")
    return Written(_traced(model, _X, *entries), _sparse)


def readout() -> Written:
    """The means of the nodes of each of `count` graphs."""

    def model(x: Any, owner: Any, count: Any) -> Any:
        return {"y": tf.math.unsorted_segment_mean(tf.nn.relu(x @ _FIRST), owner, count)}

    def draw(n: int) -> dict[str, np.ndarray]:
        nodes, _, drawn = _nodes(n)
        owner = np.sort(np.random.default_rng(n).integers(0, 3, nodes)).astype(np.int32)
        return drawn | {"owner": owner, "count": np.array(3 + n % 2, np.int32)}

    owners = tf.TensorSpec([None], tf.int32, name="owner"), tf.TensorSpec([], tf.int32, name="count")
    return Written(_traced(model, _X, *owners), draw)
