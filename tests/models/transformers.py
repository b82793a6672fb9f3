"""Transformers: encoders and decoders of Keras's layers, and attention written by hand as large language models do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.keras_libraries import LIBRARIES, awake

WIDTH, HEADS, HEAD = 8, 2, 4
VOCABULARY, LONGEST = 30, 12


def _normal(*shape: int, seed: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape) / np.sqrt(shape[0]), np.float32)


# Keras


def _feed_forward(k: Any, x: Any) -> Any:
    hidden = k.layers.Dense(2 * WIDTH, activation="gelu")(k.layers.LayerNormalization(epsilon=1e-6)(x))
    return k.layers.Add()([x, k.layers.Dense(WIDTH)(hidden)])


def _self_attention(k: Any, x: Any, **options: Any) -> Any:
    normed = k.layers.LayerNormalization(epsilon=1e-6)(x)
    return k.layers.Add()([x, k.layers.MultiHeadAttention(HEADS, HEAD)(normed, normed, **options)])


class _Positions:
    """Learned positions added to embedded ids, as `keras_hub.layers.TokenAndPositionEmbedding` does it."""

    def __init__(self, k: Any) -> None:
        class Layer(k.layers.Layer):
            def build(self, shape: Any) -> None:
                self.table = self.add_weight(shape=(LONGEST, WIDTH), initializer="zeros", name="table")

            def call(self, x: Any) -> Any:
                return x + self.table[: tf.shape(x)[1]]

        self.layer = Layer()

    def __call__(self, x: Any) -> Any:
        return self.layer(x)


def encoder(library: str = "keras", steps: int | None = 6) -> Any:
    """f32[b,t,8] -> f32[b,t,8]: two blocks with the norms first."""
    k = LIBRARIES[library]
    inputs = k.Input((steps, WIDTH), name="x")
    x = inputs
    for _ in range(2):
        x = _feed_forward(k, _self_attention(k, x))
    return awake(k.Model(inputs, k.layers.LayerNormalization(epsilon=1e-6)(x)))


def masked_encoder(library: str = "keras", steps: int | None = 6) -> Any:
    """f32[b,t,8], bool[b,t] -> f32[b,t,8]: padded steps are not attended to."""
    k = LIBRARIES[library]
    inputs, mask = k.Input((steps, WIDTH), name="x"), k.Input((steps,), dtype="bool", name="mask")
    x = _self_attention(k, inputs, attention_mask=mask[:, None, :])
    return awake(k.Model([inputs, mask], _feed_forward(k, x)))


def decoder(library: str = "keras", steps: int | None = 5) -> Any:
    """ids i32[b,t], memory f32[b,s,8] -> logits f32[b,t,30]: causal self-attention, then attention to the memory."""
    k = LIBRARIES[library]
    ids, memory = k.Input((steps,), dtype="int32", name="ids"), k.Input((steps, WIDTH), name="memory")
    x = _Positions(k)(k.layers.Embedding(VOCABULARY, WIDTH)(ids))
    x = _self_attention(k, x, use_causal_mask=True)
    normed = k.layers.LayerNormalization(epsilon=1e-6)(x)
    x = k.layers.Add()([x, k.layers.MultiHeadAttention(HEADS, HEAD)(normed, memory)])
    return awake(k.Model([ids, memory], k.layers.Dense(VOCABULARY)(_feed_forward(k, x))))


# By hand


def _rms_norm(x: Any, scale: np.ndarray) -> Any:
    return x * tf.math.rsqrt(tf.reduce_mean(tf.square(x), -1, keepdims=True) + 1e-6) * scale


def _swiglu(x: Any, seed: int) -> Any:
    gate, up = (x @ _normal(WIDTH, 2 * WIDTH, seed=seed + i) for i in range(2))
    return (tf.nn.silu(gate) * up) @ _normal(2 * WIDTH, WIDTH, seed=seed + 2)


def _rotated(x: Any, positions: Any) -> Any:
    """Rotary position embedding of f32[b,t,h,d] at positions f32[t], by halves."""
    half = x.shape[-1] // 2
    frequencies = (1e4 ** -(np.arange(half) / half)).astype(np.float32)
    angles = positions[:, None] * frequencies
    cos, sin = (f(angles)[:, None, :] for f in (tf.cos, tf.sin))
    first, second = tf.split(x, 2, -1)
    return tf.concat([first * cos - second * sin, first * sin + second * cos], -1)


def _heads(x: Any, count: int, seed: int) -> Any:
    """f32[b,t,w] -> f32[b,t,h,d]."""
    return tf.einsum("btw,whd->bthd", x, _normal(WIDTH, count, HEAD, seed=seed))


def _attended(q: Any, k: Any, v: Any, allowed: Any) -> Any:
    scores = tf.einsum("bthd,bshd->bhts", q, k) / np.sqrt(np.float32(HEAD))
    weights = tf.nn.softmax(tf.where(allowed, scores, -1e9))
    return tf.einsum("bhts,bshd->bthd", weights, v)


def _output(x: Any, seed: int) -> Any:
    return tf.einsum("bthd,hdw->btw", x, _normal(HEADS, HEAD, WIDTH, seed=seed))


def _causal(steps: Any) -> Any:
    places = tf.range(steps)
    return places[:, None] >= places[None, :]


def einsum_attention(steps: int | None = 6) -> Any:
    """f32[b,t,8] -> f32[b,t,8]: causal attention in einsums."""

    @tf.function(input_signature=[tf.TensorSpec([None, steps, WIDTH], name="x")], autograph=False)
    def call(x: Any) -> Any:
        q, k, v = (_heads(x, HEADS, seed) for seed in range(3))
        return _output(_attended(q, k, v, _causal(tf.shape(x)[1])), 3)

    return call


def llama_block(steps: int | None = 6) -> Any:
    """f32[b,t,8] -> f32[b,t,8]: RMS norms, rotary positions, two query heads for one of keys, SwiGLU."""

    @tf.function(input_signature=[tf.TensorSpec([None, steps, WIDTH], name="x")], autograph=False)
    def call(x: Any) -> Any:
        normed = _rms_norm(x, _normal(1, WIDTH, seed=9)[0])
        positions = tf.range(tf.shape(x)[1])
        q, k = (_rotated(_heads(normed, n, s), tf.cast(positions, tf.float32)) for n, s in ((HEADS, 0), (1, 1)))
        k, v = (tf.repeat(t, HEADS, axis=2) for t in (k, _heads(normed, 1, 2)))
        x = x + _output(_attended(q, k, v, _causal(tf.shape(x)[1])), 3)
        return x + _swiglu(_rms_norm(x, _normal(1, WIDTH, seed=10)[0]), 20)

    return call


Write = Callable[[Any, Any, Any], Any]
"""Puts f32[b,1,h,d] into a cache f32[b,l,h,d] at a place i32[]."""


def scattered(cache: Any, new: Any, place: Any) -> Any:
    """With `tf.tensor_scatter_nd_update`, time first."""
    turned = tf.transpose(cache, [1, 0, 2, 3])
    return tf.transpose(tf.tensor_scatter_nd_update(turned, [[place]], new[None, :, 0]), [1, 0, 2, 3])


def joined(cache: Any, new: Any, place: Any) -> Any:
    """With what stands before it and what follows."""
    written = tf.concat([cache[:, :place], new, cache[:, place + 1 :]], 1)
    return tf.ensure_shape(written, cache.shape)


def chosen(cache: Any, new: Any, place: Any) -> Any:
    """With a choice at every place."""
    return tf.where((tf.range(LONGEST) == place)[:, None, None], new, cache)


def decode_step(write: Write) -> Any:
    """x f32[2,1,8], place i32[], keys and values f32[2,12,2,4] -> f32[2,1,8] and the caches with one more step."""
    cache = tf.TensorSpec([2, LONGEST, HEADS, HEAD])

    step, place_ = tf.TensorSpec([2, 1, WIDTH], name="x"), tf.TensorSpec([], tf.int32, name="place")

    @tf.function(input_signature=[step, place_, cache, cache], autograph=False)
    def call(x: Any, place: Any, keys: Any, values: Any) -> Any:
        q, k, v = (_heads(x, HEADS, seed) for seed in range(3))
        at = tf.cast(place, tf.float32)[None]
        keys, values = write(keys, _rotated(k, at), place), write(values, v, place)
        allowed = tf.range(LONGEST) <= place
        return x + _output(_attended(_rotated(q, at), keys, values, allowed), 3), keys, values

    return call
