"""Decoys of a simple RNN, of two directions, and of SVDF."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tests.models.decoys.decoy_rows import BATCH, STATES, STEPS, Decoy, single_step, telling
from tests.models.decoys.decoys_lstm import Parts, lstm
from tests.models.recurrences.recurrent_shells import FEATURES, UNITS, Cell, Random, Shell

_SHELL = Shell(batch=BATCH, steps=STEPS)
Simple = Callable[[Any, Any, Any], Any]
"""(x·W, h·U + b, h) -> h'"""


def simple(change: Simple) -> Any:
    """A tf.function around a cell that has one state."""
    r = Random()
    w, u, b = r.kernel(FEATURES, UNITS), r.kernel(UNITS, UNITS), r.vector(UNITS)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        h = change(x @ w, states[0] @ u + b, states[0])
        return h, (h,)

    return _SHELL.function(Cell(step, (UNITS,)))


def rnn(a: Any, b: Any, h: Any) -> Any:
    """No decoy."""
    return tf.tanh(a + b)


def rnn_relu(a: Any, b: Any, h: Any) -> Any:
    """No decoy."""
    return tf.nn.relu(a + b)


_SIMPLE: dict[str, tuple[Simple, Simple]] = {
    "rnn_residual": (lambda a, b, h: 0.5 * h + tf.tanh(a + b), rnn),
    "rnn_leaky": (lambda a, b, h: 0.7 * h + 0.3 * tf.tanh(a + b), rnn),
    "rnn_multiplied": (lambda a, b, h: tf.tanh(a * b), rnn),
    "rnn_softsign": (lambda a, b, h: tf.nn.softsign(a + b), rnn),
    "rnn_tanh_of_half": (lambda a, b, h: 0.8 * tf.tanh(a + b), rnn),
    "rnn_leaky_relu": (lambda a, b, h: tf.nn.leaky_relu(a + b), rnn_relu),
    "rnn_clipped_low": (lambda a, b, h: tf.clip_by_value(a + b, 0.0, 0.5), rnn_relu),
    "rnn_never_less": (lambda a, b, h: tf.maximum(tf.nn.relu(a + b), 0.9 * h), rnn_relu),
}


def two_directions(backward: Callable[[Any], Any], back: Callable[[Any], Any], *, from_forward: bool = False) -> Any:
    """Two LSTMs side by side. backward: what the second reads; back: how its outputs are turned."""
    first, second = Parts(0), Parts(1)

    def run(x: Any) -> dict[str, Any]:
        zeros = (tf.zeros([BATCH, UNITS]),) * 2
        forward, ended = _over(first, x, zeros)
        found, _ = _over(second, backward(x), ended if from_forward else zeros)
        return {"y": tf.concat([forward, back(found)], 2)}

    spec = tf.TensorSpec([BATCH, STEPS, FEATURES], tf.float32, name="x")
    return tf.function(run, input_signature=[spec], autograph=False)


