"""What is sized at run time beside a fused recurrence of open batch: right in LiteRT as the batch changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.graph import Graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.states.late_sizes import late_sizes
from jfuse.running.interpreter import LiteRt
from tests.models.keras_libraries import awake
from tests.passes.quantize.models import drawn, program_of

BATCHES = (1, 3, 3, 2, 5, 9, 30, 1, 7)
"""LiteRT ended its process at 30 rows where WHERE came first, and was wrong at 3."""
EXTRA: dict[str, Callable[[Any, Any], Any]] = {
    "fill": lambda x, few: tf.where((tf.range(16)[None] < tf.fill([tf.shape(x)[0]], 10)[:, None]) & (x[:, :, 0] > 0)),
    "where": lambda x, few: tf.where(x[:, 0, 0] > 0),
    "where of twice the batch": lambda x, few: tf.where(tf.concat([x[:, 0, 0], x[:, 1, 0]], 0) > 0),
    "where of all elements": lambda x, few: tf.where(tf.reshape(x, [-1]) > 0),
    "branch": lambda x, few: tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.where(x[:, 0, 0] > 0), lambda: tf.where(x[:, 1, 0] > 0)
    ),
    "growing loop": lambda x, few: tf.while_loop(
        lambda i, rows: i < tf.shape(x)[0],
        lambda i, rows: (i + 1, tf.concat([rows, x[i, 0]], 0)),
        [0, tf.zeros([1])],
        shape_invariants=[tf.TensorShape([]), tf.TensorShape([None])],
    )[1],
    "where of a fixed size": lambda x, few: tf.where(few > 0),
    "unique": lambda x, few: tf.unique(tf.cast(x[:, 0, 0] * 3, tf.int32))[0],
    "boolean mask": lambda x, few: tf.boolean_mask(x[:, 0], x[:, 0, 1] > 0),
    "broadcast": lambda x, few: tf.broadcast_to(tf.constant([[1.0, 2.0, 3.0]]), [tf.shape(x)[0], 3]),
    "one-hot": lambda x, few: tf.one_hot(tf.cast(x[:, 0, 0] > 0, tf.int32), tf.shape(x)[0]),
}
QUICK = ("fill", "where of twice the batch", "where of a fixed size")


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in EXTRA])
def test_right_as_the_batch_changes(name: str) -> None:
    layers = keras.layers
    stack = [layers.Conv1D(8, 3, padding="same", activation="relu")]
    stack += [layers.Bidirectional(layers.LSTM(8, return_sequences=True)), layers.Dense(5)]
    network = awake(keras.Sequential([keras.Input((16, 6)), *stack]))

    @tf.function(input_signature=[tf.TensorSpec([None, 16, 6]), tf.TensorSpec([4])])
    def model(x: Any, few: Any) -> Any:
        return {"extra": EXTRA[name](x, few), "y": network(x)}

    lite = jfuse.convert(model, verify=False)
    assert lite.report.operators["bidirectional_sequence_lstm"] == 1
    interpreter = LiteRt(lite.to_bytes())
    for seed, batch in enumerate(BATCHES):
        inputs = {"x": drawn(batch, 16, 6, seed=seed), "few": drawn(4, seed=seed)}
        wanted = {key: value.numpy() for key, value in model(**inputs).items()}
        found = interpreter.run("serving_default", inputs)
        np.testing.assert_allclose(found["y"], wanted["y"], atol=1e-5)
        np.testing.assert_array_equal(found["extra"], wanted["extra"])


def _names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


@pytest.mark.parametrize("dynamic", [False, True])
def test_only_what_has_a_run_time_shape_is_changed(dynamic: bool) -> None:
    def net(x: Any) -> Any:
        return ops.where(ops.greater(x, np.float32(0))) if dynamic else ops.neg(x)

    (graph,) = program_of(net, TensorType((3, 4), DType.f32)).graphs()
    assert late_sizes(graph) is graph  # nothing is fused
