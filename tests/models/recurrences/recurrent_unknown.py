"""The matrix's rows of cells that TFLite has no op for: whatever form they get, they answer right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.models.recurrences.recurrent_rows import Row
from tests.models.recurrences.recurrent_shells import Cell, Random, Shell

States = tuple[Any, ...]
Stepped = tuple[Any, States]


class Gate:
    """x·W + h·U + b."""

    def __init__(self, r: Random, width: int | None = None) -> None:
        width = width or r.units
        self.w, self.u, self.b = r.kernel(r.features, width), r.kernel(r.units, width), r.vector(width)

    def __call__(self, x: Any, h: Any) -> Any:
        return x @ self.w + h @ self.u + self.b


def gru_before(r: Random) -> Cell:
    """A GRU whose reset gate comes before the product, the update gate the other way round than in Keras."""
    z, c, u = Gate(r, 2 * r.units), r.kernel(r.features + r.units, r.units), r.vector(r.units)

    def step(x: Any, states: States) -> Stepped:
        (h,) = states
        reset, update = tf.split(tf.sigmoid(z(x, h)), 2, 1)
        new = tf.tanh(tf.concat([x, reset * h], 1) @ c + u)
        h = update * h + (1.0 - update) * new
        return h, (h,)

    return Cell(step, (r.units,))


def minimal_gated_unit(r: Random) -> Cell:
    """One gate for forgetting and updating."""
    f, w, u, b = Gate(r), r.kernel(r.features, r.units), r.kernel(r.units, r.units), r.vector(r.units)

    def step(x: Any, states: States) -> Stepped:
        (h,) = states
        forget = tf.sigmoid(f(x, h))
        h = (1.0 - forget) * h + forget * tf.tanh(x @ w + (forget * h) @ u + b)
        return h, (h,)

    return Cell(step, (r.units,))


def light_gru(r: Random) -> Cell:
    """Li-GRU: no reset gate, relu."""
    z, n = Gate(r), Gate(r)

    def step(x: Any, states: States) -> Stepped:
        (h,) = states
        update = tf.sigmoid(z(x, h))
        h = update * h + (1.0 - update) * tf.nn.relu(n(x, h))
        return h, (h,)

    return Cell(step, (r.units,))


def sru(r: Random) -> Cell:
    """SRU: gates see the input and the old state element by element; a highway around it."""
    w, v, b = r.kernel(r.features, 4 * r.units), r.kernel(2, r.units), r.kernel(2, r.units)

    def step(x: Any, states: States) -> Stepped:
        (c,) = states
        new, f, reset, skip = tf.split(x @ w, 4, 1)
        forget, reset = tf.sigmoid(f + v[0] * c + b[0]), tf.sigmoid(reset + v[1] * c + b[1])
        c = forget * c + (1.0 - forget) * new
        return reset * tf.tanh(c) + (1.0 - reset) * skip, (c,)

    return Cell(step, (r.units,))


def qrnn(r: Random) -> Cell:
    """QRNN's fo-pooling: gates see this input and the last one."""
    w, b = r.kernel(2 * r.features, 3 * r.units), r.vector(3 * r.units)

    def step(x: Any, states: States) -> Stepped:
        last, c = states
        z, f, o = tf.split(tf.concat([last, x], 1) @ w + b, 3, 1)
        c = tf.sigmoid(f) * c + (1.0 - tf.sigmoid(f)) * tf.tanh(z)
        return tf.sigmoid(o) * c, (x, c)

    return Cell(step, (r.features, r.units))


def indrnn(r: Random) -> Cell:
    """IndRNN: each unit sees itself alone."""
    w, u, b = r.kernel(r.features, r.units), r.vector(r.units), r.vector(r.units)

    def step(x: Any, states: States) -> Stepped:
        h = tf.nn.relu(x @ w + states[0] * u + b)
        return h, (h,)

    return Cell(step, (r.units,))


def elman_sigmoid(r: Random) -> Cell:
    """An Elman network with a sigmoid state and an output layer."""
    z, out = Gate(r), r.kernel(r.units, 3)

    def step(x: Any, states: States) -> Stepped:
        h = tf.sigmoid(z(x, states[0]))
        return tf.tanh(h @ out), (h,)

    return Cell(step, (r.units,))


def jordan(r: Random) -> Cell:
    """A Jordan network: what comes back is the output, not the hidden layer."""
    z, out, b = Gate(r), r.kernel(r.units, r.units), r.vector(r.units)

    def step(x: Any, states: States) -> Stepped:
        y = tf.nn.softmax(tf.tanh(z(x, states[0])) @ out + b)
        return y, (y,)

    return Cell(step, (r.units,))


def phased(r: Random) -> Cell:
    """A leaky network whose units are open in turns: time is a state."""
    z, period = Gate(r), r.vector(r.units, 1.0)

    def step(x: Any, states: States) -> Stepped:
        h, t = states
        length = tf.exp(period)
        phase = tf.math.floormod(t, length) / length
        openness = tf.where(phase < 0.5, 2.0 * phase, 0.1 * phase)
        h = openness * tf.tanh(z(x, h)) + (1.0 - openness) * h
        return h, (h, t + 1.0)

    return Cell(step, (r.units, 1))


