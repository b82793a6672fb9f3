"""Functions that take and return ragged tensors: their values and row splits, called against TensorFlow's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.slow import slow_but

RAGGED = tf.RaggedTensorSpec([None, None], tf.float32)
TABLE = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)


def converted(function: Callable[..., Any], *specs: Any) -> jfuse.Model:
    return jfuse.convert(tf.function(function, input_signature=specs, autograph=False))


def embedded(r: Any) -> Any:
    ids = tf.cast(tf.math.floormod(r, 10.0), tf.int32)
    return tf.reduce_mean(tf.ragged.map_flat_values(lambda v: tf.gather(TABLE, v), ids), 1)


@pytest.mark.parametrize(
    ("function", "name"),
    slow_but(
        lambda row: row[1] in ("sum", "to_tensor"),
        [
            (lambda r: tf.reduce_sum(r, 1), "sum"),
            (lambda r: r.to_tensor(default_value=-1.0), "to_tensor"),
            (lambda r: r.row_lengths(), "lengths"),
            (lambda r: tf.concat([r, r * 2], 1).to_tensor(), "concat"),
            (embedded, "embedded"),
        ],
    ),
)
def test_a_ragged_argument(function: Callable[..., Any], name: str) -> None:
    lite = converted(function, RAGGED)
    assert lite.program.signatures[0].input_names == ("r_values", "r_row_splits")
    for rows in ([[1.0, 2.0], [], [3.0]], [[4.0], [5.0, 6.0, 7.0]]):
        ragged = tf.ragged.constant(rows, dtype=tf.float32, ragged_rank=1)
        found = lite(ragged.values.numpy(), ragged.row_splits.numpy())
        np.testing.assert_allclose(found, function(ragged).numpy(), rtol=1e-6)


def test_a_ragged_result() -> None:
    lite = converted(lambda r: r * 2.0, RAGGED)
    assert lite.program.signatures[0].output_names == ("output_0_values", "output_0_row_splits")
    found = lite(np.array([1, 2, 3], np.float32), np.array([0, 2, 2, 3]))
    assert {name: array.tolist() for name, array in found.items()} == {
        "output_0_values": [2, 4, 6],
        "output_0_row_splits": [0, 2, 2, 3],
    }


def test_names_in_a_dict_and_of_several_levels() -> None:
    lite = converted(
        lambda d: {"sum": d["x"] + tf.reduce_sum(d["r"].to_tensor()), "again": d["q"]},
        {"r": tf.RaggedTensorSpec([2, None, None], tf.float32), "x": tf.TensorSpec([2], name="x"), "q": RAGGED},
    )
    (signature,) = lite.program.signatures
    rows = ("r_values", "r_row_splits_0", "r_row_splits_1")
    assert signature.input_names == ("q_values", "q_row_splits", *rows, "x")
    assert signature.output_names == ("again_values", "again_row_splits", "sum")


def test_weighed_embeddings_by_row() -> None:
    """What TensorFlow marks as a sparse gradient is about training."""

    def looked_up(indices: Any, ids: Any) -> Any:
        sparse = tf.SparseTensor(indices, ids, [3, 4])
        return tf.nn.embedding_lookup_sparse(TABLE, sparse, None, combiner="mean")

    specs = [tf.TensorSpec([4, 2], tf.int64, name="indices"), tf.TensorSpec([4], tf.int64, name="ids")]
    lite = jfuse.convert(tf.function(looked_up, input_signature=specs, autograph=False), verify=False)
    indices, ids = np.array([[0, 0], [0, 2], [1, 1], [2, 3]]), np.array([1, 9, 3, 0])
    np.testing.assert_allclose(lite(indices, ids), looked_up(indices, ids), rtol=1e-6)
