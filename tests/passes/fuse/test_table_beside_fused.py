"""A table beside a recurrence of open batch: its handle is sized at run time, so that nothing fuses."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.running.interpreter import LiteRt
from tests.passes.quantize.models import drawn

KEYS, IDS = ["a", "b"], [0, 1]


def _table() -> Any:
    pairs = tf.lookup.KeyValueTensorInitializer(tf.constant(KEYS), tf.constant(IDS, tf.int64))
    return tf.lookup.StaticHashTable(pairs, 2)


@pytest.mark.parametrize("batch", [None, 3])
def test_words_before_a_recurrence(batch: int | None) -> None:
    table, rows, lstm = _table(), tf.constant(drawn(3, 6)), keras.layers.LSTM(24)
    lstm(tf.zeros([1, 5, 6]))

    @tf.function(input_signature=[tf.TensorSpec([batch, 5], tf.string)])
    def model(x: Any) -> Any:
        return lstm(tf.gather(rows, table.lookup(x)))

    lite = jfuse.convert(model)
    assert ("unidirectional_sequence_lstm" in lite.report.operators) == (batch is not None)
    assert [r.condition for r in lite.report.refused] == ([] if batch else ["table_beside_fused"])
    interpreter, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    rng = np.random.default_rng(0)
    for size in (
        (batch,) * 3 if batch else (1, 3, 3, 30, 2)
    ):  # fused it was wrong at 3, and ended LiteRT's process at 30
        words = rng.choice(np.array([b"a", b"b", b"other"], object), (size, 5))
        (found,) = interpreter.run("serving_default", {given: words}).values()
        np.testing.assert_allclose(found, model(tf.constant(words)), atol=1e-6)
