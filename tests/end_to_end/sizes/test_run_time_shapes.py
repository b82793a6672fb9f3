"""Fused recurrences behind ops whose results LiteRT sizes only when it runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import Arrays, check_invokes
from tests.models.recurrences.lstm_written import Loop, Weights, reordered_cell
from tests.slow import slow_but

_STEPS, _FEATURES, _UNITS = 6, 5, 32  # states of 128 bytes: smaller ones would be right by luck


def masked_rows(x: Any) -> Any:
    """The rows that begin with a positive number."""
    return tf.boolean_mask(x, x[:, 0, 0] > 0.0)


def found_rows(x: Any) -> Any:
    """The same rows, looked up."""
    return tf.gather(x, tf.where(x[:, 0, 0] > 0.0)[:, 0])


def repeated_rows(x: Any) -> Any:
    """All rows, as often as there are rows."""
    return tf.tile(x, tf.stack([tf.shape(x)[0], 1, 1]))


def build(select: Callable[[Any], Any], batch: int | None = None) -> Any:
    """A tf.function of x f32[b,6,5]: an LSTM over some of its rows."""
    weights = Weights.random(_FEATURES, _UNITS)
    lstm = Loop(batch=None, steps=_STEPS).function(weights, reordered_cell(weights)).python_function
    spec = tf.TensorSpec([batch, _STEPS, _FEATURES], tf.float32, name="x")
    return tf.function(lambda x: lstm(select(x)), input_signature=[spec], autograph=False)


def some_rows(seed: int) -> Arrays:
    """Inputs of which at least one row, and often not every row, is taken; batches that grow and shrink."""
    batch = (4, 64, 2, 100)[seed % 4]
    x = np.random.default_rng(seed).standard_normal((batch, _STEPS, _FEATURES)).astype(np.float32)
    x[0, 0, 0] = 1.0
    return {"x": x}


@pytest.mark.parametrize("select", [masked_rows, found_rows], ids=lambda f: f.__name__)
def test_an_lstm_behind_a_run_time_size_stays_a_loop(select: Callable[[Any], Any]) -> None:
    lite = jfuse.convert(build(select), forms=jfuse.Forms(loop="while"))
    (refusal,) = lite.report.refused
    assert (refusal.condition, refusal.source) == ("dynamic_before_fused", "while (While)")
    assert lite.report.operators["while"] == 1
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    check_invokes(lite, some_rows)


def test_an_lstm_over_rows_of_a_number_that_shapes_tell_is_fused() -> None:
    """LiteRT knows at allocation what SHAPE gives, and what kernels of `at_allocation` make of that."""
    lite = jfuse.convert(build(repeated_rows), forms=jfuse.Forms(loop="while"))
    assert lite.report.refused == []
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    check_invokes(lite, lambda seed: {"x": some_rows(seed)["x"][:20]})


def reader_of_lines() -> keras.Model:
    """Images of open width, f32[b,w,8,1], read by recurrences along it."""
    keras.utils.set_random_seed(0)
    x = keras.Input((None, 8, 1), name="x")
    y = keras.layers.MaxPooling2D(2)(keras.layers.Conv2D(4, 3, padding="same", activation="relu")(x))
    y = keras.layers.Reshape((-1, 16))(y)
    for _ in range(2):
        y = keras.layers.Bidirectional(keras.layers.LSTM(_UNITS, return_sequences=True))(y)
    return keras.Model(x, keras.layers.Dense(5, activation="softmax")(y))


def lines(seed: int) -> Arrays:
    """Batches and widths that grow and shrink."""
    shape = ((2, 9), (64, 12), (1, 40), (100, 7))[seed % 4]
    return {"x": np.random.default_rng(seed).standard_normal((*shape, 8, 1)).astype(np.float32)}


def test_recurrences_along_an_open_width_are_fused() -> None:
    lite = jfuse.convert(reader_of_lines(), verify=False)
    assert lite.report.refused == []
    assert lite.report.operators["bidirectional_sequence_lstm"] == 2
    check_invokes(lite, lines)


def started(token: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A decoder's input: a token before all steps but the last one."""
    return lambda x: tf.concat([token(x), x[:, :-1]], 1)


