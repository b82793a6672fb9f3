"""TensorFlow's ops for one step of a recurrent layer, by their formulas."""

from __future__ import annotations

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import lower_matmul
from jfuse.lowering.rule_tools.query import scalar
from jfuse.lowering.rules import lowers


@lowers("LSTMBlockCell")
def lower_lstm_block_cell(
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float = 1.0,
    cell_clip: float = 3.0,
    use_peephole: bool = False,
) -> tuple[Array, ...]:
    """One step of an LSTM with gates in the order input, cell, forget, output: (i, cs, f, o, ci, co, h).

    x: f[b,n]; cs_prev, h_prev: f[b,u]; w: f[n+u,4u]; wci, wcf, wco: f[u]; b: f[4u]. No clip where cell_clip is not
    positive.   Source: tensorflow/core/ops/rnn_ops.cc
    """
    gates = ops.add(lower_matmul(ops.concatenation(x, h_prev, axis=1), w), b)
    i, ci, f, o = ops.split(np.asarray(1, np.int32), gates, num_splits=4)
    f = ops.add(f, scalar(forget_bias, f))
    if use_peephole:
        i, f = ops.add(i, ops.mul(cs_prev, wci)), ops.add(f, ops.mul(cs_prev, wcf))
    i, f, ci = ops.logistic(i), ops.logistic(f), ops.tanh(ci)
    cs = ops.add(ops.mul(ci, i), ops.mul(cs_prev, f))
    if cell_clip > 0:
        cs = ops.maximum(ops.minimum(cs, scalar(cell_clip, cs)), scalar(-cell_clip, cs))
    o = ops.logistic(ops.add(o, ops.mul(cs, wco)) if use_peephole else o)
    co = ops.tanh(cs)
    return i, cs, f, o, ci, co, ops.mul(co, o)
