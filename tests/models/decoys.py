"""Loops that only resemble an LSTM: each differs from one in a single place, on inputs that a careless check misses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.lstm_written import Cell, Loop, Weights, gates_to_state

_UNITS, _FEATURES, _STEPS, _BATCH = 16, 5, 6, 3

Gates = Callable[[Any, Any], tuple[Any, Any, Any, Any]]
"""(x_t, h) -> the gates i, f, g, o before their activations"""


def _gates(weights: Weights) -> Gates:
    w, u, b = weights.joined("ifgo")

    def gates(x: Any, h: Any) -> Any:
        return tf.split(x @ w + h @ u + b, 4, 1)

    return gates


def plain_cell(gates: Gates) -> Cell:
    """No decoy: an LSTM."""
    return lambda x, h, c: gates_to_state(*gates(x, h), c)


def clipped_cell(limit: float) -> Callable[[Gates], Cell]:
    """The cell state is clipped to [-limit, limit]."""

    def of(gates: Gates) -> Cell:
        def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
            i, f, g, o = gates(x, h)
            c = tf.clip_by_value(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), -limit, limit)
            return tf.sigmoid(o) * tf.tanh(c), c

        return cell

    return of


def swapped_cell(gates: Gates) -> Cell:
    """h and c trade places: the gates see c, and h is what is remembered."""

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = gates(x, c)
        c = tf.sigmoid(f) * h + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    return cell


def no_tanh_cell(gates: Gates) -> Cell:
    """The last tanh is missing."""

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = gates(x, h)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * c, c

    return cell


def kept_row_cell(gates: Gates) -> Cell:
    """A row whose input is all zero keeps its states."""

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        new_h, new_c = gates_to_state(*gates(x, h), c)
        used = tf.reduce_any(tf.not_equal(x, 0.0), axis=1, keepdims=True)
        return tf.where(used, new_h, h), tf.where(used, new_c, c)

    return cell


def seven_cell(gates: Gates) -> Cell:
    """Entries of x that are exactly 7 count as 0."""
    return lambda x, h, c: gates_to_state(*gates(tf.where(tf.equal(x, 7.0), tf.zeros_like(x), x), h), c)


def nan_to_num_cell(gates: Gates) -> Cell:
    """Entries of x that are not numbers count as 0."""
    return lambda x, h, c: gates_to_state(*gates(tf.where(tf.math.is_nan(x), tf.zeros_like(x), x), h), c)


def batch_mean_cell(gates: Gates) -> Cell:
    """Each row is seen relative to the mean of its batch."""
    return lambda x, h, c: gates_to_state(*gates(x - tf.reduce_mean(x, axis=0, keepdims=True), h), c)


def coupled_cell(gates: Gates) -> Cell:
    """The input gate is what the forget gate leaves."""

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        _, f, g, o = gates(x, h)
        forget = tf.sigmoid(f)
        c = forget * c + (1.0 - forget) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    return cell


_CELLS: dict[str, Callable[[Gates], Cell]] = {
    "clipped_narrow": clipped_cell(0.3),
    "clipped_wide": clipped_cell(4.0),  # reached only when every gate is open for five steps
    "h_and_c_swapped": swapped_cell,
    "tanh_missing": no_tanh_cell,
    "zero_row_kept": kept_row_cell,
    "special_case_at_7": seven_cell,
    "nan_to_num": nan_to_num_cell,
    "batch_mean": batch_mean_cell,
    "coupled_gates": coupled_cell,
}


def _loop(
    start: int = 0, stop: int = _STEPS, *, early: bool = False, reverse: bool = False, counted: bool = False
) -> Any:
    """A tf.function around the plain cell whose loop differs.

    start, stop: the steps that it makes. early: it ends when h has grown. reverse: step t reads x[T-1-t].
    counted: the step number is added to the input gate.
    """
    gates = _gates(Weights.random(_FEATURES, _UNITS))

    def step(x: Any, t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
        row = x[:, _STEPS - 1 - t] if reverse else x[:, t]
        i, f, g, o = gates(row, h)
        h, c = gates_to_state(i + 0.1 * tf.cast(t, tf.float32) if counted else i, f, g, o, c)
        return t + 1, rows.write(t, h), h, c

    def more(t: Any, rows: Any, h: Any, c: Any) -> Any:
        return tf.logical_and(t < stop, tf.reduce_max(h) < 0.5) if early else t < stop

    def run(x: Any) -> dict[str, Any]:
        zeros = tf.zeros([_BATCH, _UNITS])
        rows = tf.TensorArray(tf.float32, _STEPS, element_shape=(_BATCH, _UNITS))
        _, rows, h, c = tf.while_loop(more, lambda *args: step(x, *args), (start, rows, zeros, zeros))
        return {"y": tf.transpose(rows.stack(), [1, 0, 2]), "h": h, "c": c}

    spec = tf.TensorSpec([_BATCH, _STEPS, _FEATURES], tf.float32, name="x")
    return tf.function(run, input_signature=[spec], autograph=False)


_LOOPS: dict[str, dict[str, Any]] = {
    "start_at_1": {"start": 1},
    "stop_before_the_end": {"stop": _STEPS - 1},
    "early_exit": {"early": True},
    "reversed_read": {"reverse": True},
    "counter_in_a_gate": {"counted": True},
}

DECOYS = (*_CELLS, *_LOOPS)


def telling_input(name: str, seed: int = 0) -> np.ndarray:
    """An input f32[3,6,5] on which the decoy answers otherwise than an LSTM does."""
    x = np.random.default_rng(seed).standard_normal((_BATCH, _STEPS, _FEATURES)).astype(np.float32)
    if name == "clipped_wide":
        return np.repeat(x[:, :1] * 30, _STEPS, axis=1)
    x[1, 2] = 0.0
    x[0, 1:3, 2] = 7.0
    if name == "nan_to_num":
        x[2, 1, 3] = np.nan
    return x


def build_lstm() -> Any:
    """The LSTM that every decoy resembles."""
    weights = Weights.random(_FEATURES, _UNITS)
    return Loop(batch=_BATCH, steps=_STEPS).function(weights, plain_cell(_gates(weights)))


def build_decoy(name: str) -> Any:
    """The tf.function of a decoy: x f32[3,6,5] -> {"y", "h", "c"}."""
    if name in _LOOPS:
        return _loop(**_LOOPS[name])
    weights = Weights.random(_FEATURES, _UNITS)
    return Loop(batch=_BATCH, steps=_STEPS).function(weights, _CELLS[name](_gates(weights)))
