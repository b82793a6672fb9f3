"""Open sizes that a model needs to be equal and that are spelled apart: halved and doubled, limited, reshaped."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.running.interpreter import LiteRt

_TABLE = np.random.default_rng(0).standard_normal((16, 4)).astype(np.float32)


def open_spec(*shape: int | None) -> Any:
    """A float32 input."""
    return tf.TensorSpec(shape, tf.float32)


@tf.function(input_signature=[open_spec(None, None, 4)], autograph=False)
def halved_and_doubled(x: Any) -> Any:
    """x beside the maxima of its pairs, each twice, with a table of positions."""
    positions = tf.broadcast_to(tf.constant(_TABLE)[: tf.shape(x)[1]], tf.shape(x))
    return x + tf.repeat(tf.nn.max_pool1d(x, 2, 2, "VALID"), 2, axis=1) + positions


@tf.function(input_signature=[open_spec(None, None, 16), open_spec(None, None, 16), open_spec(None, None)])
def attention_over_another_sequence(query: Any, memory: Any, mask: Any) -> Any:
    """Attention whose heads are split by the query's batch, with a bias for each distance, as T5's decoder has it."""
    batch, steps, others = tf.shape(query)[0], tf.shape(query)[1], tf.shape(memory)[1]

    def heads(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, (batch, -1, 4, 4)), (0, 2, 1, 3))

    distance = tf.clip_by_value(tf.range(others)[None, :] - tf.range(steps)[:, None] + 8, 0, 15)
    bias = tf.transpose(tf.gather(_TABLE, distance), (2, 0, 1))[None]
    hidden = tf.cast(mask[:, None, None, :] < 0, tf.float32) * -1e3
    weights = tf.nn.softmax(tf.matmul(heads(query), heads(memory), transpose_b=True) + bias + hidden)
    mixed = tf.transpose(tf.matmul(weights, heads(memory)), (0, 2, 1, 3))
    return tf.reshape(mixed, (batch, -1, 16)) + query


def test_sizes_are_assumed_to_be_multiples_of_what_they_are_divided_by() -> None:
    lite = jfuse.convert(halved_and_doubled)  # verified against TensorFlow, at two sizes
    assert lite.report.assumptions == ["N = 2*N1"]
    even = np.ones((1, 6, 4), np.float32)
    np.testing.assert_allclose(lite(even), halved_and_doubled(even), rtol=1e-6)
    with pytest.raises(JfuseError, match=r"does not fit[^$]*2\*N1[^$]*float32\[1, 5, 4\]"):
        jfuse.convert(halved_and_doubled, verify=jfuse.Verify(inputs=[np.ones((1, 5, 4), np.float32)]))


def test_a_sequence_that_is_cut_to_another_fits_it() -> None:
    """Of min(N1, N) rows it has N, wherever TensorFlow takes the sum."""

    def cut(x: Any, y: Any) -> Any:
        return x + y[:, : tf.shape(x)[1]]

    specs = [open_spec(None, None, 4), open_spec(None, None, 4)]
    lite = jfuse.convert(tf.function(cut, input_signature=specs, autograph=False))
    x, y = np.ones((1, 2, 4), np.float32), np.arange(20, dtype=np.float32).reshape(1, 5, 4)
    (found,) = LiteRt(lite.to_bytes()).run("serving_default", {"x": x, "y": y}).values()
    np.testing.assert_array_equal(found, x + y[:, :2])


def test_sizes_that_are_both_divided_are_both_multiples() -> None:
    """Pixels in squares of two by three, as the patches of an image are merged."""

    def merged(x: Any) -> Any:
        batch, height, width = tf.unstack(tf.shape(x))
        squares = tf.reshape(x, [batch, height // 2, 2, width // 3, 3])
        return tf.reduce_max(squares, [2, 4])

    lite = jfuse.convert(tf.function(merged, input_signature=[open_spec(None, None, None)], autograph=False))
    assert sorted(lite.report.assumptions) == ["N = 2*N2", "N1 = 3*N3"]


@tf.function(input_signature=[open_spec(None, None, 4)], autograph=False)
def in_chunks(x: Any) -> Any:
    """x beside itself less the means of chunks of four, with padding where the last chunk lacks rows."""
    batch, steps = tf.shape(x)[0], tf.shape(x)[1]
    chunks = tf.reshape(tf.pad(x, [[0, 0], [0, -steps % 4], [0, 0]]), (batch, -1, 4, 4))
    centred = chunks - tf.reduce_mean(chunks, 2, keepdims=True)
    return x + tf.reshape(centred, (batch, -1, 4))[:, :steps]


def test_what_is_padded_to_a_multiple_may_have_any_size() -> None:
    lite = jfuse.convert(in_chunks)
    assert lite.report.assumptions == []
    for steps in (3, 4, 9):
        x = np.random.default_rng(steps).standard_normal((2, steps, 4)).astype(np.float32)
        np.testing.assert_allclose(lite(x), in_chunks(x), atol=1e-6)


def test_a_reshape_to_another_inputs_batch_says_that_the_batches_are_one() -> None:
    lite = jfuse.convert(attention_over_another_sequence)
    assert set(lite.report.assumptions) == {"B = B1", "N2 = N1", "B2 = B1"}


def u_net() -> Any:
    """Two levels down and up over images of any size."""
    image = keras.Input((None, None, 3))
    first = keras.layers.Conv2D(4, 3, padding="same", activation="relu")(image)
    second = keras.layers.Conv2D(4, 3, padding="same")(keras.layers.MaxPool2D()(first))
    third = keras.layers.Conv2D(4, 3, padding="same")(keras.layers.MaxPool2D()(second))
    up = keras.layers.Concatenate()([keras.layers.UpSampling2D()(third), second])
    up = keras.layers.Add()([keras.layers.UpSampling2D()(up)[..., :4], first])
    return keras.Model(image, keras.layers.Conv2D(2, 1)(up))


def down_and_up() -> Any:
    """A strided convolution and its transpose, added to the input."""
    image = keras.Input((None, 4))
    half = keras.layers.Conv1D(4, 3, strides=2, padding="same")(image)
    return keras.Model(image, image + keras.layers.Conv1DTranspose(4, 3, strides=2, padding="same")(half))


def each_step() -> Any:
    """TimeDistributed over an open number of steps, which Keras 3 maps over the batch's size."""
    frames = keras.Input((None, 8, 8, 3))
    rows = keras.layers.TimeDistributed(keras.layers.Conv2D(4, 3))(frames)
    rows = keras.layers.TimeDistributed(keras.layers.Flatten())(rows)
    return keras.Model(frames, keras.layers.LSTM(3)(rows))


