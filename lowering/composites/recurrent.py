"""Recurrences that `recover` found: jfuse.lstm, jfuse.rnn, jfuse.svdf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.fused.lstm_cell import GATES
from jfuse.lowering.composites.sequence import FROZEN, Masking, ScanAttributes, Steps, freezing
from jfuse.lowering.rule_tools.query import dtype, scalar
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor
from jfuse.lowering.rules import fuses, need

# The weights of an LSTM, and the last cell state of one with layer norms whose steps are masked.

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


@dataclass(frozen=True)
class CellOptions:
    """The activation of an LSTM's cell, and the limits to which its cell state and its projection are clipped."""

    activation: str = "TANH"
    cell_clip: float = 0.0
    proj_clip: float = 0.0


# Recovery reads an activation that is spelled as a choice from its structure, case by case: hence the claims.
@fuses("jfuse.lstm", claims={"compare", "select"}, makes=("LSTM", "UNIDIRECTIONAL_SEQUENCE_LSTM"))
def fuse_lstm(
    x: Array,
    h: Array,
    c: Array,
    weights: LstmWeights,
    masking: Masking,
    *,
    scan: ScanAttributes,
    options: CellOptions,
    one_step: bool = False,
) -> tuple[Any, ...]:
    """A scan that is an LSTM -> UNIDIRECTIONAL_SEQUENCE_LSTM.

    x: f[t,b,i]; h: f[b,o]; c: f[b,u]; weights are rounded to the dtype of x. They may have more units than c, which
    stay 0. Without the input gate's weights it is 1 minus the forget gate. one_step: t is 1, and the op that has no
    axis of steps is meant. The last c of masked steps with layer norms is that of a second op.
    """
    names = scan.wanted()
    needs_one = int(weights.forget_weights.shape[1]) > x.shape[2]
    steps = Steps.of(_with_one(x) if needs_one else x, masking, scan)
    entering = weights.of_gates("weights")
    reads_c = masking.mask is not None and "c" in names
    freezes = reads_c and weights.forget_norm is None  # a norm would take the large numbers away
    if freezes:
        towards = (0.0, 1.0, None, None)
        entering = [w if w is None else freezing(w, gate) for w, gate in zip(entering, towards, strict=True)]
    idle = weights.forget_weights.shape[0] - c.shape[1]
    operands = [
        *_as(x, *entering),
        *_as(x, *_recurrent(weights, one_step)),
        *_as(x, *weights.of_gates("peephole", ("input", "forget", "output"))),
        *_as(x, *weights.of_gates("bias")),
        *_as(x, weights.projection_weights, weights.projection_bias),
        *(h, ops.pad(c, [[0, 0], [0, idle]]) if idle else c),
        *_as(x, *weights.of_gates("norm")),
    ]
    spelled: dict[str, Any] = {
        "fused_activation_function": options.activation,
        "cell_clip": options.cell_clip,
        "proj_clip": options.proj_clip,
    }
    if one_step:
        y, _, last_c = ops.lstm(_only_step(steps.x), *operands, **spelled)
        y = ops.expand_dims(y, 0)
    else:
        spelled |= {"time_major": True, "diagonal_recurrent_tensors": weights.is_diagonal}
        y, _, last_c = ops.unidirectional_sequence_lstm(
            steps.with_freeze() if freezes else steps.x, *operands, **spelled
        )
    if reads_c and not freezes:
        last_c = masked_last_cell(steps, weights, y, h, c, spelled)
    last_c = ops.strided_slice(last_c, [0, 0], [0, c.shape[1]], [1, 1], begin_mask=3, end_mask=1) if idle else last_c
    return steps.results(names, y, h=h, c=last_c, held=masking.held, fill=masking.fill)


def _recurrent(weights: LstmWeights, one_step: bool) -> list[Array | None]:
    """The recurrent weights of each gate; the op of one step has matrices only."""
    matrices = weights.of_gates("recurrent")
    return [np.diag(r) if one_step and weights.is_diagonal and r is not None else r for r in matrices]


@fuses("jfuse.rnn", claims={"compare", "select"}, makes=("RNN", "UNIDIRECTIONAL_SEQUENCE_RNN"))
def fuse_rnn(
    x: Array,
    h: Array,
    weights: Array,
    recurrent: Array,
    bias: Array,
    masking: Masking,
    *,
    scan: ScanAttributes,
    activation: str = "TANH",
    one_step: bool = False,
) -> tuple[Any, ...]:
    """A scan that is a simple RNN -> UNIDIRECTIONAL_SEQUENCE_RNN.

    x: f[t,b,i]; h: f[b,u]; weights f[u,i], recurrent f[u,u], bias f[u], rounded to the dtype of x. one_step: t is 1,
    and the op that has no axis of steps is meant.
    """
    steps = Steps.of(x, masking, scan)
    operands = [*_as(x, weights, recurrent, bias), h]
    if one_step:
        y = ops.expand_dims(ops.rnn(_only_step(steps.x), *operands, fused_activation_function=activation)[0], 0)
    else:
        options: dict[str, Any] = {"fused_activation_function": activation, "time_major": True}
        y, _ = ops.unidirectional_sequence_rnn(steps.x, *operands, **options)
    return steps.results(scan.wanted(), y, h=h, held=masking.held, fill=masking.fill)


@fuses("jfuse.svdf", claims={"compare", "select"}, makes=("SVDF",))
def fuse_svdf(
    x: Array,
    state: Array,
    feature_weights: Array,
    time_weights: Array,
    order: np.ndarray,
    bias: Array | None = None,
    *,
    results: tuple[str, ...],
    rank: int,
    activation: str = "NONE",
    one_step: bool = True,
) -> tuple[Any, ...]:
    """A single step of SVDF -> SVDF.

    x: f[1,b,i]; state: f[b,f*m]; feature_weights f[f,i], time_weights f[f,m], bias f[u], rounded to the dtype of x.
    order: i32[f*m], for each place of TFLite's state, filter by filter and oldest first, that of the source.
    results: what each result is: "y" f[1,b,u] or "state".
    """
    in_order = bool((order == np.arange(order.size)).all())
    weights = _as(x, feature_weights, time_weights, bias)
    ordered_state = state if in_order else ops.gather(state, order, axis=1)
    y, after = ops.svdf(_only_step(x), *weights, ordered_state, rank=rank, fused_activation_function=activation)
    back = np.argsort(order).astype(np.int32)
    values = {"y": ops.expand_dims(y, 0), "state": after if in_order else ops.gather(after, back, axis=1)}
    return tuple(values[name] for name in results)


def _only_step(x: Array) -> Array:
    return ops.squeeze(x, squeeze_dims=(0,))


def _with_one(x: Array) -> Array:
    """The sequence with one more column, of ones; not 0 * x + 1, which would keep a NaN."""
    column = ops.strided_slice(x, [0, 0, 0], [0, 0, 1], [1, 1, 1], begin_mask=7, end_mask=3)
    return ops.concatenation(x, ops.add(ops.zeros_like(column), scalar(1, x)), axis=2)


def _as(x: Array, *arrays: Array | None) -> list[Array | None]:
    """Weights in the dtype of x; those that have it keep their names."""
    dtype_ = dtype(x).numpy
    return [a if a is None or a.dtype == dtype_ else a.astype(dtype_) for a in arrays]
