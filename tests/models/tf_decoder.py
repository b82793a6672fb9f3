"""A decoder as a tf.Module: rotary positions, grouped queries, a cache in variables that is written in four ways."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.jax_decoder import GROUPS, HEADS, SIZE, STEPS, WIDTH, WORDS


class Decoder(tf.Module):
    """Ids i32[1, T] -> logits f32[1, T, WORDS].   write: "slice", "scatter", "scatter_nd" or "tensor_scatter"."""

    def __init__(self, write: str) -> None:
        super().__init__()
        rng = np.random.default_rng(5)

        def weights(*shape: int) -> Any:
            return tf.constant(rng.normal(size=shape) / np.sqrt(shape[0]), tf.float32)

        self.write, self.step, self.table = write, tf.Variable(0), weights(WORDS, WIDTH) * 6
        self.keys, self.values = ([tf.Variable(tf.zeros([STEPS, GROUPS, SIZE])) for _ in range(2)] for _ in range(2))
        shapes = {"q": (WIDTH, HEADS * SIZE), "k": (WIDTH, GROUPS * SIZE), "v": (WIDTH, GROUPS * SIZE)}
        shapes |= {"o": (HEADS * SIZE, WIDTH), "gate": (WIDTH, 24), "up": (WIDTH, 24), "down": (24, WIDTH)}
        self.blocks = [{name: weights(*shape) for name, shape in shapes.items()} for _ in range(2)]

    def written(self, cache: Any, steps: Any, rows: Any) -> None:
        if self.write == "slice":
            cache[self.step : self.step + tf.shape(rows)[0]].assign(rows)
        elif self.write == "scatter":
            cache.scatter_update(tf.IndexedSlices(rows, steps))
        elif self.write == "scatter_nd":
            cache.scatter_nd_update(steps[:, None], rows)
        else:
            cache.assign(tf.tensor_scatter_nd_update(cache, steps[:, None], rows))

    def answers(self, ids: Any) -> dict[str, Any]:
        count = tf.shape(ids)[1]
        steps = self.step + tf.range(count)
        seen = tf.range(STEPS)[None] <= steps[:, None]
        x = tf.gather(self.table, ids[0])
        for block, keys, values in zip(self.blocks, self.keys, self.values, strict=True):
            y = normed(x)
            q = rotated(tf.reshape(y @ block["q"], [count, HEADS, SIZE]), steps)
            self.written(keys, steps, rotated(tf.reshape(y @ block["k"], [count, GROUPS, SIZE]), steps))
            self.written(values, steps, tf.reshape(y @ block["v"], [count, GROUPS, SIZE]))
            q = tf.reshape(q, [count, GROUPS, HEADS // GROUPS, SIZE])
            scores = tf.einsum("tghd,sgd->ghts", q, keys) / SIZE**0.5
            read = tf.einsum("ghts,sgd->tghd", tf.nn.softmax(tf.where(seen, scores, -1e9)), values)
            x = x + tf.reshape(read, [count, HEADS * SIZE]) @ block["o"]
            y = normed(x)
            x = x + (tf.nn.silu(y @ block["gate"]) * (y @ block["up"])) @ block["down"]
        self.step.assign_add(count)
        return {"logits": (normed(x) @ tf.transpose(self.table))[None]}

    @tf.function(input_signature=[tf.TensorSpec([1, None], tf.int32, name="ids")])
    def prefill(self, ids: Any) -> dict[str, Any]:
        return self.answers(ids)

    @tf.function(input_signature=[tf.TensorSpec([1, 1], tf.int32, name="ids")])
    def decode(self, ids: Any) -> dict[str, Any]:
        return self.answers(ids)

    @tf.function(input_signature=[])
    def clear(self) -> dict[str, Any]:
        for state in (self.step, *self.keys, *self.values):
            state.assign(tf.zeros_like(state))
        return {"step": tf.identity(self.step)}


def normed(x: Any) -> Any:
    return x * tf.math.rsqrt(tf.reduce_mean(x * x, -1, keepdims=True) + 1e-6)


def rotated(x: Any, steps: Any) -> Any:
    half = SIZE // 2
    angles = tf.cast(steps, tf.float32)[:, None] * 10000.0 ** (-tf.range(half, dtype=tf.float32) / half)
    cos, sin = tf.cos(angles)[:, None], tf.sin(angles)[:, None]
    first, second = tf.split(x, 2, -1)
    return tf.concat([first * cos - second * sin, first * sin + second * cos], -1)
