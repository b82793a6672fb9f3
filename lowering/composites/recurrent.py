"""Recurrences that `recover` found: jfuse.lstm, jfuse.rnn, jfuse.svdf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites.masked_cell import LstmWeights, masked_last_cell
from jfuse.lowering.composites.sequence import Masking, ScanAttributes, Steps, freezing
from jfuse.lowering.rule_tools.query import dtype, scalar
from jfuse.lowering.rules import fuses


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