def test_rows_at_places_that_are_inputs() -> None:
    """Keras spreads both over each other before it looks up, so the batch is the larger of two open ones."""
    rows, places = keras.Input((5, 4), name="rows"), keras.Input((2, 1), dtype="int32", name="places")
    model = keras.Model([rows, places], keras.ops.take_along_axis(rows, places, axis=1))
    runtime, rng = LiteRt(jfuse.convert(model).to_bytes()), np.random.default_rng(0)
    for batches in ((2, 2), (1, 3), (3, 1)):
        x = rng.standard_normal((batches[0], 5, 4)).astype(np.float32)
        at = rng.integers(0, 5, (batches[1], 2, 1)).astype(np.int32)
        (found,) = runtime.run("serving_default", {"rows": x, "places": at}).values()
        np.testing.assert_array_equal(found, model([x, at]).numpy())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("build", "assumptions"),
    [(u_net, {"N = 4*N2", "N1 = 4*N3"}), (down_and_up, {"N = 2*N1"}), (each_step, set())],
    ids=["u_net", "down_and_up", "each_step"],
)
def test_models_of_open_sizes(build: Callable[[], Any], assumptions: set[str]) -> None:
    assert set(jfuse.convert(build()).report.assumptions) == assumptions


PLACES: dict[str, Callable[[Any], Any]] = {
    "half": lambda n: n // 2,
    "rest": lambda n: n % 2,
    "two thirds": lambda n: n * 2 // 3,
    "no less than 0": lambda n: tf.maximum(n - 3, 0),
    "no more than 3": lambda n: tf.minimum(n - 1, 3),
    "from the end": lambda n: -(n // 2) - 1,
}


@pytest.mark.parametrize("name", PLACES)
def test_one_element_at_a_place_that_follows_from_an_open_size(name: str) -> None:
    spec = tf.TensorSpec([2, None, 3], tf.float32, name="x")
    function = tf.function(lambda x: x[:, PLACES[name](tf.shape(x)[1])], input_signature=[spec], autograph=False)
    official = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], function).convert()
    lite = LiteRt(jfuse.convert(function, verify=False).to_bytes())
    for steps in (2, 3, 5, 8):  # of one step there is no second element
        x = np.random.default_rng(steps).standard_normal((2, steps, 3)).astype(np.float32)
        (found,) = lite.run("serving_default", {"x": x}).values()
        np.testing.assert_array_equal(found, function(x))
        np.testing.assert_array_equal(jfuse.load(bytes(official))(x), function(x))