_TOKEN = np.arange(_FEATURES, dtype=np.float32).reshape(1, 1, -1)
_TOKENS: dict[str, Callable[[Any], Any]] = {
    "tiled": lambda x: tf.tile(_TOKEN, [tf.shape(x)[0], 1, 1]),
    "broadcast": lambda x: tf.broadcast_to(_TOKEN[0], [tf.shape(x)[0], 1, _FEATURES]),
    "repeated": lambda x: tf.repeat(tf.constant(_TOKEN), tf.shape(x)[0], axis=0),
    "filled": lambda x: tf.fill([tf.shape(x)[0], 1, _FEATURES], 2.0),
    "computed": lambda x: tf.tile(tf.reduce_max(x, [0, 1], keepdims=True), [tf.shape(x)[0], 1, 1]),
}


@pytest.mark.parametrize("token", slow_but(lambda name: name == "tiled", list(_TOKENS)))
def test_an_lstm_behind_a_start_token_is_fused(token: str) -> None:
    lite = jfuse.convert(build(started(_TOKENS[token])), forms=jfuse.Forms(loop="while"), verify=token == "tiled")
    assert lite.report.refused == []
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    check_invokes(lite, some_rows)


def test_an_lstm_over_rows_of_known_number_is_fused() -> None:
    lite = jfuse.convert(build(repeated_rows, batch=2))
    assert lite.report.refused == []
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1


def reshaped() -> Any:
    """An LSTM of x f32[b,6,5] in a shape whose first size is given as data."""
    weights = Weights.random(_FEATURES, _UNITS)
    lstm = Loop(batch=None, steps=_STEPS).function(weights, reordered_cell(weights)).python_function
    specs = [tf.TensorSpec([None, _STEPS, _FEATURES], tf.float32, name="x"), tf.TensorSpec([], tf.int32, name="rows")]

    def call(x: Any, rows: Any) -> Any:
        return lstm(tf.reshape(x, tf.stack([rows, _STEPS, _FEATURES])))

    return tf.function(call, input_signature=specs, autograph=False)


def reshaped_inputs(seed: int) -> Arrays:
    """A batch and its size."""
    inputs = some_rows(seed)
    return {**inputs, "rows": np.asarray(inputs["x"].shape[0], np.int32)}


def test_a_size_that_is_data_and_follows_from_the_others_is_known_at_allocation() -> None:
    lite = jfuse.convert(reshaped(), verify=False)  # which would draw the number of rows
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    check_invokes(lite, reshaped_inputs)


@tf.function(
    input_signature=[tf.TensorSpec([4, 4, 4]), tf.TensorSpec([3], tf.int32), tf.TensorSpec([2], tf.int32)],
    autograph=False,
)
def orders_and_steps(x: Any, order: Any, steps: Any) -> Any:
    """Transposes, reversals and slices of which data says which, beside all that rules join them with."""
    other = tf.random.stateless_normal([4, 4], [1, 2])
    turned = tf.transpose(x, order)
    again = tf.transpose(turned, [1, 0, 2])
    kernel = tf.random.stateless_normal([2, 4, 3], [3, 4])
    return {
        "joined": tf.concat([turned, tf.transpose(x + 1.0, order), tf.transpose(x, [2, 0, 1])], 1) + 1.0,
        "twice": tf.transpose(tf.transpose(again, order), order) * other,
        "product": tf.matmul(x, tf.transpose(other @ turned, order)) + other[0],
        "image": tf.nn.relu(tf.transpose(tf.nn.conv1d(turned, kernel, 1, "SAME"), order) * 2.0),
        "reversed": tf.reverse(tf.reverse(turned, order[:1]), order[:1])
        + tf.reverse(tf.reverse(x, order[:1]), order[1:2]),
        "cut": tf.strided_slice(again, [0, 0, 0], [4, 4, 0], [steps[0], steps[1], 1], end_mask=4),
        "cut_before": tf.transpose(x, [1, 0, 2])[steps[1] :: steps[0], steps[0] :],
        "cut_behind": tf.reverse(x, order[2:])[1, :: steps[0]],
    }


def test_orders_and_strides_may_be_data() -> None:
    rng = np.random.default_rng(0)
    orders = [np.array(o, np.int32) for o in ((2, 0, 1), (0, 1, 2), (1, 0, 2))]
    samples = [
        {"x": rng.standard_normal((4, 4, 4)).astype(np.float32), "order": o, "steps": np.array([2, 1 + i], np.int32)}
        for i, o in enumerate(orders)
    ]
    jfuse.convert(
        orders_and_steps, verify=jfuse.Verify(inputs=samples, tolerance=1e-5)
    )  # compares with TensorFlow, in LiteRT too
