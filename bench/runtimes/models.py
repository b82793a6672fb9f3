"""The models of `bench.runs_on`: what microcontrollers and phones run, each awake and with a batch of 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from bench import models
from tests.models.keras_libraries import awake

k = keras.layers


@dataclass(frozen=True)
class Stream:
    """A model whose sequence, the first input's second axis, arrives in pieces of so many steps.

    state: "keep" where the file goes on where its last call ended, "io" where its caller hands the states on.
    """

    model: Any
    state: str
    steps: int


def _stream(state: str, steps: int, *layers: Callable[[], Any]) -> Callable[[], Stream]:
    """A stream of layers that are made anew, over 4 features."""
    make = _stack((None, 4), *layers)
    return lambda: Stream(make(), state, steps)


def _stack(shape: tuple[int | None, ...], *layers: Callable[[], Any]) -> Callable[[], Any]:
    """A model of layers that are made anew."""
    return lambda: awake(keras.Sequential([keras.Input(batch_shape=(1, *shape)), *(make() for make in layers)]))


def _loop(cell: str) -> Callable[[], Any]:
    """A loop over 12 steps that nobody's layer is."""

    def build() -> Any:
        kernel = tf.random.stateless_uniform([4, 6], [1, 2], -0.5, 0.5)
        recurrent = tf.random.stateless_uniform([6, 6], [3, 4], -0.5, 0.5)

        def step(h: Any, x: Any) -> Any:
            new = tf.tanh(x @ kernel + h @ recurrent)
            return 0.5 * h + 0.5 * new if cell == "leaky" else tf.where(new > 0.0, new, h)

        def call(x: Any) -> Any:
            return tf.transpose(tf.scan(step, tf.transpose(x, [1, 0, 2]), tf.zeros([1, 6])), [1, 0, 2])

        return tf.function(call, input_signature=[tf.TensorSpec([1, 12, 4], name="x")], autograph=False)

    return build


def _late(name: str) -> Callable[[], Any]:
    return lambda: models.MODELS[name]()[0]


def _two_outputs() -> Any:
    x = keras.Input(batch_shape=(1, 10, 4))
    y, h, c = k.LSTM(8, return_sequences=True, return_state=True)(x)
    return awake(keras.Model(x, [y, h, c]))


def _encoder_decoder() -> Any:
    x, t = keras.Input(batch_shape=(1, 10, 4)), keras.Input(batch_shape=(1, 6, 3))
    _, h, c = k.LSTM(8, return_state=True)(x)
    return awake(keras.Model([x, t], k.Dense(5)(k.LSTM(8, return_sequences=True)(t, initial_state=[h, c]))))


def _residual() -> Any:
    x = y = keras.Input(batch_shape=(1, 16, 8))
    for _ in range(2):
        y = k.Add()([y, k.LSTM(8, return_sequences=True)(k.LayerNormalization()(y))])
    return awake(keras.Model(x, k.Dense(3)(k.GlobalAveragePooling1D()(y))))


def _lstm() -> Any:
    return k.LSTM(8, return_sequences=True)


def _gru() -> Any:
    return k.GRU(8, return_sequences=True)


def _causal(dilation: int = 1) -> Callable[[], Any]:
    return lambda: k.Conv1D(8, 3, padding="causal", dilation_rate=dilation, activation="relu")


