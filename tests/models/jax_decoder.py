"""A decoder of jax arrays: rotary positions, grouped queries, a static cache, an optional window."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

WORDS, WIDTH, HEADS, GROUPS, SIZE, STEPS = 40, 16, 4, 2, 8, 64
"""Words, features, heads of queries, heads of keys, features of a head, places of the cache."""

Cache = dict[str, Any]


def empty_cache(layers: int = 2) -> Cache:
    rows = jnp.zeros((STEPS, GROUPS, SIZE))
    return {"step": jnp.int32(0), "keys": [rows] * layers, "values": [rows] * layers}


def decoder(layers: int = 2, window: int | None = None) -> Callable[[Cache, Any], tuple[Any, Cache]]:
    """A function of the cache and ids i32[1, T], which gives logits f32[1, T, WORDS] and the next cache."""
    rng = np.random.default_rng(5)

    def weights(*shape: int) -> np.ndarray:
        return np.asarray(rng.normal(size=shape) / np.sqrt(shape[0]), np.float32)

    table = jnp.asarray(weights(WORDS, WIDTH) * 6)
    shapes = {"q": (WIDTH, HEADS * SIZE), "k": (WIDTH, GROUPS * SIZE), "v": (WIDTH, GROUPS * SIZE)}
    shapes |= {"o": (HEADS * SIZE, WIDTH), "gate": (WIDTH, 24), "up": (WIDTH, 24), "down": (24, WIDTH)}
    blocks = [{name: weights(*shape) for name, shape in shapes.items()} for _ in range(layers)]

    def call(cache: Cache, ids: Any) -> tuple[Any, Cache]:
        count = ids.shape[1]
        steps = cache["step"] + jnp.arange(count)
        seen = jnp.arange(STEPS) <= steps[:, None]
        if window is not None:
            seen &= jnp.arange(STEPS) > steps[:, None] - window
        x, keys, values = table[ids[0]], [], []
        for block, old_keys, old_values in zip(blocks, cache["keys"], cache["values"], strict=True):
            y = normed(x)
            q = rotated((y @ block["q"]).reshape(count, HEADS, SIZE), steps)
            k = rotated((y @ block["k"]).reshape(count, GROUPS, SIZE), steps)
            v = (y @ block["v"]).reshape(count, GROUPS, SIZE)
            keys.append(jax.lax.dynamic_update_slice(old_keys, k, (cache["step"], 0, 0)))
            values.append(jax.lax.dynamic_update_slice(old_values, v, (cache["step"], 0, 0)))
            q = q.reshape(count, GROUPS, HEADS // GROUPS, SIZE)
            scores = jnp.einsum("tghd,sgd->ghts", q, keys[-1]) / np.sqrt(SIZE)
            shares = jax.nn.softmax(jnp.where(seen, scores, -1e9), axis=-1)
            read = jnp.einsum("ghts,sgd->tghd", shares, values[-1])
            x = x + read.reshape(count, HEADS * SIZE) @ block["o"]
            y = normed(x)
            x = x + (jax.nn.silu(y @ block["gate"]) * (y @ block["up"])) @ block["down"]
        new = {"step": cache["step"] + count, "keys": keys, "values": values}
        return (normed(x) @ table.T)[None], new

    return call


def normed(x: Any) -> Any:
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-6)


def rotated(x: Any, steps: Any) -> Any:
    half = x.shape[-1] // 2
    angles = steps[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    cos, sin = jnp.cos(angles)[:, None], jnp.sin(angles)[:, None]
    first, second = jnp.split(x, 2, axis=-1)
    return jnp.concatenate([first * cos - second * sin, first * sin + second * cos], axis=-1)
