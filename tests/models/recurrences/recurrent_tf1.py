"""The matrix's rows of TensorFlow 1: dynamic_rnn, static_rnn and their like, saved from a V1 session."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.recurrences.recurrent_rows import SIZES, Draw, Row, masked_steps
from tests.models.recurrences.recurrent_shells import FEATURES, Random

v1 = tf.compat.v1
_STEPS = 6

Wire = Callable[[Any, Any], dict[str, Any]]
"""(module of TF1's cells, x f32[b,t,i]) -> results by name"""


@dataclass(frozen=True)
class Session:
    """A model that a session saves. lengths: "lengths" i32[b] is an input as well. v2: with V2 control flow."""

    wire: Callable[..., dict[str, Any]]
    batch: int | None = None
    lengths: bool = False
    v2: bool = False

    def save(self, folder: Path, seed: int = 0) -> Path:
        """Write the SavedModel with random variables."""
        from tf_keras.src.layers.rnn import legacy_cells  # what tf.compat.v1.nn.rnn_cell was, without a public name

        target = folder / "model"
        with _control_flow(self.v2), tf.Graph().as_default() as graph, v1.Session(graph=graph) as session:
            inputs = {"x": v1.placeholder(tf.float32, [self.batch, _STEPS, FEATURES], name="x")}
            if self.lengths:
                inputs["lengths"] = v1.placeholder(tf.int32, [self.batch], name="lengths")
            results = self.wire(legacy_cells, *inputs.values())
            r = Random(seed)
            session.run(v1.global_variables_initializer())
            for variable in v1.global_variables():
                variable.load(r.array(*variable.shape), session)
            v1.saved_model.simple_save(session, str(target), inputs, results)
        return target


@contextmanager
def _control_flow(v2: bool) -> Iterator[None]:
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel("ERROR")  # every V1 function says that it is deprecated
    if not v2:
        v1.disable_control_flow_v2()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        v1.enable_control_flow_v2()
        logger.setLevel(level)


def dynamic(cell: Callable[[Any], Any], x: Any, lengths: Any = None, *, module: Any, **options: Any) -> dict[str, Any]:
    """dynamic_rnn."""
    y, state = v1.nn.dynamic_rnn(cell(module), x, sequence_length=lengths, dtype=tf.float32, **options)
    return {"y": y, **{f"s{i}": s for i, s in enumerate(tf.nest.flatten(state))}}


def by_dynamic(cell: Callable[[Any], Any]) -> Callable[..., dict[str, Any]]:
    """A model of one dynamic_rnn."""
    return lambda module, x, lengths=None: dynamic(cell, x, lengths, module=module)


def by_static(cell: Callable[[Any], Any]) -> Wire:
    """A model of one static_rnn: the steps one after another."""

    def wire(module: Any, x: Any) -> dict[str, Any]:
        rows, state = v1.nn.static_rnn(cell(module), tf.unstack(x, axis=1), dtype=tf.float32)
        return {"y": tf.stack(rows, 1), **{f"s{i}": s for i, s in enumerate(tf.nest.flatten(state))}}

    return wire


def by_time_major(cell: Callable[[Any], Any]) -> Wire:
    """A dynamic_rnn between two transposes."""

    def wire(module: Any, x: Any) -> dict[str, Any]:
        found = dynamic(cell, tf.transpose(x, [1, 0, 2]), module=module, time_major=True)
        return {**found, "y": tf.transpose(found["y"], [1, 0, 2])}

    return wire


def by_bidirectional(cell: Callable[[Any], Any]) -> Wire:
    """bidirectional_dynamic_rnn, its outputs side by side."""

    def wire(module: Any, x: Any) -> dict[str, Any]:
        rows, states = v1.nn.bidirectional_dynamic_rnn(cell(module), cell(module), x, dtype=tf.float32)
        return {"y": tf.concat(rows, 2), "last": tf.nest.flatten(states)[0]}

    return wire


def _basic(m: Any) -> Any:
    return m.BasicLSTMCell(4)


def _full(m: Any) -> Any:
    return m.LSTMCell(4, use_peepholes=True, num_proj=3, cell_clip=0.5, proj_clip=0.4)


def _peephole(m: Any) -> Any:
    return m.LSTMCell(4, use_peepholes=True, forget_bias=0.0)


def _projected(m: Any) -> Any:
    return m.LSTMCell(4, num_proj=3)


def _simple(m: Any) -> Any:
    return m.BasicRNNCell(4)


def _gru(m: Any) -> Any:
    return m.GRUCell(4)


def _two(m: Any) -> Any:
    return m.MultiRNNCell([m.LSTMCell(4), m.LSTMCell(3)])


def _lengths(side: str = "right") -> Draw:
    def draw(seed: int) -> dict[str, np.ndarray]:
        batch = SIZES[seed % len(SIZES)]
        x = np.random.default_rng(seed).standard_normal((batch, _STEPS, FEATURES)).astype(np.float32)
        return {"x": x, "lengths": masked_steps(side, _STEPS, batch, seed).sum(1).astype(np.int32)}

    return draw


def _row(name: str, session: Session, loops: int | None = 0, draw: Draw | None = None, **fused: int) -> Row:
    return Row(f"tf1-{name}", "tf1", partial(_save, session), fused, loops=loops, draw=draw)


def _save(session: Session, folder: Path) -> Path:
    return session.save(folder)


ROWS: tuple[Row, ...] = (
    _row("basic_lstm", Session(by_dynamic(_basic)), lstm=1),
    _row("basic_lstm-batch_1", Session(by_dynamic(_basic), batch=1), lstm=1),
    _row("basic_lstm-v2", Session(by_dynamic(_basic), v2=True), lstm=1),
    _row("lstm-all_of_them", Session(by_dynamic(_full)), lstm=1),
    _row("lstm-peephole-static", Session(by_static(_peephole), batch=2), lstm=1),
    _row("lstm-projection-time_major", Session(by_time_major(_projected)), lstm=1),
    _row("basic_lstm-static", Session(by_static(_basic)), lstm=1),
    _row("lstm-bidirectional", Session(by_bidirectional(_basic)), lstm=2),
    _row("lstm-bidirectional-v2", Session(by_bidirectional(_peephole), v2=True), lstm=2),
    _row("lstm-two_cells", Session(by_dynamic(_two)), lstm=2),
    _row("rnn", Session(by_dynamic(_simple)), rnn=1),
    _row("rnn-static", Session(by_static(_simple)), rnn=1),
    _row("gru", Session(by_dynamic(_gru)), None),
    _row("gru-static", Session(by_static(_gru), batch=1), None),
    _row("lstm-lengths", Session(by_dynamic(_basic), lengths=True), draw=_lengths(), lstm=1),
    _row("gru-lengths", Session(by_dynamic(_gru), lengths=True), None, draw=_lengths()),
)
