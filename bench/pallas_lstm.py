"""The steps of an LSTM as one Pallas kernel each, for `bench.kernels` on a GPU, beside XLA's scan.

Nothing in jfuse uses it: on an H100 it takes 1.1 to 1.8 times as long (`bench/results/kernels_h100.json`).
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

_GATES = 4  # input, forget, cell, output
_BLOCK = 32  # rows, columns and terms of a sum in one program: the tensors of Triton are powers of two
_LEAST = 16  # of each size of a product


def lstm(x: Any, inputs: Any, recurrent: Any, biases: Any, h: Any, c: Any, *, interpret: bool = False) -> Any:
    """The output state after each step, f32[b,t,n].

    x: f32[b,t,i]; inputs: f32[4,n,i], recurrent: f32[4,n,n] and biases: f32[4,n] of the gates input, forget, cell,
    output; h and c: f32[b,n]. b and n are multiples of 16. interpret: without a GPU, slowly.
    """
    entering = jnp.einsum("bti,gni->tgbn", x, inputs, precision=lax.Precision.HIGHEST) + biases[:, None]
    batch, units = h.shape
    step = _step(batch, units, interpret)
    weights = jnp.swapaxes(recurrent, 1, 2)

    def one(state: tuple[Any, Any], sums: Any) -> tuple[tuple[Any, Any], Any]:
        after = step(sums, weights, *state)
        return after, after[0]

    _, found = lax.scan(one, (h, c), entering)
    return jnp.swapaxes(found, 0, 1)


def _step(batch: int, units: int, interpret: bool) -> Any:
    """(what enters f[4,b,n], weights f[4,n,n], h, c) to (h', c'); a program computes a block of both states."""
    rows, columns = (_divisor(n) for n in (batch, units))
    block = pl.BlockSpec((rows, columns), lambda i, j: (i, j))
    state = jax.ShapeDtypeStruct((batch, units), jnp.float32)
    return pl.pallas_call(
        partial(_kernel, depth=columns),
        out_shape=(state, state),
        grid=(batch // rows, units // columns),
        in_specs=[
            pl.BlockSpec((_GATES, rows, columns), lambda i, j: (0, i, j)),
            pl.BlockSpec((_GATES, units, columns), lambda i, j: (0, 0, j)),
            pl.BlockSpec((rows, units), lambda i, j: (i, 0)),
            block,
        ],
        out_specs=(block, block),
        compiler_params=None if interpret else triton.CompilerParams(num_warps=4, num_stages=3),
        interpret=interpret,
    )


def _kernel(entering: Any, weights: Any, h: Any, c: Any, new_h: Any, new_c: Any, *, depth: int) -> None:
    """One block: the sums of the four gates over all units, `depth` of them at a time, then the new states."""

    def add(k: Any, totals: Any) -> Any:
        part = pl.ds(k * depth, depth)
        some = h[:, part]
        return tuple(t + triton.dot(some, weights[g, part, :], allow_tf32=False) for g, t in enumerate(totals))

    sums = lax.fori_loop(0, h.shape[1] // depth, add, tuple(entering[g] for g in range(_GATES)))
    sigmoid = jax.nn.sigmoid
    cell = sigmoid(sums[1]) * c[...] + sigmoid(sums[0]) * jnp.tanh(sums[2])
    new_c[...] = cell
    new_h[...] = sigmoid(sums[3]) * jnp.tanh(cell)


def _divisor(size: int) -> int:
    """The largest block that divides a size."""
    for block in (_BLOCK, _LEAST):
        if size % block == 0:
            return block
    raise ValueError(f"{size} is no multiple of {_LEAST}")
