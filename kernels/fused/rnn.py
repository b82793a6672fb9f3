"""RNN and UNIDIRECTIONAL_SEQUENCE_RNN: one step and a whole recurrence, with the state as operand and result."""

from __future__ import annotations

from jfuse.kernels.core.op import Array, tfl
from jfuse.kernels.fused.recurrence import Checks
from jfuse.kernels.fused.rnn_cell import RnnCell


@tfl("UNIDIRECTIONAL_SEQUENCE_RNN", updates={"hidden_state": 1}, repeats={"hidden_state": (0, -1)}, cell="simple RNN")
def unidirectional_sequence_rnn(
    input_: Array,
    weights: Array,
    recurrent_weights: Array,
    bias: Array,
    hidden_state: Array,
    /,
    *,
    time_major: bool = False,
    fused_activation_function: str = "TANH",
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, Array]:
    """h = act(x W' + h R' + b) over all steps: (y, h'), every h in a row and the last one.

    input: f[b,t,i], or f[t,b,i] if time_major; weights f[u,i]; recurrent_weights f[u,u]; bias f[u]; hidden_state
    f[b,u]; y: f[b,t,u] or f[t,b,u]. All of one dtype, f32 or f64.
    Numerics: a step is one product of [x, h], in highest precision; in f32 within 4e-6 of the formula in f64 over 500
    steps (LiteRT: 1e-6).
    Source: tflite/kernels/unidirectional_sequence_rnn.cc, tflite/kernels/internal/kernel_utils.cc
    """
    cell = RnnCell("unidirectional_sequence_rnn", weights, recurrent_weights, bias, fused_activation_function)
    Checks(cell.op).rank("the input", input_, 3)
    cell.check(input_, hidden_state, input_.shape[1 if time_major else 0])
    return cell.run(input_, hidden_state, time_major=time_major)


@tfl("RNN", updates={"hidden_state": 1}, repeats={"hidden_state": (0, -1)}, cell="simple RNN cell")
def rnn(
    input_: Array,
    weights: Array,
    recurrent_weights: Array,
    bias: Array,
    hidden_state: Array,
    /,
    *,
    fused_activation_function: str = "TANH",
    asymmetric_quantize_inputs: bool = False,
) -> tuple[Array, Array]:
    """One step h' = act(x W' + h R' + b): (h', h'), the output and the new state.

    input: f[b,i]; all else as in unidirectional_sequence_rnn.   Source: tflite/kernels/basic_rnn.cc
    """
    cell = RnnCell("rnn", weights, recurrent_weights, bias, fused_activation_function)
    Checks(cell.op).rank("the input", input_, 2)
    cell.check(input_, hidden_state, input_.shape[0])
    h = cell.run_step(input_, hidden_state)
    return h, h
