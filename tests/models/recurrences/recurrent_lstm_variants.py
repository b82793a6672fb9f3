"""LSTMs written by hand with all that TFLite's op can do, and how their gates may be spelled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from tests.models.recurrences.recurrent_shells import Cell, Random, Step

Gates = Callable[[Any, Any], Mapping[str, Any]]
"""(x_t, h) -> the products that enter the gates, by the gate's letter in "ifgo" """

_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {"tanh": tf.tanh, "relu": tf.nn.relu, "relu6": tf.nn.relu6}


def joined(r: Random, order: str, width: int, bias: bool) -> Gates:
    """One product of each of x and h with a matrix that holds all gates."""
    w, u = r.kernel(r.features, len(order) * r.units), r.kernel(width, len(order) * r.units)
    b = r.vector(len(order) * r.units)

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        z = tf.matmul(x, w) + tf.matmul(h, u)
        return dict(zip(order, tf.split(z + b if bias else z, len(order), axis=1), strict=True))

    return gates


def concatenated(r: Random, order: str, width: int, bias: bool) -> Gates:
    """One product of [h, x] with one matrix."""
    kernel, b = r.kernel(width + r.features, len(order) * r.units), r.vector(len(order) * r.units)

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        z = tf.matmul(tf.concat([h, x], 1), kernel)
        return dict(zip(order, tf.split(tf.nn.bias_add(z, b) if bias else z, len(order), 1), strict=True))

    return gates


def separate(r: Random, order: str, width: int, bias: bool) -> Gates:
    """Two products for each gate."""
    w, u = ({g: r.kernel(rows, r.units) for g in order} for rows in (r.features, width))
    b = {g: r.vector(r.units) for g in order}

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        z = {g: tf.matmul(x, w[g]) + tf.matmul(h, u[g]) for g in order}
        return {g: z[g] + b[g] for g in order} if bias else z

    return gates


def four_of_concatenated(r: Random, order: str, width: int, bias: bool) -> Gates:
    """One product of [x, h] for each gate."""
    kernels = {g: r.kernel(r.features + width, r.units) for g in order}
    b = {g: r.vector(r.units) for g in order}

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        both = tf.concat([x, h], axis=-1)
        return {g: both @ kernels[g] + b[g] if bias else both @ kernels[g] for g in order}

    return gates


