"""LSTMs written by hand with `tf.while_loop`, each in a spelling of its own, and the loop that all of them share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

Cell = Callable[[Any, Any, Any], tuple[Any, Any]]
"""(x_t, h, c) -> (h', c')"""


@dataclass(frozen=True)
class Weights:
    """The weights of one LSTM, a matrix and a vector for each of the gates i, f, g, o."""

    w: dict[str, np.ndarray]
    u: dict[str, np.ndarray]
    b: dict[str, np.ndarray]

    @classmethod
    def random(cls, features: int, units: int, seed: int = 0) -> Weights:
        """Normal weights, scaled for a spread of gates, with biases that matter."""
        rng = np.random.default_rng(seed)

        def draw(*shape: int) -> dict[str, np.ndarray]:
            scale = 1 / np.sqrt(shape[0]) if len(shape) > 1 else 0.5
            return {gate: (rng.standard_normal(shape) * scale).astype(np.float32) for gate in "ifgo"}

        return cls(draw(features, units), draw(units, units), draw(units))

    @property
    def units(self) -> int:
        """The number of units."""
        return len(self.b["i"])

    @property
    def features(self) -> int:
        """The width of the input."""
        return len(self.w["i"])

    def joined(self, gates: str) -> tuple[Any, Any, Any]:
        """Variables with the gates side by side in the order of `gates`: f32[i,4u], f32[u,4u], f32[4u]."""
        parts = [np.concatenate([table[g] for g in gates], -1) for table in (self.w, self.u, self.b)]
        w, u, b = (tf.Variable(p) for p in parts)
        return w, u, b


@dataclass(frozen=True)
class Loop:
    """A `tf.while_loop` around a cell.

    batch: None for a dynamic one. time_major: the input is f32[t,b,i] and is not transposed.
    swapped: c is carried before h, and both before the list. with_element_shape: whether the TensorArray is told.
    indexed: the step reads x[:, t] instead of a list.
    """

    batch: int | None = 2
    steps: int = 6
    time_major: bool = False
    swapped: bool = False
    with_element_shape: bool = True
    indexed: bool = False

    def function(self, weights: Weights, cell: Cell) -> Any:
        """A tf.function of x f32[b,t,i] with the results {"y": f32[b,t,u], "h": f32[b,u], "c": f32[b,u]}."""
        shape = [self.batch, self.steps, weights.features]
        if self.time_major:
            shape = [self.steps, self.batch, weights.features]

        def run(x: Any) -> dict[str, Any]:
            rows, h, c = self._run(x, weights.units, cell)
            y = rows if self.time_major else tf.transpose(rows, [1, 0, 2])
            return {"y": y, "h": h, "c": c}

        return tf.function(run, input_signature=[tf.TensorSpec(shape, tf.float32, name="x")], autograph=False)

    def _run(self, x: Any, units: int, cell: Cell) -> tuple[Any, Any, Any]:
        batch = tf.shape(x)[1 if self.time_major else 0] if self.batch is None else self.batch
        zeros = tf.zeros([batch, units])
        row = (self.batch, units) if self.with_element_shape else None
        rows = tf.TensorArray(tf.float32, self.steps, element_shape=row)
        read = self._reader(x)

        def step(t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
            h, c = cell(read(t), h, c)
            return t + 1, rows.write(t, h), h, c

        if not self.swapped:
            _, rows, h, c = tf.while_loop(lambda t, *_: t < self.steps, step, (0, rows, zeros, zeros))
            return rows.stack(), h, c

        def swapped(c: Any, h: Any, rows: Any, t: Any) -> tuple[Any, ...]:
            t, rows, h, c = step(t, rows, h, c)
            return c, h, rows, t

        c, h, rows, _ = tf.while_loop(lambda *args: args[-1] < self.steps, swapped, (zeros, zeros, rows, 0))
        return rows.stack(), h, c

    def _reader(self, x: Any) -> Callable[[Any], Any]:
        if self.indexed:
            return lambda t: x[t] if self.time_major else x[:, t]
        time_first = x if self.time_major else tf.transpose(x, [1, 0, 2])
        rows = tf.TensorArray(tf.float32, self.steps).unstack(time_first)
        return lambda t: rows.read(t)


def gates_to_state(i: Any, f: Any, g: Any, o: Any, c: Any) -> tuple[Any, Any]:
    """The usual end of a cell, from the gates before their activations to (h', c')."""
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def reordered_cell(weights: Weights) -> Cell:
    """Gates in the order f, o, i, g, and 1 added to the forget gate in the graph."""
    w, u, b = weights.joined("foig")

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        f, o, i, g = tf.split(x @ w + h @ u + b, 4, 1)
        return gates_to_state(i, f + 1.0, g, o, c)

    return cell


def concatenated_cell(weights: Weights) -> Cell:
    """One product of [x, h] with one kernel."""
    w, u, b = weights.joined("ifgo")
    kernel = tf.Variable(tf.concat([w, u], 0))

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        i, f, g, o = tf.split(tf.nn.bias_add(tf.concat([x, h], 1) @ kernel, b), 4, 1)
        return gates_to_state(i, f, g, o, c)

    return cell


def eight_products_cell(weights: Weights) -> Cell:
    """Two products for each gate, its bias added last."""
    w, u, b = ({g: tf.Variable(a) for g, a in t.items()} for t in (weights.w, weights.u, weights.b))

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        gates = {k: tf.matmul(h, u[k]) + tf.matmul(x, w[k]) + b[k] for k in "ifgo"}
        return gates_to_state(gates["i"], gates["f"], gates["g"], gates["o"], c)

    return cell


def transposed_cell(weights: Weights) -> Cell:
    """Kernels stored as [4u, i] and transposed in the graph, once by an op and once by the product."""
    w, u, b = weights.joined("ifgo")
    wt, ut = tf.Variable(tf.transpose(w)), tf.Variable(tf.transpose(u))

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        z = tf.matmul(x, tf.transpose(wt)) + tf.matmul(h, ut, transpose_b=True) + b
        i, f, g, o = tf.split(z, 4, -1)
        return gates_to_state(i, f, g, o, c)

    return cell


def sliced_cell(weights: Weights) -> Cell:
    """Column slices of the kernel in the graph instead of a split of the product."""
    w, u, b = weights.joined("ogfi")
    n = weights.units

    def cell(x: Any, h: Any, c: Any) -> tuple[Any, Any]:
        z = [x @ w[:, k * n : (k + 1) * n] + h @ u[:, k * n : (k + 1) * n] + b[k * n : (k + 1) * n] for k in range(4)]
        o, g, f, i = z
        return gates_to_state(i, f, g, o, c)

    return cell


@dataclass(frozen=True)
class Written:
    """One hand-written LSTM: its cell's spelling and its loop."""

    cell: Callable[[Weights], Cell]
    loop: Loop
    units: int = 16
    features: int = 5

    def build(self, seed: int = 0) -> Any:
        """The tf.function."""
        weights = Weights.random(self.features, self.units, seed)
        return self.loop.function(weights, self.cell(weights))


