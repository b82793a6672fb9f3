"""Recurrences that Python has written out step by step, and code that only looks as if it were one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf
import tf_keras

STEPS, FEATURES, UNITS = 6, 3, 2
OPEN = (None, STEPS, FEATURES)
FIXED = (2, STEPS, FEATURES)

Loop = tuple[int, int, int]
"""What a loop should become: a scan with so many carried values, step inputs and steps."""


@dataclass(frozen=True)
class Written:
    """A function of tensors of some shapes, the scans that are in it, and what becomes of it in the file."""

    call: Callable[..., Any]
    shapes: tuple[tuple[int | None, ...], ...]
    loops: tuple[Loop, ...]
    fused: tuple[str, ...] = ()

    def build(self) -> Any:
        """The tf.function."""
        specs = [tf.TensorSpec(shape, tf.float32, name=f"x{i}") for i, shape in enumerate(self.shapes)]
        return tf.function(self.call, input_signature=specs, autograph=False)


WRITTEN: dict[str, Written] = {}
"""Recurrences in every way of writing them out."""

DECOYS: dict[str, Written] = {}
"""Code of which some step is another one: only what is equal may become a loop."""


def _register(table: dict[str, Written], shapes: Any, loops: Any, fused: Any) -> Callable[[Any], Any]:
    def register(call: Callable[..., Any]) -> Callable[..., Any]:
        table[call.__name__] = Written(call, shapes, loops, fused)
        return call

    return register


def written(*shapes: tuple[int | None, ...], loops: tuple[Loop, ...], fused: tuple[str, ...] = ()) -> Any:
    return _register(WRITTEN, shapes or (OPEN,), loops, fused)


def decoy(*shapes: tuple[int | None, ...], loops: tuple[Loop, ...] = ()) -> Any:
    return _register(DECOYS, shapes or (OPEN,), loops, ())


def _weights(*shape: int, seed: int) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 0.7).astype(np.float32)


W, U, B = _weights(FEATURES, 4 * UNITS, seed=0), _weights(UNITS, 4 * UNITS, seed=1), _weights(4 * UNITS, seed=2)
W_OTHER = _weights(FEATURES, 4 * UNITS, seed=3)
W_RNN, U_RNN, B_RNN = _weights(FEATURES, UNITS, seed=4), _weights(UNITS, UNITS, seed=5), _weights(UNITS, seed=6)
W_WIDE = _weights(2 * UNITS, UNITS, seed=7)
LSTM, RNN = "unidirectional_sequence_lstm", "unidirectional_sequence_rnn"
ONE_LSTM: tuple[Loop, ...] = ((2, 1, STEPS),)


def lstm(x: Any, h: Any, c: Any, kernel: np.ndarray = W, activation: Any = tf.tanh) -> tuple[Any, Any]:
    """One step: (h, c)."""
    i, f, g, o = tf.split(x @ kernel + h @ U + B, 4, 1)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * activation(c), c


def rnn(x: Any, h: Any) -> Any:
    """One step of a simple RNN."""
    return tf.tanh(x @ W_RNN + h @ U_RNN + B_RNN)


def zeros(x: Any) -> Any:
    """The state before the first step."""
    return tf.zeros([tf.shape(x)[0], UNITS])


def outputs(x: Any, steps: Any, read: Callable[[int], Any]) -> list[Any]:
    """The h of each step of an LSTM from zeros."""
    h = c = zeros(x)
    found = []
    for t in steps:
        h, c = lstm(read(t), h, c)
        found.append(h)
    return found


@written(loops=ONE_LSTM, fused=(LSTM,))
def stacked(x: Any) -> Any:
    return tf.stack(outputs(x, range(STEPS), lambda t: x[:, t]), 1)


@written(FIXED, loops=ONE_LSTM, fused=(LSTM,))
def fixed_batch(x: Any) -> Any:
    """The zeros are constants, and what follows from them is folded in the first step."""
    return tf.stack(outputs(x, range(STEPS), lambda t: x[:, t]), 1)


@written(FIXED, loops=((1, 1, STEPS),), fused=(RNN,))
def fixed_batch_rnn(x: Any) -> Any:
    """No constant of the first step shows what the state was."""
    h = tf.zeros([2, UNITS])
    for t in range(STEPS):
        h = rnn(x[:, t], h)
    return h


@written(loops=ONE_LSTM, fused=(LSTM,))
def time_major(x: Any) -> Any:
    rows = tf.transpose(x, [1, 0, 2])
    h = c = zeros(x)
    found = []
    for t in range(STEPS):
        h, c = lstm(rows[t], h, c)
        found.append(h)
    return tf.stack(found), c


@written(loops=ONE_LSTM, fused=(LSTM,))
def gathered(x: Any) -> Any:
    return outputs(x, range(STEPS), lambda t: tf.gather(x, t, axis=1))[-1]


@written(loops=ONE_LSTM, fused=(LSTM,))
def split_and_concatenated(x: Any) -> Any:
    parts = tf.split(x, STEPS, 1)
    found = outputs(x, range(STEPS), lambda t: tf.squeeze(parts[t], 1))
    return tf.concat([tf.expand_dims(h, 1) for h in found], 1)


@written(loops=ONE_LSTM, fused=(LSTM,))
def concatenated_and_reshaped(x: Any) -> Any:
    rows = tf.unstack(x, axis=1)
    return tf.reshape(tf.concat(outputs(x, range(STEPS), lambda t: rows[t]), 1), [-1, STEPS, UNITS])


@written(loops=ONE_LSTM, fused=(LSTM,))
def backwards(x: Any) -> Any:
    found = outputs(x, reversed(range(STEPS)), lambda t: x[:, t])
    return tf.stack(found[::-1], 1)


@written(FIXED, loops=((2, 1, 3),), fused=(LSTM,))
def every_other_step(x: Any) -> Any:
    return outputs(x, range(0, STEPS, 2), lambda t: x[:, t])[-1]


@written(OPEN, OPEN, loops=((2, 2, STEPS),), fused=(LSTM,))
def two_sequences(x: Any, y: Any) -> Any:
    return outputs(x, range(STEPS), lambda t: x[:, t] * tf.sigmoid(y[:, STEPS - 1 - t]))[-1]


@written(loops=((2, 2, STEPS - 1),), fused=(LSTM,))
def this_step_and_the_one_before(x: Any) -> Any:
    return outputs(x, range(1, STEPS), lambda t: x[:, t] - x[:, t - 1])[-1]


@written(loops=ONE_LSTM, fused=(LSTM,))
def some_steps_used(x: Any) -> Any:
    found = outputs(x, range(STEPS), lambda t: x[:, t])
    return found[1], found[3] * 2.0, found[5]


@written(FIXED, loops=ONE_LSTM, fused=(LSTM,))
def joined_out_of_order(x: Any) -> Any:
    found = outputs(x, range(STEPS), lambda t: x[:, t])
    with_others = [tf.ones([2, UNITS]), *found]
    return tf.stack([found[i] for i in (3, 1, 2, 0, 5, 4)], 1), tf.stack(with_others), tf.stack(found[:4])


@written(OPEN, (None, UNITS), loops=ONE_LSTM, fused=(LSTM,))
def given_state(x: Any, h: Any) -> Any:
    c = h * 2.0
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c)
    return h, c


@written(loops=((2, 1, STEPS - 1),), fused=(LSTM,))
def broadcast_state(x: Any) -> Any:
    """The first step works on one row of zeros, so it is another one."""
    h = c = tf.zeros([1, UNITS])
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c)
    return h


@written(loops=((2, 1, STEPS - 1),), fused=(LSTM,))
def truncated(x: Any) -> Any:
    return outputs(x, range(STEPS), lambda t: x[:, t])[STEPS - 2]


@written(loops=ONE_LSTM, fused=(LSTM,))
def with_a_head(x: Any) -> Any:
    found = outputs(x, range(STEPS), lambda t: x[:, t])
    return tf.stack([tf.nn.relu(h @ U_RNN + B_RNN) for h in found], 1)


@written(loops=ONE_LSTM, fused=(LSTM,))
def with_a_head_on_some(x: Any) -> Any:
    found = outputs(x, range(STEPS), lambda t: x[:, t])
    return tf.stack([tf.nn.relu(h @ U_RNN + B_RNN) for h in found[3:]], 1), found[-1]


@written(loops=((3, 1, STEPS),), fused=(LSTM, RNN))
def two_cells_a_step(x: Any) -> Any:
    h = c = top = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c)
        top = tf.tanh(h @ U_RNN + top @ U[:, :UNITS])
    return top


@written((None, STEPS, UNITS), loops=((1, 1, STEPS), (1, 1, STEPS), (1, 2, STEPS)))
def bidirectional_below(x: Any) -> Any:
    """The layer on top reads lists of what two others computed, one of them in the other direction."""
    rows = tf.unstack(x, axis=1)
    forward: list[Any] = []
    backward: list[Any] = []
    h = g = top = zeros(x)
    for t in range(STEPS):
        h = tf.tanh(rows[t] @ U_RNN + h @ U[:, :UNITS])
        g = tf.tanh(rows[STEPS - 1 - t] @ U_RNN + g @ U[:, UNITS : 2 * UNITS])
        forward.append(h)
        backward.insert(0, g)
    for h, g in zip(forward, backward, strict=True):
        top = tf.tanh(tf.concat([h, g], 1) @ W_WIDE + top @ U[:, :UNITS])
    return top


@written(OPEN, OPEN, loops=(*ONE_LSTM, *ONE_LSTM), fused=(LSTM, LSTM))
def siamese(x: Any, y: Any) -> Any:
    """One layer on two inputs, step by step in turn."""
    h = c = g = d = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c)
        g, d = lstm(y[:, t], g, d)
    return h - g


@written(OPEN, OPEN, loops=(*ONE_LSTM, *ONE_LSTM), fused=(LSTM, LSTM))
def one_after_the_other(x: Any, y: Any) -> Any:
    """One layer on two inputs, from the state that the first one leaves."""
    h = c = zeros(x)
    for rows in (x, y):
        for t in range(STEPS):
            h, c = lstm(rows[:, t], h, c)
    return h


@written(loops=((2, 2, STEPS),))
def masked(x: Any) -> Any:
    h = c = zeros(x)
    keep = tf.reduce_any(x > -1.0, -1, keepdims=True)
    for t in range(STEPS):
        new_h, new_c = lstm(x[:, t], h, c)
        h, c = tf.where(keep[:, t], new_h, h), tf.where(keep[:, t], new_c, c)
    return h


@written(OPEN, (None,), loops=((2, 2, STEPS),))
def lengths(x: Any, length: Any) -> Any:
    """Each step compares its own number, a constant, with the lengths."""
    h = c = zeros(x)
    for t in range(STEPS):
        new_h, new_c = lstm(x[:, t], h, c)
        keep = (tf.constant(t, tf.float32) < length * 4.0)[:, tf.newaxis]
        h, c = tf.where(keep, new_h, h), tf.where(keep, new_c, c)
    return h


@written(OPEN, (None, UNITS), (None, UNITS), loops=((2, 1, STEPS - 1),))
def two_steps_back(x: Any, before: Any, last: Any) -> Any:
    """The first step of the loop reads two states that are not the same."""
    states = [before, last]
    for t in range(STEPS):
        states.append(tf.tanh(x[:, t] @ W_RNN + states[-1] @ U_RNN + states[-2] @ U[:, :UNITS]))
    return states[-1]


@written((None, UNITS), loops=((1, 0, STEPS),))
def no_sequence(h: Any) -> Any:
    for _ in range(STEPS):
        h = tf.tanh(h @ U_RNN + B_RNN)
    return h


@written((None, STEPS, 4, FEATURES), loops=((0, 1, STEPS),))
def no_memory(x: Any) -> Any:
    return tf.stack([tf.nn.softmax(tf.nn.relu(x[:, t] @ W_RNN + B_RNN) @ U_RNN) for t in range(STEPS)], 1)


@written(loops=ONE_LSTM)
def crosswise(x: Any) -> Any:
    """Each step takes h for c and c for h."""
    h = c = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], c, h)
    return h


@decoy(loops=((2, 1, 4),))
def other_weights_once(x: Any) -> Any:
    h = c = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c, W_OTHER if t == 4 else W)
    return h


@decoy(loops=((2, 1, 3),))
def other_activation_once(x: Any) -> Any:
    h = c = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c, activation=tf.nn.relu if t == 2 else tf.tanh)
    return h


@decoy(loops=((2, 1, 5),))
def other_activation_at_last(x: Any) -> Any:
    h = c = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c, activation=tf.nn.relu if t == 5 else tf.tanh)
    return h


@decoy(loops=((2, 1, 3),))
def a_step_left_out(x: Any) -> Any:
    return outputs(x, (0, 1, 3, 4, 5), lambda t: x[:, t])[-1]


@decoy()
def shuffled(x: Any) -> Any:
    return outputs(x, (2, 0, 1, 5, 3, 4), lambda t: x[:, t])[-1]


@decoy(loops=((2, 1, 5),))
def learned_first_step(x: Any) -> Any:
    h = c = tf.tanh(x[:, 0] @ W_RNN)
    for t in range(1, STEPS):
        h, c = lstm(x[:, t], h, c)
    return h


@decoy(FIXED, loops=((1, 1, 5),))
def first_step_with_another_constant(x: Any) -> Any:
    """It is what folding leaves of a first step, but for one number."""
    h = tf.tanh(x[:, 0] @ W_RNN + tf.constant([[0.0, 0.0], [0.0, 1e-3]]) + B_RNN)
    for t in range(1, STEPS):
        h = rnn(x[:, t], h)
    return h


@decoy(FIXED, loops=((2, 1, 5),))
def constant_first_state(x: Any) -> Any:
    """The state is folded away, and it was not zeros."""
    h = c = tf.fill([2, UNITS], 0.3)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c)
    return h


@decoy(loops=((2, 1, 3), (2, 1, 3)))
def crosswise_once(x: Any) -> Any:
    h = c = zeros(x)
    for t in range(STEPS):
        h, c = lstm(x[:, t], h, c)
        if t == 2:
            h, c = c, h
    return h


@decoy((None, FEATURES))
def dense_layers(x: Any) -> Any:
    for i in range(STEPS):
        x = tf.nn.relu(x @ _weights(FEATURES, FEATURES, seed=i) + _weights(FEATURES, seed=i + 10))
    return x


@decoy((None, FEATURES))
def residual_blocks(x: Any) -> Any:
    for i in range(STEPS):
        x = x + tf.nn.relu(x @ _weights(FEATURES, FEATURES, seed=i))
    return x


@decoy((None, 2, FEATURES))
def two_towers(x: Any) -> Any:
    left, right = (tf.nn.relu(x[:, i] @ W_RNN) for i in range(2))
    return left * right


@decoy((None, FEATURES))
def powers(x: Any) -> Any:
    return x * x * x * x * x


@decoy((None, 3))
def channels(x: Any) -> Any:
    """Three slices under one function, as the gates of a cell with one unit."""
    a, b, c = (tf.sigmoid(part) for part in tf.split(x, 3, 1))
    return a * b + c


KERAS: dict[str, tuple[Callable[[Any], Any], tuple[Loop, ...]]] = {
    "lstm": (lambda k: k.LSTM(UNITS, unroll=True), ONE_LSTM),
    "lstm_sequences": (lambda k: k.LSTM(UNITS, unroll=True, return_sequences=True), ONE_LSTM),
    "lstm_states": (lambda k: k.LSTM(UNITS, unroll=True, return_sequences=True, return_state=True), ONE_LSTM),
    "lstm_backwards": (lambda k: k.LSTM(UNITS, unroll=True, return_sequences=True, go_backwards=True), ONE_LSTM),
    "lstm_of_one_unit": (lambda k: k.LSTM(1, unroll=True), ONE_LSTM),
    "gru": (lambda k: k.GRU(UNITS, unroll=True), ((1, 1, STEPS),)),
    "gru_reset_before": (
        lambda k: k.GRU(UNITS, unroll=True, reset_after=False, return_sequences=True),
        ((1, 1, STEPS),),
    ),
    "gru_of_one_unit": (lambda k: k.GRU(1, unroll=True), ((1, 1, STEPS),)),
    "simple_rnn": (lambda k: k.SimpleRNN(UNITS, unroll=True, return_sequences=True), ((1, 1, STEPS),)),
    "masked_lstm": (lambda k: _masked(k, k.LSTM(UNITS, unroll=True)), ((3, 2, STEPS),)),
    "masked_lstm_states": (lambda k: _masked(k, k.LSTM(UNITS, unroll=True, return_state=True)), ((3, 2, STEPS),)),
    "masked_rnn": (
        lambda k: _masked(k, k.SimpleRNN(UNITS, unroll=True, return_sequences=True)),
        ((2, 2, STEPS),),
    ),
    "bidirectional": (
        lambda k: k.Bidirectional(k.LSTM(UNITS, unroll=True, return_sequences=True)),
        (*ONE_LSTM, *ONE_LSTM),
    ),
    "stacked_cells": (lambda k: k.RNN([k.LSTMCell(UNITS), k.LSTMCell(3)], unroll=True), ((4, 1, STEPS),)),
    "two_layers": (
        lambda k: _both(k.LSTM(3, unroll=True, return_sequences=True), k.LSTM(UNITS, unroll=True)),
        (*ONE_LSTM, *ONE_LSTM),
    ),
}
"""Layers of a Keras library's `layers`, and their loops."""


