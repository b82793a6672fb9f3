"""BIDIRECTIONAL_SEQUENCE_LSTM and BIDIRECTIONAL_SEQUENCE_RNN: two recurrences over one sequence, one of them backwards.

Both directions write their result of step t at t: of the backward one the last step computed stands first.
"""

from __future__ import annotations

import jax.numpy as jnp

from jfuse.ir.dims import same
from jfuse.kernels.core.op import Array, tfl
from jfuse.kernels.fused.lstm_cell import LstmCell, lstm_cell
from jfuse.kernels.fused.recurrence import Checks
from jfuse.kernels.fused.rnn_cell import RnnCell

_RNN_STATES = {"forward_hidden_state": (0, -1), "backward_hidden_state": (1, 0)}
_LSTM_STATES = {"forward_output_state": (0, -1), "backward_output_state": (1, 0)}


@tfl(
    "BIDIRECTIONAL_SEQUENCE_LSTM",
    updates={
        "forward_output_state": -4,
        "forward_cell_state": -3,
        "backward_output_state": -2,
        "backward_cell_state": -1,
    },
    repeats=_LSTM_STATES,
)
def bidirectional_sequence_lstm(
    input_: Array,
    forward_input_to_input_weights: Array | None,
    forward_input_to_forget_weights: Array,
    forward_input_to_cell_weights: Array,
    forward_input_to_output_weights: Array,
    forward_recurrent_to_input_weights: Array | None,
    forward_recurrent_to_forget_weights: Array,
    forward_recurrent_to_cell_weights: Array,
    forward_recurrent_to_output_weights: Array,
    forward_cell_to_input_weights: Array | None,
    forward_cell_to_forget_weights: Array | None,
    forward_cell_to_output_weights: Array | None,
    forward_input_gate_bias: Array | None,
    forward_forget_gate_bias: Array,
    forward_cell_gate_bias: Array,
    forward_output_gate_bias: Array,
    forward_projection_weights: Array | None,
    forward_projection_bias: Array | None,
    backward_input_to_input_weights: Array | None,
    backward_input_to_forget_weights: Array,
    backward_input_to_cell_weights: Array,
    backward_input_to_output_weights: Array,
    backward_recurrent_to_input_weights: Array | None,
    backward_recurrent_to_forget_weights: Array,
    backward_recurrent_to_cell_weights: Array,
    backward_recurrent_to_output_weights: Array,
    backward_cell_to_input_weights: Array | None,
    backward_cell_to_forget_weights: Array | None,
    backward_cell_to_output_weights: Array | None,
    backward_input_gate_bias: Array | None,
    backward_forget_gate_bias: Array,
    backward_cell_gate_bias: Array,
    backward_output_gate_bias: Array,
    backward_projection_weights: Array | None,
    backward_projection_bias: Array | None,
    forward_output_state: Array,
    forward_cell_state: Array,
    backward_output_state: Array,
    backward_cell_state: Array,
    aux_input: Array | None = None,
    forward_aux_to_input_weights: Array | None = None,
    forward_aux_to_forget_weights: Array | None = None,
    forward_aux_to_cell_weights: Array | None = None,
    forward_aux_to_output_weights: Array | None = None,
    backward_aux_to_input_weights: Array | None = None,
    backward_aux_to_forget_weights: Array | None = None,
    backward_aux_to_cell_weights: Array | None = None,
    backward_aux_to_output_weights: Array | None = None,
    /,
    *,
    fused_activation_function: str = "TANH",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    merge_outputs: bool = False,
    time_major: bool = True,
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, ...]:
    """Two LSTMs: (y forward, y backward, h' and c' forward, h' and c' backward), or one y, concatenated, if merged.

    input: f[b,t,i], or f[t,b,i] if time_major; the weights and states of each direction as in
    unidirectional_sequence_lstm, recurrent ones as matrices, without layer norm; c and o the same in both directions.
    With aux_input f[b,t,a] (or f[t,b,a]) and its weights f[c,a] both directions add aux A_g' to each gate; without
    weights aux_input f[b,t,i] is what the backward direction reads in place of the input.
    Numerics: as in unidirectional_sequence_lstm; in f32 within 1e-6 of the formula in f64 over 500 steps.
    Source: tflite/kernels/bidirectional_sequence_lstm.cc, tflite/kernels/lstm_eval.cc
    """
    activation = fused_activation_function
    forward = lstm_cell(
        "bidirectional_sequence_lstm, forward",
        (
            forward_input_to_input_weights,
            forward_input_to_forget_weights,
            forward_input_to_cell_weights,
            forward_input_to_output_weights,
        ),
        (
            forward_recurrent_to_input_weights,
            forward_recurrent_to_forget_weights,
            forward_recurrent_to_cell_weights,
            forward_recurrent_to_output_weights,
        ),
        (forward_cell_to_input_weights, forward_cell_to_forget_weights, forward_cell_to_output_weights),
        (forward_input_gate_bias, forward_forget_gate_bias, forward_cell_gate_bias, forward_output_gate_bias),
        (forward_projection_weights, forward_projection_bias),
        aux=(
            forward_aux_to_input_weights,
            forward_aux_to_forget_weights,
            forward_aux_to_cell_weights,
            forward_aux_to_output_weights,
        ),
        activation=activation,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
    )
    backward = lstm_cell(
        "bidirectional_sequence_lstm, backward",
        (
            backward_input_to_input_weights,
            backward_input_to_forget_weights,
            backward_input_to_cell_weights,
            backward_input_to_output_weights,
        ),
        (
            backward_recurrent_to_input_weights,
            backward_recurrent_to_forget_weights,
            backward_recurrent_to_cell_weights,
            backward_recurrent_to_output_weights,
        ),
        (backward_cell_to_input_weights, backward_cell_to_forget_weights, backward_cell_to_output_weights),
        (backward_input_gate_bias, backward_forget_gate_bias, backward_cell_gate_bias, backward_output_gate_bias),
        (backward_projection_weights, backward_projection_bias),
        aux=(
            backward_aux_to_input_weights,
            backward_aux_to_forget_weights,
            backward_aux_to_cell_weights,
            backward_aux_to_output_weights,
        ),
        activation=activation,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
    )
    checks = Checks("bidirectional_sequence_lstm")
    checks.rank("the input", input_, 3)
    batch = input_.shape[1 if time_major else 0]
    # The kernel then takes the step between the rows of a state from the merged result: memory is overwritten.
    checks.refuse_unless(
        not merge_outputs or time_major or same(batch, 1), "merge_outputs needs time_major, or one sequence"
    )
    weighed = _check_aux(checks, input_, aux_input, forward, backward)
    reads = input_ if aux_input is None or weighed else aux_input
    forward.check()
    backward.check()
    sizes = [(cell.units, cell.width) for cell in (forward, backward)]
    checks.refuse_unless(sizes[0] == sizes[1], f"directions of {sizes[0]} and {sizes[1]} units and outputs")
    forward.check_operands(input_, forward_output_state, forward_cell_state, batch)
    backward.check_operands(reads, backward_output_state, backward_cell_state, batch)
    added = aux_input if weighed else None
    y, *states = forward.run(input_, forward_output_state, forward_cell_state, time_major=time_major, aux=added)
    z, *others = backward.run(
        reads, backward_output_state, backward_cell_state, time_major=time_major, aux=added, backwards=True
    )
    return *_outputs(y, z, merge_outputs), *states, *others