def two_pairs(r: Random, order: str, width: int, bias: bool) -> Gates:
    """Two matrices, each for half of the gates, split by slices."""
    halves = [order[: len(order) // 2], order[len(order) // 2 :]]
    kernels = [r.kernel(r.features + width, len(half) * r.units) for half in halves]
    vectors = [r.vector(len(half) * r.units) for half in halves]

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        both, found = tf.concat([x, h], 1), {}
        for half, kernel, vector in zip(halves, kernels, vectors, strict=True):
            z = tf.matmul(both, kernel) + vector if bias else tf.matmul(both, kernel)
            found.update({g: z[:, k * r.units : (k + 1) * r.units] for k, g in enumerate(half)})
        return found

    return gates


def transposed(r: Random, order: str, width: int, bias: bool) -> Gates:
    """Kernels stored with the outputs first, biases as a row, gates split by a reshape."""
    w, u = r.kernel(len(order) * r.units, r.features), r.kernel(len(order) * r.units, width)
    b = r.kernel(1, len(order) * r.units)

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        z = tf.matmul(x, w, transpose_b=True) + tf.matmul(h, tf.transpose(u))
        cut = tf.reshape(z + b if bias else z, [-1, len(order), r.units])
        return dict(zip(order, tf.unstack(cut, axis=1), strict=True))

    return gates


def stacked(r: Random, order: str, width: int, bias: bool) -> Gates:
    """Kernels of three dimensions, one product for all gates by einsum."""
    w, u = r.kernel(len(order), r.features, r.units), r.kernel(len(order), width, r.units)
    b = r.kernel(len(order), r.units)

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        z = tf.einsum("bi,giu->gbu", x, w) + tf.einsum("bh,ghu->gbu", h, u)
        return {g: z[k] + b[k] if bias else z[k] for k, g in enumerate(order)}

    return gates


def normalized_weights(r: Random, order: str, width: int, bias: bool) -> Gates:
    """Weight normalization: every column has a length of its own, computed in the graph."""
    v, length, b = (
        r.kernel(r.features + width, len(order) * r.units),
        r.vector(len(order) * r.units, 1.5),
        r.vector(r.units),
    )

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        kernel = length * v / tf.norm(v, axis=0)
        z = tf.split(tf.concat([x, h], 1) @ kernel, len(order), 1)
        return {g: part + b if bias else part for g, part in zip(order, z, strict=True)}

    return gates


def two_biases(r: Random, order: str, width: int, bias: bool) -> Gates:
    """A bias with each of the two products, as other libraries keep them."""
    w, u = r.kernel(r.features, len(order) * r.units), r.kernel(width, len(order) * r.units)
    bx, bh = r.vector(len(order) * r.units), r.vector(len(order) * r.units)

    def gates(x: Any, h: Any) -> Mapping[str, Any]:
        z = (x @ w + bx) + (h @ u + bh)
        return dict(zip(order, tf.split(z, len(order), -1), strict=True))

    return gates


Spelling = Callable[[Random, str, int, bool], Gates]


@dataclass(frozen=True)
class Variant:
    """One LSTM.

    order: of the gates in its matrices; "fgo" where one gate is what another leaves. forget_bias: added in the graph.
    peephole: gates see c. projection: the width of h, 0 for none. clips: 0.0 for none. norm: epsilon of a layer norm in
    every gate. diagonal: h enters gates element by element.
    """

    spelling: Spelling = joined
    order: str = "ifgo"
    bias: bool = True
    forget_bias: float = 0.0
    activation: str = "tanh"
    peephole: bool = False
    projection: int = 0
    projection_bias: bool = False
    cell_clip: float = 0.0
    projection_clip: float = 0.0
    norm: float | None = None
    diagonal: bool = False

    def cell(self, seed: int = 0) -> Cell:
        """The cell with random weights. States: h, then c."""
        return self.of(Random(seed))

    def of(self, r: Random) -> Cell:
        """The cell with weights of these sizes."""
        width = self.projection or r.units
        gates = self._diagonal(r) if self.diagonal else self.spelling(r, self.order, width, self.bias)
        return Cell(self._step(gates, self._peepholes(r), self._norms(r), self._project(r)), (width, r.units))

    @property
    def coupled(self) -> bool:
        """Whether the input gate is what the forget gate leaves."""
        return "i" not in self.order

    def _diagonal(self, r: Random) -> Gates:
        w, u = r.kernel(r.features, len(self.order) * r.units), {g: r.vector(r.units) for g in self.order}
        b = r.vector(len(self.order) * r.units)

        def gates(x: Any, h: Any) -> Mapping[str, Any]:
            parts = tf.split(x @ w + b, len(self.order), 1)
            return {g: part + h * u[g] for g, part in zip(self.order, parts, strict=True)}

        return gates

    def _peepholes(self, r: Random) -> Callable[[str, Any, Any], Any]:
        if not self.peephole:
            return lambda gate, z, c: z
        vectors = {g: r.vector(r.units) for g in self.order if g != "g"}
        return lambda gate, z, c: z + c * vectors[gate]

    def _norms(self, r: Random) -> Callable[[str, Any], Any]:
        if self.norm is None:
            return lambda gate, z: z
        epsilon = self.norm
        scale, shift = ({g: r.vector(r.units, around) for g in self.order} for around in (1.0, 0.0))

        def norm(gate: str, z: Any) -> Any:
            mean = tf.reduce_mean(z, axis=1, keepdims=True)
            variance = tf.reduce_mean(tf.square(z - mean), axis=1, keepdims=True)
            return (z - mean) * tf.math.rsqrt(variance + epsilon) * scale[gate] + shift[gate]

        return norm

    def _project(self, r: Random) -> Callable[[Any], Any]:
        if not self.projection:
            return lambda h: h
        kernel, bias = r.kernel(r.units, self.projection), r.vector(self.projection)

        def project(h: Any) -> Any:
            h = h @ kernel + bias if self.projection_bias else h @ kernel
            return tf.clip_by_value(h, -self.projection_clip, self.projection_clip) if self.projection_clip else h

        return project

    def _step(
        self,
        gates: Gates,
        peephole: Callable[[str, Any, Any], Any],
        norm: Callable[[str, Any], Any],
        project: Callable[[Any], Any],
    ) -> Step:
        act = _ACTIVATIONS[self.activation]

        def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            h, c = states
            z = gates(x, h)
            forget = tf.sigmoid(norm("f", peephole("f", z["f"], c)) + self.forget_bias)
            taken = 1.0 - forget if self.coupled else tf.sigmoid(norm("i", peephole("i", z["i"], c)))
            c = forget * c + taken * act(norm("g", z["g"]))
            c = tf.clip_by_value(c, -self.cell_clip, self.cell_clip) if self.cell_clip else c
            h = project(tf.sigmoid(norm("o", peephole("o", z["o"], c))) * act(c))
            return h, (h, c)

        return step