SEQUENCE, IMAGE = (20, 4), (32, 32, 3)
MODELS: Mapping[str, Callable[[], Any]] = {
    "LSTM, 8 units": _stack(SEQUENCE, lambda: k.LSTM(8)),
    "LSTM, 128 units": _stack(SEQUENCE, lambda: k.LSTM(128)),
    "LSTM, sequences": _stack(SEQUENCE, lambda: k.LSTM(8, return_sequences=True)),
    "LSTM, stacked": _stack(SEQUENCE, lambda: k.LSTM(16, return_sequences=True), lambda: k.LSTM(8)),
    "LSTM, backwards": _stack(SEQUENCE, lambda: k.LSTM(8, go_backwards=True)),
    "LSTM, stateful": _stack(SEQUENCE, lambda: k.LSTM(8, stateful=True)),
    "LSTM, hard sigmoid": _stack(SEQUENCE, lambda: k.LSTM(8, recurrent_activation="hard_sigmoid")),
    "LSTM, masked": _stack(SEQUENCE, k.Masking, lambda: k.LSTM(8)),
    "LSTM, states out": _two_outputs,
    "LSTM, residual": _residual,
    "LSTM, encoder and decoder": _encoder_decoder,
    "biLSTM": _stack(SEQUENCE, lambda: k.Bidirectional(k.LSTM(8))),
    "biLSTM, sequences": _stack(SEQUENCE, lambda: k.Bidirectional(k.LSTM(8, return_sequences=True))),
    "biLSTM, summed": _stack(SEQUENCE, lambda: k.Bidirectional(k.LSTM(8), merge_mode="sum")),
    "SimpleRNN": _stack(SEQUENCE, lambda: k.SimpleRNN(8)),
    "SimpleRNN, 300 steps": _stack((300, 4), lambda: k.SimpleRNN(32, return_sequences=True)),
    "SimpleRNN, stateful": _stack(SEQUENCE, lambda: k.SimpleRNN(8, stateful=True)),
    "biRNN": _stack(SEQUENCE, lambda: k.Bidirectional(k.SimpleRNN(8))),
    "GRU": _stack(SEQUENCE, lambda: k.GRU(8)),
    "GRU, 300 steps": _stack((300, 4), lambda: k.GRU(32, return_sequences=True)),
    "GRU, stateful": _stack(SEQUENCE, lambda: k.GRU(8, stateful=True)),
    "biGRU": _stack(SEQUENCE, lambda: k.Bidirectional(k.GRU(8))),
    "ConvLSTM": _stack((5, 8, 8, 2), lambda: k.ConvLSTM2D(3, 3)),
    "scan, leaky": _loop("leaky"),
    "scan, gated": _loop("gated"),
    "embedding and LSTM": _stack((12,), lambda: k.Embedding(50, 8), lambda: k.LSTM(8)),
    "CNN and LSTM": _stack((24, 16), lambda: k.Conv1D(8, 3, activation="relu"), lambda: k.LSTM(8), lambda: k.Dense(3)),
    "keyword spotter": _stack(
        (49, 10, 1),
        lambda: k.Conv2D(8, (5, 4), strides=2, activation="relu"),
        lambda: k.Reshape((23, 32)),
        lambda: k.LSTM(16),
        lambda: k.Dense(4, activation="softmax"),
    ),
    "perceptron": _stack((12,), lambda: k.Dense(16, activation="relu"), lambda: k.Dense(3, activation="softmax")),
    "perceptron, gelu": _stack((12,), lambda: k.Dense(16, activation="gelu"), lambda: k.Dense(3)),
    "perceptron, swish": _stack((12,), lambda: k.Dense(16, activation="silu"), lambda: k.Dense(3)),
    "CNN": _stack(IMAGE, lambda: k.Conv2D(8, 3, activation="relu"), k.MaxPool2D, k.Flatten, lambda: k.Dense(5)),
    "CNN, separable": _stack(
        IMAGE, lambda: k.SeparableConv2D(8, 3, strides=2), k.BatchNormalization, k.ReLU, k.GlobalAveragePooling2D
    ),
    "CNN, dilated": _stack(IMAGE, lambda: k.Conv2D(8, 3, dilation_rate=2), lambda: k.LeakyReLU(0.1)),
    "CNN, transposed": _stack(IMAGE, lambda: k.Conv2D(8, 3, strides=2), lambda: k.Conv2DTranspose(3, 3, strides=2)),
    "CNN, upsampled": _stack(IMAGE, lambda: k.Conv2D(4, 3), k.UpSampling2D, lambda: k.Conv2D(4, 3, activation="relu")),
    "CNN, one axis": _stack((64, 3), lambda: k.Conv1D(8, 5), k.MaxPool1D, k.GlobalMaxPooling1D, lambda: k.Dense(4)),
    "layer norm": _stack((10, 8), k.LayerNormalization, lambda: k.Dense(4)),
    "transformer block": _late("phone_encoder"),
    "U-Net": _late("phone_u_net"),
    "keywords, from sound": _late("phone_keywords"),
    "detector, with suppression": _late("phone_detector"),
    "text, from ids": _late("phone_text"),
    "decoder of a transformer": _late("decoder"),
    "einsum attention": _late("einsum_attention"),
    "stream, LSTM, kept": _stream("keep", 4, _lstm),
    "stream, LSTM, in and out": _stream("io", 4, _lstm),
    "stream, LSTM, single steps kept": _stream("keep", 1, _lstm, lambda: k.Dense(3)),
    "stream, LSTM, single steps in and out": _stream("io", 1, _lstm, lambda: k.Dense(3)),
    "stream, LSTM, stacked, in and out": _stream("io", 2, _lstm, _lstm),
    "stream, GRU, kept": _stream("keep", 4, _gru),
    "stream, GRU, single steps in and out": _stream("io", 1, _gru),
    "stream, SimpleRNN, kept": _stream("keep", 4, lambda: k.SimpleRNN(8, return_sequences=True)),
    "stream, convolutions, kept": _stream("keep", 4, _causal(), _causal(2), lambda: k.Dense(3)),
    "stream, convolutions, in and out": _stream("io", 4, _causal(), _causal(2), lambda: k.Dense(3)),
    "stream, keyword spotter, kept": _stream("keep", 4, _causal(), _lstm, lambda: k.Dense(3, activation="softmax")),
}
"""Builders of models and streams, by name in the table."""
