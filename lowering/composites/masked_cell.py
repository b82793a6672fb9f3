"""The weights of an LSTM, and the last cell state of one with layer norms whose steps are masked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.fused.lstm_cell import GATES
from jfuse.lowering.composites.sequence import FROZEN, Steps
from jfuse.lowering.rule_tools.query import dtype, scalar
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor
from jfuse.lowering.rules import need

_HELD = {"input": -FROZEN, "forget": FROZEN, "cell": 0.0}
"""Gate inputs of a masked step: with them the state stays the same."""
_EPSILON = 1e-8  # of LiteRT's layer norm; tflite/kernels/internal/tensor_utils_common.h, kNormalizationConstant


@dataclass(frozen=True)
class LstmWeights:
    """The constants of `jfuse.lstm`: of each gate and of the projection, None for those that a cell does not have.

    weights f[u,i], or f[u,i+1] where the last column is for an input of 1; recurrent f[u,o], or f[u] for a diagonal;
    bias, peephole and norm f[u]; projection f[o,u], f[o].
    """

    forget_weights: Array
    cell_weights: Array
    output_weights: Array
    forget_recurrent: Array
    cell_recurrent: Array
    output_recurrent: Array
    forget_bias: Array
    cell_bias: Array
    output_bias: Array
    input_weights: Array | None = None
    input_recurrent: Array | None = None
    input_bias: Array | None = None
    input_peephole: Array | None = None
    forget_peephole: Array | None = None
    output_peephole: Array | None = None
    projection_weights: Array | None = None
    projection_bias: Array | None = None
    input_norm: Array | None = None
    forget_norm: Array | None = None
    cell_norm: Array | None = None
    output_norm: Array | None = None

    def of_gates(self, kind: str, gates: Sequence[str] = GATES) -> list[Array | None]:
        """The constants of a kind ("weights", "bias", …) of each gate."""
        return [getattr(self, f"{gate}_{kind}") for gate in gates]

    @property
    def is_diagonal(self) -> bool:
        """Whether the recurrent weights are vectors."""
        return bool(self.forget_recurrent.ndim == 1)


def masked_last_cell(
    steps: Steps, weights: LstmWeights, y: Array, h: Array, c: Array, options: Mapping[str, Any]
) -> Array:
    """The cell state after the last step that counts, of an LSTM whose gates have layer norms.

    What enters the gates follows from the input and from y, the outputs of all steps, for all steps at once. A second
    UNIDIRECTIONAL_SEQUENCE_LSTM goes through them, with a row of its batch for each unit of each row, and its gates
    hold the state in the steps that do not count.
    y: f[t,b,o], the op's output; h: f[b,o]; c: f[b,u]; options: those of the first op.
    """
    holds = [gate for gate in ("input", "forget", "output") if getattr(weights, f"{gate}_peephole") is not None]
    need(not holds, "masked_layer_norm", want="gates that read no cell state", got=f"peepholes of {', '.join(holds)}")
    names = [gate for gate in ("input", "forget", "cell") if getattr(weights, f"{gate}_weights") is not None]
    z = ops.concatenation(steps.x, ops.concatenation(ops.expand_dims(h, 0), _all_but_last(y), axis=0), axis=2)
    rows = shape_tensor((y.shape[0], c.shape[0] * c.shape[1], 1), [y])
    gates = [ops.reshape(steps.with_value(_normed(z, weights, gate), _HELD[gate]), rows) for gate in names]
    kind = dtype(y).numpy
    columns = {gate: np.array([[gate == name for name in names]], kind) for gate in names}
    columns["output"] = np.zeros_like(columns["cell"])
    state = ops.reshape(c, [-1, 1])
    operands = [
        *(columns.get(gate) for gate in GATES),
        *(np.zeros((1, 1), kind) if gate in columns else None for gate in GATES),
        *[None] * 3,
        *(np.zeros(1, kind) if gate in columns else None for gate in GATES),
        *(None, None, state, state),  # the output is read by nothing
        *[None] * 4,
    ]
    cell_options = {name: options[name] for name in ("fused_activation_function", "cell_clip")}
    *_, last = ops.unidirectional_sequence_lstm(
        ops.concatenation(*gates, axis=2), *operands, time_major=True, **cell_options
    )
    return ops.reshape(last, shape_tensor(c.shape, [c, y]))


def _all_but_last(y: Array) -> Array:
    zeros, ones = [0, 0, 0], [1, 1, 1]
    return ops.strided_slice(y, zeros, [-1, 0, 0], ones, begin_mask=0b111, end_mask=0b110)


def _normed(z: Array, weights: LstmWeights, gate: str) -> Array:
    """Compute a gate's sum before its nonlinearity, at all steps.   z: f[t,b,i+o], input and last output -> f[t,b,u]"""
    recurrent = getattr(weights, f"{gate}_recurrent")
    recurrent = np.diag(recurrent) if weights.is_diagonal else recurrent
    kernel = np.concatenate([getattr(weights, f"{gate}_weights"), recurrent], axis=1)
    norm, bias = (getattr(weights, f"{gate}_{kind}") for kind in ("norm", "bias"))
    kernel, norm, bias = (a.astype(dtype(z).numpy) for a in (kernel, norm, bias))
    total = ops.fully_connected(z, kernel, None, keep_num_dims=True)
    axis = np.array([-1], np.int32)
    centred = ops.sub(total, ops.mean(total, axis, keep_dims=True))
    variance = ops.mean(ops.square(centred), axis, keep_dims=True)
    scaled = ops.mul(centred, ops.rsqrt(ops.add(variance, scalar(_EPSILON, variance))))
    return ops.add(ops.mul(scaled, norm), bias)
