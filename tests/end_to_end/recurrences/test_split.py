"""Loops of several cells, and loops that do more than their cells, from TensorFlow to LiteRT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models.keras_libraries import LIBRARIES, awake
from tests.slow import keras_3, slow_but

STEPS, FEATURES, UNITS, WORDS = 6, 3, 8, 20
ROWS = [(sequences, batch) for sequences in (False, True) for batch in (None, 2)]
"""Whether a layer gives all steps, and its batch: either way of both is quick."""


def stacked(library: str, cells: Sequence[tuple[str, int]], *, batch: int | None = None, **options: Any) -> Any:
    """A Keras model of RNN([cell, …])."""
    keras = LIBRARIES[library]
    x = keras.Input((STEPS, FEATURES), batch_size=batch)
    layers = [getattr(keras.layers, f"{kind}Cell")(units) for kind, units in cells]
    return awake(keras.Model(x, keras.layers.RNN(layers, **options)(x)))


@pytest.mark.parametrize("library", slow_but(keras_3, LIBRARIES))
@pytest.mark.parametrize(("sequences", "batch"), slow_but({(False, None), (True, 2)}.__contains__, ROWS))
def test_stacked_lstm_cells_are_an_lstm_each(library: str, batch: int | None, sequences: bool) -> None:
    cells = [("LSTM", UNITS), ("LSTM", 5)]
    source = stacked(library, cells, batch=batch, return_sequences=sequences)
    lite = jfuse.convert(source, verify=library == "keras")
    assert lite.report.operators["unidirectional_sequence_lstm"] == 2
    assert "while" not in lite.report.operators
    check_invokes(lite)


def test_an_lstm_between_other_cells_fuses() -> None:
    lite = jfuse.convert(stacked("keras", [("GRU", 4), ("LSTM", UNITS), ("GRU", 5)], batch=2, return_sequences=True))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    check_invokes(lite)


class Tagger(tf.Module):
    """A hand-written loop that looks words up, runs an LSTM, and tags each word, all in its step."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        shapes = {"table": (WORDS, FEATURES), "w": (FEATURES, 4 * UNITS), "u": (UNITS, 4 * UNITS), "b": (4 * UNITS,)}
        shapes |= {"tags": (UNITS, 5), "tag_bias": (5,)}
        self.weights = {k: tf.constant(rng.standard_normal(s).astype(np.float32) / 2) for k, s in shapes.items()}

    def cell(self, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        w = self.weights
        i, f, g, o = tf.split(x @ w["w"] + h @ w["u"] + w["b"], 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    def step(self, t: Any, ids: Any, tags: Any, h: Any, c: Any) -> tuple[Any, ...]:
        w = self.weights
        x = tf.gather(w["table"], ids.read(t))
        h, c = self.cell(x, h, c)
        return t + 1, ids, tags.write(t, tf.nn.softmax(h @ w["tags"] + w["tag_bias"])), h, c

    @tf.function(input_signature=[tf.TensorSpec((None, STEPS), tf.int32, "ids")], autograph=False)
    def tagged(self, ids: Any) -> Mapping[str, Any]:
        zeros = tf.zeros((tf.shape(ids)[0], UNITS))
        words = tf.TensorArray(tf.int32, STEPS).unstack(tf.transpose(ids))
        tags = tf.TensorArray(tf.float32, STEPS, element_shape=(None, 5))
        start = (tf.constant(0), words, tags, zeros, zeros)
        *_, tags, h, _ = tf.while_loop(lambda t, *_: t < STEPS, self.step, start)
        return {"tags": tf.transpose(tags.stack(), (1, 0, 2)), "last": h}


def test_what_a_step_does_beside_its_cell_is_done_for_all_steps_at_once() -> None:
    module = Tagger()
    lite = jfuse.convert(module.tagged)
    operators = lite.report.operators
    assert "while" not in operators
    assert [operators[name] for name in ("unidirectional_sequence_lstm", "gather", "fully_connected", "softmax")] == [
        1
    ] * 4
    check_invokes(
        lite, lambda seed: {"ids": np.random.default_rng(seed).integers(0, WORDS, (3, STEPS)).astype(np.int32)}
    )
