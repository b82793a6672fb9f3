"""Recurrences that `recover` found: jfuse.lstm, jfuse.rnn, jfuse.svdf."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites.sequence import Steps, freezing
from jfuse.lowering.rule_tools.query import dtype, scalar
from jfuse.lowering.rule_tools.rule_context import site
from jfuse.lowering.rules import fuses, need


# Recovery reads an activation that is spelled as a choice from its structure, case by case: hence the claims.
@fuses("jfuse.lstm", claims={"compare", "select"})
def fuse_lstm(
    x: Array,
    h: Array,
    c: Array,
    forget_weights: Array,
    cell_weights: Array,
    output_weights: Array,
    forget_recurrent: Array,
    cell_recurrent: Array,
    output_recurrent: Array,
    forget_bias: Array,
    cell_bias: Array,
    output_bias: Array,
    input_weights: Array | None = None,
    input_recurrent: Array | None = None,
    input_bias: Array | None = None,
    input_peephole: Array | None = None,
    forget_peephole: Array | None = None,
    output_peephole: Array | None = None,
    projection_weights: Array | None = None,
    projection_bias: Array | None = None,
    input_norm: Array | None = None,
    forget_norm: Array | None = None,
    cell_norm: Array | None = None,
    output_norm: Array | None = None,
    mask: Array | None = None,
    held: Array | None = None,
    fill: Array | None = None,
    *,
    results: tuple[str, ...],
    reverse: bool = False,
    counts: bool = True,
    activation: str = "TANH",
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    one_step: bool = False,
) -> tuple[Any, ...]:
    """A scan that is an LSTM -> UNIDIRECTIONAL_SEQUENCE_LSTM.

    x: f[t,b,i]; h: f[b,o]; c: f[b,u]; weights f[u,i], or f[u,i+1] where the last column is for an input of 1; recurrent
    f[u,o], or f[u] for a diagonal; bias, peephole and norm f[u]; projection f[o,u], f[o]; rounded to the dtype of x.
    Weights may have more units than c, which stay 0. Without the input gate's weights it is 1 minus the forget gate.
    mask, held, fill, results, reverse, counts: as `Steps` has them (composites/sequence.py). one_step: t is 1, and the
    op that has no axis of steps is meant.
    """
    wanted = tuple(name if read else None for name, read in zip(results, site().is_read, strict=True))
    needs_one = int(forget_weights.shape[1]) > x.shape[2]
    steps = Steps(_with_one(x) if needs_one else x, reverse, mask, counts, site().padding(mask, 0, counts))
    weights = [input_weights, forget_weights, cell_weights, output_weights]
    freezes = mask is not None and "c" in wanted
    if freezes:
        need(forget_norm is None, "masked_layer_norm", want="a mask without layer normalization", got="both")
        weights = [
            w if w is None else freezing(w, gate) for w, gate in zip(weights, (0.0, 1.0, None, None), strict=True)
        ]
    idle = forget_weights.shape[0] - c.shape[1]
    recurrent = [input_recurrent, forget_recurrent, cell_recurrent, output_recurrent]
    is_diagonal = forget_recurrent.ndim == 1
    operands = [
        *_as(x, *weights),
        *_as(x, *(np.diag(r) if one_step and is_diagonal and r is not None else r for r in recurrent)),
        *_as(x, input_peephole, forget_peephole, output_peephole),
        *_as(x, input_bias, forget_bias, cell_bias, output_bias),
        *_as(x, projection_weights, projection_bias),
        *(h, ops.pad(c, [[0, 0], [0, idle]]) if idle else c),
        *_as(x, input_norm, forget_norm, cell_norm, output_norm),
    ]
    options: dict[str, Any] = {
        "fused_activation_function": activation,
        "cell_clip": cell_clip,
        "proj_clip": proj_clip,
    }
    if one_step:
        y, _, last_c = ops.lstm(_only_step(steps.x), *operands, **options)
        y = ops.expand_dims(y, 0)
    else:
        options |= {"time_major": True, "diagonal_recurrent_tensors": is_diagonal}
        y, _, last_c = ops.unidirectional_sequence_lstm(
            steps.with_freeze() if freezes else steps.x, *operands, **options
        )
    last_c = ops.strided_slice(last_c, [0, 0], [0, c.shape[1]], [1, 1], begin_mask=3, end_mask=1) if idle else last_c
    return steps.results(wanted, y, h=h, c=last_c, held=held, fill=fill)


@fuses("jfuse.rnn", claims={"compare", "select"})
def fuse_rnn(
    x: Array,
    h: Array,
    weights: Array,
    recurrent: Array,
    bias: Array,
    mask: Array | None = None,
    held: Array | None = None,
    fill: Array | None = None,
    *,
    results: tuple[str, ...],
    reverse: bool = False,
    counts: bool = True,
    activation: str = "TANH",
    one_step: bool = False,
) -> tuple[Any, ...]:
    """A scan that is a simple RNN -> UNIDIRECTIONAL_SEQUENCE_RNN.

    x: f[t,b,i]; h: f[b,u]; weights f[u,i], recurrent f[u,u], bias f[u], rounded to the dtype of x.
    mask, held, fill, results, reverse, counts: as `Steps` has them (composites/sequence.py). one_step: t is 1, and the
    op that has no axis of steps is meant.
    """
    wanted = tuple(name if read else None for name, read in zip(results, site().is_read, strict=True))
    steps = Steps(x, reverse, mask, counts, site().padding(mask, 0, counts))
    operands = [*_as(x, weights, recurrent, bias), h]
    if one_step:
        y = ops.expand_dims(ops.rnn(_only_step(steps.x), *operands, fused_activation_function=activation)[0], 0)
    else:
        options: dict[str, Any] = {"fused_activation_function": activation, "time_major": True}
        y, _ = ops.unidirectional_sequence_rnn(steps.x, *operands, **options)
    return steps.results(wanted, y, h=h, held=held, fill=fill)


@fuses("jfuse.svdf", claims={"compare", "select"})
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
    given = state if in_order else ops.gather(state, order, axis=1)
    y, after = ops.svdf(_only_step(x), *weights, given, rank=rank, fused_activation_function=activation)
    back = np.argsort(order).astype(np.int32)
    values = {"y": ops.expand_dims(y, 0), "state": after if in_order else ops.gather(after, back, axis=1)}
    return tuple(values[name] for name in results)


def _only_step(x: Array) -> Array:
    return ops.squeeze(x, squeeze_dims=(0,))


def _with_one(x: Array) -> Array:
    """The sequence with one more column, of ones; not 0 * x + 1, which would keep a NaN."""
    column = ops.strided_slice(x, [0, 0, 0], [0, 0, 1], [1, 1, 1], begin_mask=7, end_mask=3)
    return ops.concatenation(x, ops.add(ops.zeros_like(column), scalar(1, x)), axis=2)


def _as(x: Array, *arrays: np.ndarray | None) -> list[np.ndarray | None]:
    return [None if array is None else array.astype(dtype(x).numpy, copy=False) for array in arrays]
