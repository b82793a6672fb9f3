"""LSTM with the basic kernel: one step whose states are plain tensors, which every LiteRT loads."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from jfuse.kernels.core.op import Array, tfl
from jfuse.kernels.fused.lstm import LstmOptions
from jfuse.kernels.fused.recurrence import Checks, product


@tfl("LSTM", form="basic_lstm", overwrites=("prev_activation", "prev_state"))
def basic_lstm(
    input_: Array,
    prev_activation: Array,
    weights: Array,
    bias: Array,
    prev_state: Array,
    /,
    *,
    options: LstmOptions,
    kernel_type: str = "BASIC",
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, Array, Array, Array]:
    """One step of a plain LSTM: (h', c', [x, h], [x, h] W' + b), the states and what the kernel needs room for.

    input: f[b,i]; prev_activation and prev_state: f[b,u]; weights f[4u,i+u], of the inputs first, by rows of the input,
    cell, forget and output gates; bias f[4u]. All of one dtype, f32 or f64. The activation is TANH, and nothing is
    clipped. h = sigmoid(o) * tanh(c), c = sigmoid(f) * c + sigmoid(i) * tanh(g).
    The kernel writes h' and c' over its operands h and c as well.
    Numerics: one product of [x, h], in highest precision; in f32 within 2e-6 of the formula in f64.
    Source: tflite/kernels/lstm.cc (namespace basic), tflite/kernels/internal/optimized/optimized_ops.h, LstmCell
    """
    checks = Checks("basic_lstm")
    checks.refuse_unless(kernel_type == "BASIC", f"kernel_type {kernel_type}, which has other operands")
    checks.refuse_unless(options == LstmOptions(), f"{options}, where the kernel has TANH and clips nothing")
    for what, state in (("input", input_), ("prev_activation", prev_activation), ("prev_state", prev_state)):
        checks.rank(what, state, 2)
    batch, units = input_.shape[0], prev_state.shape[1]
    checks.expect("prev_activation", prev_activation, (batch, units))
    checks.expect("prev_state", prev_state, (batch, units))
    checks.expect("weights", weights, (4 * units, input_.shape[1] + units))
    checks.expect("bias", bias, (4 * units,))
    checks.one_float_dtype([input_, prev_activation, weights, bias, prev_state])
    both = jnp.concatenate([jnp.asarray(input_), jnp.asarray(prev_activation)], 1)
    totals = product(both, jnp.asarray(weights)) + jnp.asarray(bias)
    admit, candidate, forget, out = jnp.split(totals, 4, 1)
    c = jax.nn.sigmoid(forget) * prev_state + jax.nn.sigmoid(admit) * jnp.tanh(candidate)
    return jax.nn.sigmoid(out) * jnp.tanh(c), c, both, totals