@tfl(
    "BIDIRECTIONAL_SEQUENCE_RNN",
    updates={"forward_hidden_state": -2, "backward_hidden_state": -1},
    repeats=_RNN_STATES,
)
def bidirectional_sequence_rnn(
    input_: Array,
    forward_weights: Array,
    forward_recurrent_weights: Array,
    forward_bias: Array,
    forward_hidden_state: Array,
    backward_weights: Array,
    backward_recurrent_weights: Array,
    backward_bias: Array,
    backward_hidden_state: Array,
    aux_input: Array | None = None,
    forward_aux_weights: Array | None = None,
    backward_aux_weights: Array | None = None,
    /,
    *,
    time_major: bool = False,
    fused_activation_function: str = "TANH",
    merge_outputs: bool = False,
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, ...]:
    """Two simple RNNs: (y forward, y backward, h' forward, h' backward), or one y, concatenated, if merged.

    input: f[b,t,i], or f[t,b,i] if time_major; the weights and states of each direction as in
    unidirectional_sequence_rnn. With aux_input f[t,b,i] and its weights f[u,i] both directions add aux A'; without
    weights aux_input is what the backward direction reads in place of the input.
    Numerics: as in unidirectional_sequence_rnn.
    Source: tflite/kernels/bidirectional_sequence_rnn.cc, tflite/kernels/internal/kernel_utils.cc
    """
    checks = Checks("bidirectional_sequence_rnn")
    checks.rank("the input", input_, 3)
    # Batch-major the kernel reads aux_input at the wrong places, or not at all.
    checks.refuse_unless(aux_input is None or time_major, "aux_input needs time_major")
    # It steps through aux_input by the size of the input: memory beyond it is read where that is larger.
    as_wide = aux_input is None or same(aux_input.shape[-1], input_.shape[-1]) is not False
    checks.refuse_unless(as_wide, "aux_input needs as many columns as the input")
    activation = fused_activation_function
    forward = RnnCell(
        "bidirectional_sequence_rnn, forward",
        forward_weights,
        forward_recurrent_weights,
        forward_bias,
        activation,
        forward_aux_weights,
    )
    backward = RnnCell(
        "bidirectional_sequence_rnn, backward",
        backward_weights,
        backward_recurrent_weights,
        backward_bias,
        activation,
        backward_aux_weights,
    )
    batch = input_.shape[1 if time_major else 0]
    weighed = _check_aux(checks, input_, aux_input, forward, backward)
    reads = input_ if aux_input is None or weighed else aux_input
    forward.check(input_, forward_hidden_state, batch)
    backward.check(reads, backward_hidden_state, batch)
    added = aux_input if weighed else None
    y, state = forward.run(input_, forward_hidden_state, time_major=time_major, aux=added)
    z, other = backward.run(reads, backward_hidden_state, time_major=time_major, aux=added, backwards=True)
    return *_outputs(y, z, merge_outputs), state, other


def _check_aux(
    checks: Checks, x: Array, aux: Array | None, forward: LstmCell | RnnCell, backward: LstmCell | RnnCell
) -> bool:
    """Whether aux_input is weighed; raises TypeMismatch where it and its weights do not fit the input."""
    weights = [*forward.aux_weights, *backward.aux_weights]
    weighed = any(w is not None for w in weights)
    checks.refuse_unless(aux is not None or not weighed, "weights of aux_input without aux_input")
    if aux is None:
        return False
    checks.rank("aux_input", aux, 3)
    steps, batch, inputs = x.shape
    checks.expect("aux_input", aux, (steps, batch, aux.shape[2] if weighed else inputs))
    checks.one_float_dtype([x, aux])
    if weighed:
        checks.refuse_unless(all(w is not None for w in weights), "aux_input has weights for every gate, or for none")
        for weight in weights:
            checks.rank("weights of aux_input", weight, 2)
            checks.expect("weights of aux_input", weight, (weight.shape[0], aux.shape[2]))
    return weighed


def _outputs(y: Array, z: Array, merge: bool) -> tuple[Array, ...]:
    return (jnp.concatenate([y, z], -1),) if merge else (y, z)
