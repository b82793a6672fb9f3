"""LSTM and UNIDIRECTIONAL_SEQUENCE_LSTM: one step and a whole recurrence, with the state as operands and results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import jax
import jax.numpy as jnp

from jfuse.kernels.core.op import Array, tfl
from jfuse.kernels.fused.lstm_cell import PARTS, LstmCell, lstm_cell
from jfuse.kernels.fused.recurrence import Checks, product


@dataclass(frozen=True)
class LstmOperands:
    """The operands of an LSTM between its input and its states, in the order in which files have them."""

    input_to_input_weights: Array | None
    input_to_forget_weights: Array
    input_to_cell_weights: Array
    input_to_output_weights: Array
    recurrent_to_input_weights: Array | None
    recurrent_to_forget_weights: Array
    recurrent_to_cell_weights: Array
    recurrent_to_output_weights: Array
    cell_to_input_weights: Array | None
    cell_to_forget_weights: Array | None
    cell_to_output_weights: Array | None
    input_gate_bias: Array | None
    forget_gate_bias: Array
    cell_gate_bias: Array
    output_gate_bias: Array
    projection_weights: Array | None
    projection_bias: Array | None


@dataclass(frozen=True)
class LayerNorms:
    """The operands of a layer norm in each gate, all of them or none but the input gate's."""

    input_layer_norm_coefficients: Array | None = None
    forget_layer_norm_coefficients: Array | None = None
    cell_layer_norm_coefficients: Array | None = None
    output_layer_norm_coefficients: Array | None = None


@dataclass(frozen=True)
class LstmOptions:
    """The options that both LSTMs have."""

    fused_activation_function: str = "TANH"
    cell_clip: float = 0.0
    proj_clip: float = 0.0


@tfl(
    "UNIDIRECTIONAL_SEQUENCE_LSTM",
    updates={"output_state": 1, "cell_state": 2},
    repeats={"output_state": (0, -1)},
    cell="LSTM",
    intermediates=5,
)
def unidirectional_sequence_lstm(
    input_: Array,
    weights: LstmOperands,
    output_state: Array,
    cell_state: Array,
    norms: LayerNorms,
    /,
    *,
    options: LstmOptions,
    time_major: bool = False,
    asymmetric_quantize_inputs: bool = False,
    diagonal_recurrent_tensors: bool = False,
) -> tuple[Array, Array, Array]:
    """The LSTM over all steps: (y, h', c'), every h in a row and the state after the last step.

    input: f[b,t,i], or f[t,b,i] if time_major; input weights f[c,i]; recurrent weights f[c,o], or f[c] if diagonal;
    peephole weights, biases and layer norm coefficients f[c]; projection weights f[o,c], bias f[o] (o = c without);
    output_state f[b,o] and cell_state f[b,c], or as vectors of as many elements.
    y: f[b,t,o] or f[t,b,o]; h' and c' as the states. All of one dtype, f32 or f64.

    With pre(g, s) = x W_g' + h R_g' + s * p_g + b_g, or norm(x W_g' + h R_g' + s * p_g) * l_g + b_g, at each step:
    i = sigmoid(pre(input, c)), f = sigmoid(pre(forget, c)), g = act(pre(cell)), c = clip(f * c + i * g, cell_clip),
    o = sigmoid(pre(output, c)), h = o * act(c), and with a projection h = clip(h P' + b, proj_clip).
    Without the weights of the input gate i = 1 - f. Clips of 0 do nothing. norm: zero mean, unit variance over c.
    Numerics: a step is one product of [x, h] for all gates, in highest precision; in f32 within 2e-6 of the formula in
    f64 for sums of 40 terms over 4 steps, 1e-6 of LiteRT for 512 units over 100.
    Source: tflite/kernels/unidirectional_sequence_lstm.cc, tflite/kernels/lstm_eval.cc
    """
    cell = _cell("unidirectional_sequence_lstm", weights, norms, options)
    cell.check(diagonal=diagonal_recurrent_tensors)
    Checks(cell.op).rank("the input", input_, 3)
    cell.check_operands(input_, output_state, cell_state, input_.shape[1 if time_major else 0])
    return cell.run(input_, output_state, cell_state, time_major=time_major)


@tfl(
    "LSTM",
    updates={"output_state": 1, "cell_state": 2},
    repeats={"output_state": (0, -1)},
    cell="LSTM cell",
    intermediates=5,
)
def lstm(
    input_: Array,
    weights: LstmOperands,
    output_state: Array,
    cell_state: Array,
    norms: LayerNorms,
    /,
    *,
    options: LstmOptions,
    kernel_type: str = "FULL",
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, Array, Array]:
    """One step of the LSTM: (h', h', c'), the output and the new states.

    input: f[b,i]; output: f[b,o]; all else as in unidirectional_sequence_lstm, whose step this is. Recurrent weights
    are matrices. Of the kernels there is the full one; the basic one has other operands.
    Source: tflite/kernels/lstm.cc, tflite/kernels/lstm_eval.cc
    """
    checks = Checks("lstm")
    checks.refuse_unless(kernel_type == "FULL", f"kernel_type {kernel_type}, an older form with other operands")
    cell = _cell("lstm", weights, norms, options)
    cell.check()
    checks.rank("the input", input_, 2)
    cell.check_operands(input_, output_state, cell_state, input_.shape[0])
    return cell.run_step(input_, output_state, cell_state)


@unidirectional_sequence_lstm.watched(*PARTS)
def _sequence_watched(
    parts: Sequence[str], *operands: Array | None, time_major: bool, **options: Any
) -> tuple[Any, ...]:
    """The results of unidirectional_sequence_lstm, and inner values of all steps."""
    cell = _cell_of("unidirectional_sequence_lstm", operands, options)
    return cell.run_watched(parts, operands[0], operands[18], operands[19], time_major=time_major)


@lstm.watched(*PARTS)
def _step_watched(parts: Sequence[str], *operands: Array | None, **options: Any) -> tuple[Any, ...]:
    """The results of lstm, and its inner values."""
    return _cell_of("lstm", operands, options).run_step_watched(parts, operands[0], *operands[18:20])


def _cell_of(op: str, operands: tuple[Array | None, ...], options: dict[str, Any]) -> LstmCell:
    """The cell of all operands of an op, in its order, and of its options."""
    shared = {f.name: options[f.name] for f in fields(LstmOptions)}
    return _cell(op, LstmOperands(*operands[1:18]), LayerNorms(*operands[20:24]), LstmOptions(**shared))


def _cell(op: str, weights: LstmOperands, norms: LayerNorms, options: LstmOptions) -> LstmCell:
    weight_values = _values(weights)
    return lstm_cell(
        op,
        weight_values[0:4],
        weight_values[4:8],
        weight_values[8:11],
        weight_values[11:15],
        weight_values[15:17],
        norms=_values(norms),
        activation=options.fused_activation_function,
        cell_clip=options.cell_clip,
        proj_clip=options.proj_clip,
    )


def _values(group: LstmOperands | LayerNorms) -> list[Array | None]:
    return [getattr(group, f.name) for f in fields(group)]


# LSTM with the basic kernel: one step whose states are plain tensors, which every LiteRT loads.


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