def with_attention(r: Random) -> Cell:
    """A state that attends over three memories, which it rewrites."""
    z, query, memories = Gate(r), r.kernel(r.units, r.units), 3

    def step(x: Any, states: States) -> Stepped:
        h, memory = states
        slots = tf.reshape(memory, [-1, memories, r.units])
        weights = tf.nn.softmax(tf.reduce_sum(slots * (h @ query)[:, None], 2))
        read = tf.reduce_sum(slots * weights[:, :, None], 1)
        h = tf.tanh(z(x, h + read))
        slots = slots + weights[:, :, None] * h[:, None]
        return h, (h, tf.reshape(slots, [-1, memories * r.units]))

    return Cell(step, (r.units, memories * r.units))


def highway(r: Random) -> Cell:
    """A recurrent highway of depth two."""
    gates = [(Gate(r), Gate(r)), (Gate(r), Gate(r))]

    def step(x: Any, states: States) -> Stepped:
        (h,) = states
        for new, carry in gates:
            keep = tf.sigmoid(carry(x, h))
            h = keep * h + (1.0 - keep) * tf.tanh(new(x, h))
        return h, (h,)

    return Cell(step, (r.units,))


def multiplicative_lstm(r: Random) -> Cell:
    """mLSTM: the gates see a product of the input and h."""
    wm, um = r.kernel(r.features, r.units), r.kernel(r.units, r.units)
    z = Gate(r, 4 * r.units)

    def step(x: Any, states: States) -> Stepped:
        h, c = states
        i, f, g, o = tf.split(z(x, (x @ wm) * (h @ um)), 4, 1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, (h, c)

    return Cell(step, (r.units, r.units))


def exponential_average(r: Random) -> Cell:
    """A moving average of a Dense layer, a rate for each unit."""
    w, rate = r.kernel(r.features, r.units), r.vector(r.units)

    def step(x: Any, states: States) -> Stepped:
        keep = tf.sigmoid(rate)
        h = keep * states[0] + (1.0 - keep) * (x @ w)
        return h, (h,)

    return Cell(step, (r.units,))


def coupled_oscillator(r: Random) -> Cell:
    """coRNN: position and speed."""
    z, wz = Gate(r), r.kernel(r.units, r.units)

    def step(x: Any, states: States) -> Stepped:
        y, v = states
        v = v + 0.3 * (tf.tanh(z(x, y) + v @ wz) - 0.9 * y - 0.5 * v)
        y = y + 0.3 * v
        return y, (y, v)

    return Cell(step, (r.units, r.units))


def running_maximum(r: Random) -> Cell:
    """The largest projection so far."""
    w = r.kernel(r.features, r.units)

    def step(x: Any, states: States) -> Stepped:
        h = tf.maximum(states[0], x @ w)
        return h, (h,)

    return Cell(step, (r.units,))


_UNKNOWN: Mapping[str, tuple[Callable[[Random], Cell], Shell]] = {
    "gru_before": (gru_before, Shell()),
    "gru_before-unrolled": (gru_before, Shell("unrolled", batch=1)),
    "minimal_gated_unit": (minimal_gated_unit, Shell(initial=True)),
    "light_gru": (light_gru, Shell("scan")),
    "sru": (sru, Shell(time_major=True)),
    "qrnn": (qrnn, Shell("indexed")),
    "indrnn": (indrnn, Shell(batch=3)),
    "elman_sigmoid": (elman_sigmoid, Shell()),
    "jordan": (jordan, Shell()),
    "phased": (phased, Shell()),
    "with_attention": (with_attention, Shell(batch=2, initial=True)),
    "highway": (highway, Shell()),
    "multiplicative_lstm": (multiplicative_lstm, Shell()),
    "exponential_average": (exponential_average, Shell("last")),
    "coupled_oscillator": (coupled_oscillator, Shell(batch=1)),
    "running_maximum": (running_maximum, Shell(initial=True)),
}


def _build(cell: Callable[[Random], Cell], shell: Shell, folder: Path) -> Any:
    return shell.function(cell(Random()))


# indrnn and exponential_average are simple RNNs whose recurrent matrix is diagonal, but for infinities.
ROWS: tuple[Row, ...] = tuple(
    Row(
        f"unknown-{name}",
        "unknown",
        partial(_build, cell, shell),
        loops=None,
    )
    for name, (cell, shell) in _UNKNOWN.items()
) + tuple(
    Row(
        f"unknown-{name}-{form}",
        "unknown",
        partial(_build, cell, shell),
        loops=int(form == "while"),
        options={"loop": form},
    )
    for name, cell, shell in (
        ("sru", sru, Shell()),
        ("highway", highway, Shell(batch=2)),
        ("minimal_gated_unit", minimal_gated_unit, Shell()),
    )
    for form in ("while", "unroll")
)
