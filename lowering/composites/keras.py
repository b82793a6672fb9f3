"""Functions that tf_keras marks, or with the same interface: keras.lstm."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Const
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites.sequence import last_step
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rule_tools.rule_context import site
from jfuse.lowering.rules import fuses, need

_SWAP = (1, 0, 2)  # time-major and batch-major


@fuses("keras.lstm", "keras_lstm", makes=("UNIDIRECTIONAL_SEQUENCE_LSTM",))
def fuse_keras_lstm(
    inputs: Array,
    init_h: Array,
    init_c: Array,
    kernel: Array,
    recurrent_kernel: Array,
    bias: Array,
    mask: Array | None = None,
    *,
    time_major: bool = False,
    go_backwards: bool = False,
) -> tuple[Any, ...]:
    """tf_keras's LSTM, or one with its interface -> UNIDIRECTIONAL_SEQUENCE_LSTM, which clips nothing, as in Keras.

    inputs: f32[b,t,i], f32[t,b,i] if time_major; init_h, init_c: f32[b,u]; kernel: f32[i,4u], recurrent_kernel:
    f32[u,4u], bias: f32[4u], gates in the order i, f, c, o. go_backwards: steps from the last to the first, in that
    order in the result too. Results: h of the last step, of every step (of the last one alone, as one step, without
    return_sequences), h and c after the last step, and a constant, which tf_keras alone has.
    Source: tf_keras/src/layers/rnn/lstm.py, standard_lstm
    """
    count = len(site().results)
    need(count in (4, 5), "keras_results", want="last output, outputs, h, c", got=f"{count} results")
    need(mask is None, "masked", want="no mask", got=None if mask is None else str(type_of(mask)))
    need(dtype(inputs) is DType.f32 and rank(inputs) == 3, "input_type", want="f32 of rank 3", got=str(type_of(inputs)))
    weights = {"kernel": kernel, "recurrent_kernel": recurrent_kernel, "bias": bias}
    for name, value in weights.items():
        need(is_constant(value), f"static_{name}", want="a constant", got=str(type_of(value)))
    steps = inputs if time_major else ops.transpose(inputs, _SWAP)
    sequence, _, last_c = ops.unidirectional_sequence_lstm(
        ops.reverse_v2(steps, [0]) if go_backwards else steps,
        *_gates(kernel),
        *_gates(recurrent_kernel),
        *(None, None, None),
        *np.split(bias, 4),
        *(None, None),
        *(init_h, init_c),
        fused_activation_function="TANH",
        time_major=True,  # as tf_keras's own body; `simplify` changes the layout where that is better
    )
    # h after the last step is the last step of the sequence: reading a state costs two more ops and an order to keep.
    last = last_step(sequence)
    results = last, _steps(sequence, time_major), last, last_c
    return results if count == 4 else (*results, _constant_result(4))


def _gates(weights: np.ndarray) -> list[np.ndarray]:
    """i, f, c and o, each transposed as TFLite wants it.   f32[n, 4u] -> 4 times f32[u, n]"""
    return [np.ascontiguousarray(w.T) for w in np.split(weights, 4, axis=1)]


def _steps(sequence: Array, time_major: bool) -> Array:
    """All steps in the layout of the result, or the last one alone where the body returns no more."""
    size_ = site().result_type(1).shape[0 if time_major else 1]
    if same(size_, sequence.shape[0]) is not True and same(size_, 1) is True:
        sequence = ops.strided_slice(sequence, [-1], [0], [1], end_mask=1)
    return sequence if time_major else ops.transpose(sequence, _SWAP)


def _constant_result(index: int) -> Const | None:
    """A result that the body states as a constant; None where it computes it."""
    atom = site().results[index]
    return atom if isinstance(atom, Const) else None
