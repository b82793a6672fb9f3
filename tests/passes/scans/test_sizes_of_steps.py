"""Sizes that a loop's step reads tie no recurrences together, and a mask that is computed twice is one mask."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jfuse
from jfuse.running.interpreter import LiteRt

B, T = jax.export.symbolic_shape("B, T")
X = jax.ShapeDtypeStruct((B, 5, 3), jnp.float32)
W = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)


def cell(h: Any, row: Any) -> Any:
    """A state after a step; the bias gets the batch of the state, as haiku's linear layers give it."""
    return jnp.tanh(row @ W + h @ W.T + jnp.broadcast_to(W[0], h.shape))


def stacked(x: Any) -> Any:
    """Two cells in one scan."""

    def step(carry: Any, row: Any) -> Any:
        first = cell(carry[0], row)
        second = cell(carry[1], first)
        return (first, second), second

    zero = jnp.zeros((x.shape[0], 3))
    return lax.scan(step, (zero, zero), jnp.swapaxes(x, 0, 1))[1]


def masked(x: Any, lengths: Any) -> Any:
    """The last state and all of them, each chosen by a mask of its own that is the same."""

    def step(h: Any, numbered: Any) -> Any:
        number, row = numbered
        new = cell(h, row)
        return jnp.where((number < lengths)[:, None], new, h), jnp.where((number < lengths)[:, None], new, h)

    return lax.scan(step, jnp.zeros((x.shape[0], 3)), (jnp.arange(5), jnp.swapaxes(x, 0, 1)))


def halved(x: Any) -> Any:
    """Half as many steps as the input has."""
    rows = jnp.swapaxes(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 1), (1, 2, 1), "VALID"), 0, 1)
    return lax.scan(lambda h, row: (cell(h, row),) * 2, jnp.zeros((x.shape[0], 3)), rows)[1]


@pytest.mark.parametrize(
    ("function", "specs", "count"),
    [
        (stacked, (X,), 2),
        (masked, (X, jax.ShapeDtypeStruct((B,), jnp.int32)), 1),
        (halved, (jax.ShapeDtypeStruct((B, T, 3), jnp.float32),), 1),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_recurrences_fuse(function: Any, specs: tuple[Any, ...], count: int) -> None:
    lite = jfuse.lower(jfuse.load(function, specs))
    assert [f.composite for f in lite.report.fused] == ["jfuse.rnn"] * count
    interpreter, signature = LiteRt(lite.to_bytes()), lite.signature()
    rng = np.random.default_rng(1)
    for batch in (2, 3):
        args = [rng.normal(size=(batch, 5, 3)).astype(np.float32), np.array([5, 0, 3], np.int32)[:batch]][: len(specs)]
        found = interpreter.run(signature.key, dict(zip(signature.input_names, args, strict=True)))
        for name, wanted in zip(signature.output_names, jax.tree.leaves(function(*args)), strict=True):
            np.testing.assert_allclose(found[name], wanted, atol=1e-5)


def test_an_input_of_twice_a_size_reads_back() -> None:
    jfuse.convert(jnp.tanh, [jax.ShapeDtypeStruct((B, 2 * T), jnp.float32)])