WRITTEN: dict[str, Written] = {
    "reordered": Written(reordered_cell, Loop()),
    "reordered-dynamic": Written(reordered_cell, Loop(batch=None)),
    "concatenated": Written(concatenated_cell, Loop()),
    "concatenated-dynamic": Written(concatenated_cell, Loop(batch=None)),
    "eight_products": Written(eight_products_cell, Loop()),
    "eight_products-dynamic": Written(eight_products_cell, Loop(batch=None)),
    "transposed": Written(transposed_cell, Loop()),
    "transposed-dynamic": Written(transposed_cell, Loop(batch=None)),
    "sliced": Written(sliced_cell, Loop()),
    "swapped": Written(concatenated_cell, Loop(swapped=True)),
    "swapped-dynamic": Written(reordered_cell, Loop(batch=None, swapped=True)),
    "no_element_shape": Written(concatenated_cell, Loop(with_element_shape=False)),
    "no_element_shape-dynamic": Written(concatenated_cell, Loop(batch=None, with_element_shape=False)),
    "indexed": Written(concatenated_cell, Loop(indexed=True)),
    "indexed-dynamic": Written(eight_products_cell, Loop(batch=None, indexed=True)),
    "time_major": Written(concatenated_cell, Loop(time_major=True)),
    "time_major-indexed-dynamic": Written(concatenated_cell, Loop(batch=None, time_major=True, indexed=True)),
    "one_row": Written(concatenated_cell, Loop(batch=1)),
    "wide": Written(reordered_cell, Loop(batch=None), units=256, features=40),
}
