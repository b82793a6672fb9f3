"""Bodies and the fused operators that they are, built by hand: what the prover must prove."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from tests import cells
from tests.cells import (
    BATCH,
    INPUTS,
    PEEPHOLES,
    PROJECTION,
    PROJECTION_BIAS,
    SCALES,
    SHIFTS,
    STEPS,
    UNITS,
    B,
    Loop,
    R,
    W,
    f32,
    gate,
)


@dataclass(frozen=True)
class Pair:
    """A body and a replacement over the same operands."""

    body: Graph
    replacement: Graph


def rows(array: np.ndarray) -> np.ndarray:
    """A kernel as operators have it: one row for each unit."""
    return np.ascontiguousarray(array.T)


def lstm(
    *,
    coupled: bool = False,
    diagonal: bool = False,
    peepholes: Sequence[np.ndarray | None] = (None, None, None),
    projection: np.ndarray | None = None,
    projection_bias: np.ndarray | None = None,
    norms: np.ndarray | None = None,
    biases: np.ndarray | None = None,
    batch: Dim = BATCH,
    steps: Dim = STEPS,
    **options: Any,
) -> Graph:
    """UNIDIRECTIONAL_SEQUENCE_LSTM with the weights of tests.cells; results are h, c and every h."""
    width = UNITS if projection is None else projection.shape[1]
    weights: list[np.ndarray | None] = [rows(gate(W, k)) for k in range(4)]
    recurrent: list[np.ndarray | None] = [rows(gate(R[:width], k)) for k in range(4)]
    recurrent = [PEEPHOLES["input"]] * 4 if diagonal else recurrent
    bias: list[np.ndarray | None] = [gate(B, k) if biases is None else biases[k] for k in range(4)]
    if coupled:
        weights[0] = recurrent[0] = bias[0] = None
    ends = (None if projection is None else rows(projection), projection_bias)
    scales = [None] * 4 if norms is None else list(norms)
    spelled = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0, **options}

    def run(h: Any, c: Any, x: Any) -> Any:
        operands = (x, *weights, *recurrent, *peepholes, *bias, *ends, h, c, *scales)
        y, last_h, last_c = ops.unidirectional_sequence_lstm(
            *operands, time_major=True, diagonal_recurrent_tensors=diagonal, **spelled
        )
        return last_h, last_c, y

    return trace_graph(run, [f32(batch, width), f32(batch, UNITS), f32(steps, batch, INPUTS)])


def rnn(activation: str = "TANH", batch: Dim = BATCH, steps: Dim = STEPS) -> Graph:
    """UNIDIRECTIONAL_SEQUENCE_RNN with the weights of tests.cells; results are h and every h."""

    def run(h: Any, x: Any) -> Any:
        operands = (x, rows(gate(W, 0)), rows(gate(R, 0)), gate(B, 0), h)
        y, last = ops.unidirectional_sequence_rnn(*operands, time_major=True, fused_activation_function=activation)
        return last, y

    return trace_graph(run, [f32(batch, UNITS), f32(steps, batch, INPUTS)])


def bidirectional() -> Pair:
    """Two simple RNNs over one sequence, one of them backwards."""
    types = [f32(BATCH, UNITS), f32(BATCH, UNITS), f32(STEPS, BATCH, INPUTS)]
    forward, backward = (Loop(cells.simple(), [f32(BATCH, UNITS)], reverse=r).eqn() for r in (False, True))

    def body(h: Any, g: Any, x: Any) -> Any:
        first, second = (e.op.run([s, x], e.params, e.bodies) for e, s in ((forward, h), (backward, g)))
        return first[1], second[1]

    def replacement(h: Any, g: Any, x: Any) -> Any:
        one = (rows(gate(W, 0)), rows(gate(R, 0)), gate(B, 0))
        y, z, *_ = ops.bidirectional_sequence_rnn(x, *one, h, *one, g, time_major=True)
        return y, z

    return Pair(trace_graph(body, types), trace_graph(replacement, types))


def svdf() -> Pair:
    """One step of SVDF, spelled as products over a memory that moves."""
    filters, memory = 4, 3
    feature, times, bias = cells.weights(filters, INPUTS), cells.weights(filters, memory), cells.weights(2)
    types = [f32(BATCH, filters * memory), f32(BATCH, INPUTS)]

    def body(state: Any, x: Any) -> Any:
        kept = ops.slice_(ops.reshape(state, [-1, filters, memory]), [0, 0, 1], [-1, filters, memory - 1])
        newest = ops.expand_dims(ops.fully_connected(x, feature, None), 2)
        steps = ops.concatenation(kept, newest, axis=2)
        sums = ops.sum_(ops.reshape(ops.mul(steps, times), [-1, 2, 2 * memory]), [2])
        return ops.add(sums, bias), ops.reshape(steps, [-1, filters * memory])

    def replacement(state: Any, x: Any) -> Any:
        return ops.svdf(x, feature, times, bias, state, rank=2)

    return Pair(trace_graph(body, types), trace_graph(replacement, types))


def _of_step(step: Any, replacement: Graph, carries: Sequence[TensorType] | None = None, **sizes: Any) -> Pair:
    return Pair(Loop(step, carries, **sizes).graph(), replacement)


_PEEPHOLES = (PEEPHOLES["input"], PEEPHOLES["forget"], PEEPHOLES["output"])
_NARROW = [f32(BATCH, 3), f32(BATCH, UNITS)]
_STATE = [f32(BATCH, UNITS)]

PAIRS: dict[str, Callable[[], Pair]] = {
    "lstm": lambda: _of_step(cells.keras, lstm()),
    "lstm-closed": lambda: _of_step(cells.keras, lstm(batch=3, steps=6), batch=3, steps=6),
    "lstm-one_row": lambda: _of_step(cells.keras, lstm(batch=1), batch=1),
    "lstm-joined": lambda: _of_step(cells.joined, lstm()),
    "lstm-eight_products": lambda: _of_step(cells.eight_products, lstm()),
    "lstm-transposed": lambda: _of_step(cells.transposed, lstm()),
    "lstm-activated_before_split": lambda: _of_step(cells.activated_before_split, lstm()),
    "lstm-spelled_out": lambda: _of_step(cells.spelled_out, lstm()),
    "lstm-detour": lambda: _of_step(cells.detour, lstm()),
    "lstm-clipped": lambda: _of_step(cells.clipped(2.0), lstm(cell_clip=2.0)),
    "lstm-coupled": lambda: _of_step(cells.coupled, lstm(coupled=True)),
    "lstm-coupled_difference": lambda: _of_step(cells.coupled_difference, lstm(coupled=True)),
    "lstm-peepholes": lambda: _of_step(cells.peepholes, lstm(peepholes=_PEEPHOLES)),
    "lstm-relu": lambda: _of_step(cells.activated(ops.relu), lstm(fused_activation_function="RELU")),
    "lstm-relu6": lambda: _of_step(cells.activated(ops.relu6), lstm(fused_activation_function="RELU6")),
    "lstm-chosen": lambda: _of_step(cells.activated(cells.chosen_relu), lstm(fused_activation_function="RELU")),
    "lstm-diagonal": lambda: _of_step(cells.diagonal, lstm(diagonal=True)),
    "lstm-projected": lambda: _of_step(
        cells.projected(0.5),
        lstm(projection=PROJECTION, projection_bias=PROJECTION_BIAS, proj_clip=0.5),
        _NARROW,
    ),
    "lstm-normed": lambda: _of_step(cells.normed(), lstm(norms=SCALES, biases=SHIFTS)),
    "lstm-folded_norm": lambda: _of_step(cells.normed(cells.folded_norm), lstm(norms=SCALES, biases=SHIFTS)),
    "lstm-normed_together": lambda: _of_step(cells.normed_together, lstm(norms=SCALES, biases=SHIFTS)),
    "rnn": lambda: _of_step(cells.simple(), rnn(), _STATE),
    "rnn-relu": lambda: _of_step(cells.simple(ops.relu), rnn("RELU"), _STATE),
    "rnn-closed": lambda: _of_step(cells.simple(), rnn(batch=2, steps=5), [f32(2, UNITS)], batch=2, steps=5),
    "rnn-bidirectional": bidirectional,
    "svdf": svdf,
}
