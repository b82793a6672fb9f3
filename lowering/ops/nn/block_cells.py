"""TensorFlow's ops for one step of a recurrent layer, and for all of them, by their formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import lower_matmul
from jfuse.lowering.rule_tools.operands import as_i32, known_sizes
from jfuse.lowering.rule_tools.query import scalar
from jfuse.lowering.rule_tools.shape_tensors import counted
from jfuse.lowering.rule_tools.steps import scanned
from jfuse.lowering.rules import lowers


@dataclass(frozen=True)
class BlockCell:
    """The options of an LSTM's step. order: of the gates, ci is the new input, in the columns of the weights."""

    order: tuple[str, str, str, str]
    forget_bias: float
    cell_clip: float
    use_peephole: bool

    def step(self, x: Array, cs_prev: Array, h_prev: Array, weights: Sequence[Array]) -> tuple[Array, ...]:
        """(i, cs, f, o, ci, co, h) of one step.   weights: w, wci, wcf, wco, b"""
        w, wci, wcf, wco, b = weights
        gates = ops.add(lower_matmul(ops.concatenation(x, h_prev, axis=1), w), b)
        parts = ops.split(np.asarray(1, np.int32), gates, num_splits=4)
        i, f, ci, o = (parts[self.order.index(gate)] for gate in ("i", "f", "ci", "o"))
        f = ops.add(f, scalar(self.forget_bias, f)) if self.forget_bias else f
        if self.use_peephole:
            i, f = ops.add(i, ops.mul(cs_prev, wci)), ops.add(f, ops.mul(cs_prev, wcf))
        i, f, ci = ops.logistic(i), ops.logistic(f), ops.tanh(ci)
        cs = ops.add(ops.mul(ci, i), ops.mul(cs_prev, f))
        if self.cell_clip > 0:
            cs = ops.maximum(ops.minimum(cs, scalar(self.cell_clip, cs)), scalar(-self.cell_clip, cs))
        o = ops.logistic(ops.add(o, ops.mul(cs, wco)) if self.use_peephole else o)
        co = ops.tanh(cs)
        return i, cs, f, o, ci, co, ops.mul(co, o)


@lowers("LSTMBlockCell")
def lower_lstm_block_cell(
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    *weights: Array,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
) -> tuple[Array, ...]:
    """One step of an LSTM with gates in the order input, cell, forget, output: (i, cs, f, o, ci, co, h).

    x: f[b,n]; cs_prev, h_prev: f[b,u]; weights: w f[n+u,4u], wci, wcf, wco f[u], b f[4u]. No clip where cell_clip is
    not positive.   Source: tensorflow/core/ops/rnn_ops.cc
    """
    cell = BlockCell(("i", "ci", "f", "o"), forget_bias, cell_clip, use_peephole)
    return cell.step(x, cs_prev, h_prev, weights)


@lowers("BlockLSTM")
def lower_block_lstm(
    seq_len_max: Array,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    *weights: Array,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
) -> tuple[Array, ...]:
    """A scan of LSTMBlockCell over x: f[t,b,n]; what each step gives is stacked to f[t,b,u].

    seq_len_max: i64[], from which step on all results are zeros.   Source: tensorflow/core/kernels/rnn/lstm_ops.cc
    """
    cell = BlockCell(("i", "ci", "f", "o"), forget_bias, cell_clip, use_peephole)
    return _all_steps(cell, seq_len_max, x, cs_prev, h_prev, weights)


@lowers("BlockLSTMV2")
def lower_block_lstm_v2(
    seq_len_max: Array,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    *weights: Array,
    cell_clip: float = 0.0,
    use_peephole: bool = False,
) -> tuple[Array, ...]:
    """As BlockLSTM, with gates in the order input, forget, cell, output, and no bias of the forget gate."""
    cell = BlockCell(("i", "f", "ci", "o"), 0.0, cell_clip, use_peephole)
    return _all_steps(cell, seq_len_max, x, cs_prev, h_prev, weights)


@lowers("GRUBlockCell")
def lower_gru_block_cell(
    x: Array, h_prev: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array
) -> tuple[Array, ...]:
    """One step of a GRU whose reset gate stands before the product: (r, u, c, h).

    x: f[b,n]; h_prev: f[b,u]; w_ru: f[n+u,2u]; w_c: f[n+u,u]; b_ru: f[2u]; b_c: f[u].   Source:
    tensorflow/core/ops/rnn_ops.cc
    """
    gates = ops.logistic(ops.add(lower_matmul(ops.concatenation(x, h_prev, axis=1), w_ru), b_ru))
    r, u = ops.split(np.asarray(1, np.int32), gates, num_splits=2)
    joined = ops.concatenation(x, ops.mul(h_prev, r), axis=1)
    c = ops.tanh(ops.add(lower_matmul(joined, w_c), b_c))
    return r, u, c, ops.add(ops.mul(ops.sub(scalar(1, u), u), c), ops.mul(u, h_prev))


def _all_steps(
    cell: BlockCell, seq_len_max: Array, x: Array, cs_prev: Array, h_prev: Array, weights: Sequence[Array]
) -> tuple[Array, ...]:
    def step(held: Sequence[Array], before: Sequence[Array], rows: Sequence[Array]) -> tuple[Array, ...]:
        cs, h = before
        results = cell.step(rows[0], cs, h, held)
        return (results[1], results[6], *results)

    _, _, *stacked = scanned(step, weights, (cs_prev, h_prev), (x,))
    size = known_sizes(seq_len_max)
    if size is not None and (same(size, x.shape[0]) or (is_known(x.shape[0]) and is_known(size) and size > x.shape[0])):
        return tuple(stacked)
    counts = ops.less(counted(x.shape[0], x), as_i32(seq_len_max))
    counts = ops.expand_dims(ops.expand_dims(counts, np.int32(1)), np.int32(1))
    return tuple(ops.select_v2(counts, y, scalar(0, y)) for y in stacked)