def _over(parts: Parts, x: Any, states: tuple[Any, Any]) -> tuple[Any, tuple[Any, Any]]:
    def step(t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
        h, c = lstm(parts, x[:, t], h, c)
        return t + 1, rows.write(t, h), h, c

    start = (0, tf.TensorArray(tf.float32, STEPS), *states)
    _, rows, h, c = tf.while_loop(lambda t, *_: t < STEPS, step, start)
    return tf.transpose(rows.stack(), [1, 0, 2]), (h, c)


def _time(x: Any) -> Any:
    return tf.reverse(x, [1])


def _rows(x: Any) -> Any:
    return tf.reverse(x, [0])


_TWO: dict[str, Callable[[], Any]] = {
    "bilstm_not_turned": partial(two_directions, tf.identity, _time),
    "bilstm_rows_turned": partial(two_directions, _rows, _rows),
    "bilstm_one_after_another": partial(two_directions, _time, _time, from_forward=True),
}
_MEMORY, _RANK, _OUTPUTS = 4, 2, 3
_WIDTH = _MEMORY * _RANK * _OUTPUTS


def svdf(
    shift: Callable[[Any, Any], Any] = lambda window, newest: tf.concat([window[:, :, 1:], newest], 2),
    weigh: Callable[[Any, Any], Any] = lambda window, time: tf.reduce_sum(window * time, 2),
) -> Any:
    """One step of SVDF: "x" f32[3,5], "s0" f32[3,m·f] -> {"y", "s0"}.

    shift: (window f32[b,f,m], newest f32[b,f,1]) -> window. weigh: (window, weights f32[f,m]) -> f32[b,f].
    """
    r, filters = Random(), _RANK * _OUTPUTS
    feature, time, bias = r.kernel(FEATURES, filters), r.kernel(filters, _MEMORY), r.vector(_OUTPUTS)

    def run(x: Any, state: Any) -> dict[str, Any]:
        window = shift(tf.reshape(state, [-1, filters, _MEMORY]), (x @ feature)[:, :, None])
        y = tf.reduce_sum(tf.reshape(weigh(window, time), [-1, _OUTPUTS, _RANK]), 2) + bias
        return {"y": tf.nn.relu(y), "s0": tf.reshape(window, [-1, _WIDTH])}

    specs = [tf.TensorSpec([BATCH, n], tf.float32, name=name) for name, n in (("x", FEATURES), ("s0", _WIDTH))]
    return tf.function(run, input_signature=specs, autograph=False)


_SVDF: dict[str, Callable[[], Any]] = {
    "svdf_decaying": partial(svdf, lambda window, newest: tf.concat([0.5 * window[:, :, 1:], newest], 2)),
    "svdf_largest": partial(svdf, weigh=lambda window, time: tf.reduce_max(window * time, 2)),
    "svdf_oldest_kept": partial(
        svdf, lambda window, newest: tf.concat([window[:, :, :1], window[:, :, 2:], newest], 2)
    ),
}


def single_lstm(change: Callable[[Parts, Any, Any, Any], tuple[Any, Any]]) -> Any:
    """One step: "x" f32[3,5], "s0", "s1" f32[3,u] -> {"s0", "s1"}."""
    parts = Parts()

    def run(x: Any, h: Any, c: Any) -> dict[str, Any]:
        h, c = change(parts, x, h, c)
        return {"s0": h, "s1": c}

    widths = {"x": FEATURES, "s0": UNITS, "s1": UNITS}
    specs = [tf.TensorSpec([BATCH, n], tf.float32, name=name) for name, n in widths.items()]
    return tf.function(run, input_signature=specs, autograph=False)


def states_exchanged(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h' and c' come out in each other's place."""
    h, c = lstm(p, x, h, c)
    return h * 0.5 + c * 0.5, c


def single_state(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h' and c' are one value."""
    h, _ = lstm(p, x, h, c)
    return h, h


DECOYS: dict[str, Decoy] = {
    **{name: Decoy(partial(simple, c), partial(simple, of), telling()) for name, (c, of) in _SIMPLE.items()},
    # It may fuse: a linear RNN over tanh(x·W).
    "rnn_half_bent": Decoy(
        partial(simple, lambda a, b, h: tf.tanh(a) + 0.3 * b), partial(simple, rnn), telling(), fused={"rnn": 1}
    ),
    **{
        name: Decoy(build, partial(two_directions, _time, _time), telling(), fused={"lstm": 2})
        for name, build in _TWO.items()
    },
    **{name: Decoy(build, svdf, single_step((_WIDTH,))) for name, build in _SVDF.items()},
    # It may fuse: the op's own window is the state, turned around.
    "svdf_newest_first": Decoy(
        partial(svdf, lambda window, newest: tf.concat([newest, window[:, :, :-1]], 2)),
        svdf,
        single_step((_WIDTH,)),
        fused={"svdf": 1},
    ),
    **{
        f"step_{change.__name__}": Decoy(partial(single_lstm, change), partial(single_lstm, lstm), single_step(STATES))
        for change in (states_exchanged, single_state)
    },
}
