"""The matrix's rows of single steps with their states in and out, and of SVDF written out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.recurrences.recurrent_lstm_variants import Variant
from tests.models.recurrences.recurrent_rows import Row
from tests.models.recurrences.recurrent_shells import FEATURES, Cell, Random, Shell
from tests.models.recurrences.recurrent_written import Make, simple_cell

_MEMORY, _RANK = 4, 2


def single(cell: Cell, batch: int | None = 2) -> Any:
    """One step as the whole model: "x" f32[b,i], "s0", "s1", … -> {"y", "s0", "s1", …}."""
    specs = [tf.TensorSpec([batch, FEATURES], tf.float32, name="x")]
    specs += [tf.TensorSpec([batch, n], tf.float32, name=f"s{i}") for i, n in enumerate(cell.widths)]

    def run(x: Any, *states: Any) -> dict[str, Any]:
        y, found = cell.step(x, states)
        return {"y": y, **{f"s{i}": s for i, s in enumerate(found)}}

    return tf.function(run, input_signature=specs, autograph=False)


def svdf(
    rank: int = _RANK, *, act: Callable[[Any], Any] = tf.nn.relu, bias: bool = True, product: bool = False
) -> Make:
    """SVDF: filters over features, their last results kept, and filters over those, `rank` for each output.

    The state is f32[b, m·f], a window of m results for each filter, the oldest first. product: the window moves by a
    product with a matrix instead of a concatenation.
    """

    def make(r: Random) -> Cell:
        filters = rank * r.units
        feature, time, b = r.kernel(r.features, filters), r.kernel(filters, _MEMORY), r.vector(r.units)

        def moved(window: Any, newest: Any) -> Any:
            if not product:
                return tf.concat([window[:, :, 1:], newest], axis=2)
            window = tf.matmul(window, np.eye(_MEMORY, k=-1, dtype=np.float32))
            return window + newest * np.eye(_MEMORY, dtype=np.float32)[-1]

        def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            window = moved(tf.reshape(states[0], [-1, filters, _MEMORY]), (x @ feature)[:, :, None])
            found = tf.reduce_sum(window * time, axis=2)
            y = tf.reduce_sum(tf.reshape(found, [-1, r.units, rank]), axis=2)
            return act(y + b if bias else y), (tf.reshape(window, [-1, filters * _MEMORY]),)

        return Cell(step, (_MEMORY * filters,))

    return make


def _row(name: str, kind: str, make: Callable[[], Any], loops: int | None = 0, **fused: int) -> Row:
    def build(folder: Path) -> Any:
        return make()

    return Row(name, kind, build, fused, loops=loops)


def _step(make: Make, batch: int | None = 2) -> Callable[[], Any]:
    return lambda: single(make(Random()), batch)


def _looped(make: Make, shell: Shell) -> Callable[[], Any]:
    return lambda: shell.function(make(Random()))


ROWS: tuple[Row, ...] = (
    _row("step-lstm", "step", _step(Variant(order="fogi").of), lstm=1),
    _row("step-lstm-open_batch", "step", _step(Variant().of, None), lstm=1),
    _row("step-lstm-batch_1", "step", _step(Variant().of, 1), lstm=1),
    _row("step-lstm-all_of_them", "step", _step(Variant(peephole=True, projection=3, cell_clip=0.5).of), lstm=1),
    _row("step-lstm-coupled", "step", _step(Variant(order="gfo").of), lstm=1),
    _row("step-rnn", "step_rnn", _step(simple_cell()), rnn=1),
    _row("step-rnn-open_batch", "step_rnn", _step(simple_cell(tf.nn.relu, concatenated=True), None), rnn=1),
    _row("step-svdf", "svdf", _step(svdf()), svdf=1),
    _row("step-svdf-rank_1", "svdf", _step(svdf(1, act=tf.identity, bias=False), 1), svdf=1),
    _row("step-svdf-product", "svdf", _step(svdf(product=True, act=tf.nn.relu6)), svdf=1),
    _row("step-svdf-open_batch", "svdf", _step(svdf(), None), svdf=1),
    _row("svdf-loop", "svdf_loop", _looped(svdf(), Shell(batch=2)), None),
)
