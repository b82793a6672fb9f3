"""SVDF: low-rank filters over the last steps, with the memory of those steps as operand and result."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from jfuse.kernels.core.op import Array, tfl
from jfuse.kernels.fused.recurrence import Checks, product
from jfuse.kernels.nn.activation import activate


@tfl("SVDF", updates={"state": 1}, cell="SVDF")
def svdf(
    input_: Array,
    weights_feature: Array,
    weights_time: Array,
    bias: Array | None,
    state: Array,
    /,
    *,
    rank: int,
    fused_activation_function: str = "NONE",
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, Array]:
    """One step of filters over time: (y, state'), for each filter f the last m products x W_f' weighed by T_f.

    input: f[b,i]; weights_feature W f[r*u,i]; weights_time T f[r*u,m], the oldest step first; bias f[u]; state
    f[b,r*u*m], the products of the last m steps of each filter in a row, oldest first; y: f[b,u], the sum of `rank`
    filters in a row each, plus bias, activated. All of one dtype, f32 or f64.
    Numerics: sums in highest precision; in f32 within 1e-6 of the formula in f64 over 500 calls.
    Source: tflite/kernels/svdf.cc, tflite/kernels/internal/reference/svdf.h
    """
    checks = Checks("svdf")
    checks.rank("the input", input_, 2)
    checks.rank("weights_time", weights_time, 2)
    filters, memory = weights_time.shape
    checks.refuse_unless(rank > 0 and filters % rank == 0, f"{filters} filters in groups of {rank}")
    batch = input_.shape[0]
    checks.expect("weights_feature", weights_feature, (filters, input_.shape[1]))
    checks.expect("bias", bias, (filters // rank,))
    checks.expect("state", state, (batch, filters * memory))
    checks.one_float_dtype([input_, weights_feature, weights_time, bias, state])
    steps = shifted(state, product(jnp.asarray(input_), weights_feature), (batch, filters, memory))
    y = jnp.sum(jnp.reshape(steps * weights_time, (batch, filters // rank, rank * memory)), -1)
    y = y if bias is None else y + bias
    return activate(y, fused_activation_function), jnp.reshape(steps, state.shape)


def shifted(state: Array, newest: Array, shape: tuple[Any, ...]) -> Array:
    """The memory f[b,f,m] without the oldest step of each filter, and with the newest."""
    return jnp.concatenate([jnp.reshape(state, shape)[:, :, 1:], newest[:, :, None]], 2)