def _masked(k: Any, layer: Any) -> Callable[[Any], Any]:
    return lambda x: layer(k.Masking(0.0)(x))


def _both(first: Any, second: Any) -> Callable[[Any], Any]:
    return lambda x: second(first(x))


def keras_model(library: Any, name: str, batch: int | None, steps: int = STEPS) -> Any:
    """A model of f32[batch, steps, 3] with one of the layers."""
    x = library.Input(batch_shape=(batch, steps, FEATURES), name="x")
    return library.Model(x, KERAS[name][0](library.layers)(x))


def time_distributed(library: Any, batch: int | None) -> Any:
    """A Dense layer on each step of f32[batch, 6, 3]."""
    x = library.Input(batch_shape=(batch, STEPS, FEATURES), name="x")
    return library.Model(x, library.layers.TimeDistributed(library.layers.Dense(4))(x))


def static_rnn() -> Any:
    """`tf.compat.v1.nn.static_rnn` of a TF1 graph: f32[b,6,3] -> every h, and the last c."""
    cell = tf_keras.layers.LSTMCell(UNITS)
    cell.build([None, FEATURES])
    cell.set_weights([W, U, B])

    def call(x: Any) -> Any:
        found, state = tf.compat.v1.nn.static_rnn(cell, tf.unstack(x, axis=1), dtype=tf.float32)
        return tf.stack(found, 1), state[1]

    return tf.compat.v1.wrap_function(call, [tf.TensorSpec(OPEN, tf.float32, name="x")])
