"""The ways to run a cell over a sequence by hand, for any cell, and weights for cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Step = Callable[[Any, tuple[Any, ...]], tuple[Any, tuple[Any, ...]]]
"""(x_t, states) -> (y_t, states)"""

FEATURES, UNITS = 5, 4


@dataclass(frozen=True)
class Cell:
    """One step, and the widths of its states."""

    step: Step
    widths: tuple[int, ...]


class Random:
    """Variables for cells, each a draw of its own. They keep gates between saturation and the linear range.

    features, units: the sizes that the cells are to have.
    """

    def __init__(self, seed: int = 0, features: int = FEATURES, units: int = UNITS) -> None:
        self._rng = np.random.default_rng(seed)
        self.features, self.units = features, units

    def array(self, *shape: int) -> np.ndarray:
        """Normal, with standard deviation 1/sqrt(rows) for matrices and 0.5 for vectors."""
        scale = 1.0 / np.sqrt(shape[-2]) if len(shape) > 1 else 0.5
        return (self._rng.standard_normal(shape) * scale).astype(np.float32)

    def kernel(self, *shape: int) -> Any:
        """A variable of at least two dimensions."""
        return tf.Variable(self.array(*shape), name="kernel")

    def vector(self, size: int, around: float = 0.0) -> Any:
        """A variable of one dimension."""
        return tf.Variable(self.array(size) + np.float32(around), name="vector")


@dataclass(frozen=True)
class Shell:
    """A loop by hand.

    form: "while" (TensorArrays), "indexed" (x[:, t] in the loop), "scan" (tf.scan), "unrolled" (Python, over slices),
    "unstacked" (Python, over tf.unstack) or "last" (no sequence of outputs).
    initial: the states are inputs "s0", "s1", … instead of zeros. final: they are results. time_major: x is f32[t,b,i]
    and so is y.
    """

    form: str = "while"
    batch: int | None = None
    steps: int = 6
    time_major: bool = False
    initial: bool = False
    final: bool = True

    def function(self, cell: Cell, features: int = FEATURES) -> Any:
        """A tf.function of "x" f32[b,t,i] with the results "y" f32[b,t,u] and the final states "s0", "s1", …"""
        shape = [self.steps, self.batch] if self.time_major else [self.batch, self.steps]
        specs = [tf.TensorSpec([*shape, features], tf.float32, name="x")]
        if self.initial:
            specs += [tf.TensorSpec([self.batch, n], tf.float32, name=f"s{i}") for i, n in enumerate(cell.widths)]

        def run(x: Any, *given: Any) -> dict[str, Any]:
            states = given or self._zeros(x, cell.widths)
            rows, states = _FORMS[self.form](self, x, tuple(states), cell.step)
            results = {f"s{i}": s for i, s in enumerate(states) if self.final}
            return results if rows is None else {"y": rows, **results}

        return tf.function(run, input_signature=specs, autograph=False)

    def _zeros(self, x: Any, widths: Sequence[int]) -> tuple[Any, ...]:
        batch = tf.shape(x)[1 if self.time_major else 0] if self.batch is None else self.batch
        return tuple(tf.zeros([batch, n]) for n in widths)

    def time_first(self, x: Any) -> Any:
        """The sequence with its steps in front."""
        return x if self.time_major else tf.transpose(x, [1, 0, 2])

    def as_given(self, rows: Any) -> Any:
        """A sequence with its steps in front in the layout of the input."""
        return rows if self.time_major else tf.transpose(rows, [1, 0, 2])


def _while(shell: Shell, x: Any, states: tuple[Any, ...], step: Step) -> tuple[Any, tuple[Any, ...]]:
    source = tf.TensorArray(tf.float32, shell.steps).unstack(shell.time_first(x))

    def body(t: Any, rows: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        y, states = step(source.read(t), states)
        return t + 1, rows.write(t, y), states

    rows = tf.TensorArray(tf.float32, shell.steps)
    _, rows, states = tf.while_loop(lambda t, *_: t < shell.steps, body, (0, rows, states))
    return shell.as_given(rows.stack()), states


def _indexed(shell: Shell, x: Any, states: tuple[Any, ...], step: Step) -> tuple[Any, tuple[Any, ...]]:
    def body(t: Any, states: tuple[Any, ...], rows: Any) -> tuple[Any, ...]:
        y, states = step(x[t] if shell.time_major else x[:, t], states)
        return t + 1, states, rows.write(t, y)

    rows = tf.TensorArray(tf.float32, shell.steps)
    _, states, rows = tf.while_loop(lambda t, *_: t < shell.steps, body, (0, states, rows))
    return shell.as_given(rows.stack()), states


def _scan(shell: Shell, x: Any, states: tuple[Any, ...], step: Step) -> tuple[Any, tuple[Any, ...]]:
    first, _ = step(shell.time_first(x)[0], states)

    def body(carry: Any, row: Any) -> Any:
        return step(row, carry[1])

    rows, found = tf.scan(body, shell.time_first(x), (tf.zeros_like(first), states))
    return shell.as_given(rows), tuple(s[-1] for s in found)


def _unrolled(shell: Shell, x: Any, states: tuple[Any, ...], step: Step) -> tuple[Any, tuple[Any, ...]]:
    rows = []
    for t in range(shell.steps):
        y, states = step(x[t] if shell.time_major else x[:, t, :], states)
        rows.append(y)
    return tf.stack(rows, axis=0 if shell.time_major else 1), states


def _unstacked(shell: Shell, x: Any, states: tuple[Any, ...], step: Step) -> tuple[Any, tuple[Any, ...]]:
    rows = []
    for row in tf.unstack(x, axis=0 if shell.time_major else 1):
        y, states = step(row, states)
        rows.append(tf.expand_dims(y, 0 if shell.time_major else 1))
    return tf.concat(rows, axis=0 if shell.time_major else 1), states


def _last(shell: Shell, x: Any, states: tuple[Any, ...], step: Step) -> tuple[Any, tuple[Any, ...]]:
    source = shell.time_first(x)

    def body(t: Any, states: tuple[Any, ...]) -> tuple[Any, ...]:
        return t + 1, step(source[t], states)[1]

    _, states = tf.while_loop(lambda t, *_: t < shell.steps, body, (0, states))
    return None, states


_FORMS: dict[str, Callable[[Shell, Any, tuple[Any, ...], Step], tuple[Any, tuple[Any, ...]]]] = {
    "while": _while,
    "indexed": _indexed,
    "scan": _scan,
    "unrolled": _unrolled,
    "unstacked": _unstacked,
    "last": _last,
}
