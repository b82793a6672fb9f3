"""Recurrent steps written by hand in many ways, the scans over them, and the weights that they all have."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, symbol
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.op import Array

INPUTS, UNITS = 3, 4
BATCH, STEPS = symbol("B"), symbol("T")
_random = np.random.default_rng(7)


def weights(*shape: int) -> np.ndarray:
    return _random.standard_normal(shape).astype(np.float32)


# Gates in Keras's order: input, forget, cell, output.
W = weights(INPUTS, 4 * UNITS)
R = weights(UNITS, 4 * UNITS)
B = weights(4 * UNITS)


def f32(*shape: Dim) -> TensorType:
    return TensorType(shape, DType.f32)


def dense(x: Array, kernel: np.ndarray, bias: np.ndarray | None = None) -> Array:
    """x times a kernel as TensorFlow keeps it.   kernel: f32[in, out]"""
    return ops.fully_connected(x, np.ascontiguousarray(kernel.T), bias)


def gate(array: np.ndarray, index: int) -> np.ndarray:
    """The columns of one gate."""
    return array[..., index * UNITS : (index + 1) * UNITS]


def sums(x: Array, h: Array) -> tuple[Array, ...]:
    """What enters the four gates, as Keras computes it."""
    z = ops.add(ops.add(dense(x, W), dense(h, R)), B)
    parts: tuple[Array, ...] = ops.split(1, z, num_splits=4)
    return parts


def update(gates: Sequence[Array], c: Array) -> tuple[Array, Array]:
    """h' and c' from what enters the gates."""
    i, f, g, o = gates
    new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
    return ops.mul(ops.logistic(o), ops.tanh(new_c)), new_c


def keras(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """The step as Keras writes it; results h', c', y."""
    new_h, new_c = update(sums(x, h), c)
    return new_h, new_c, new_h


Step = Callable[..., tuple[Array, ...]]


@dataclass(frozen=True)
class Loop:
    """A scan over a step: what its carries and step inputs are. Its first operands are the carries."""

    step: Step
    carries: Sequence[TensorType] | None = None
    consts: Sequence[TensorType] = ()
    xs: Sequence[TensorType] | None = None
    batch: Dim = BATCH
    steps: Dim = STEPS
    reverse: bool = False

    def graph(self) -> Graph:
        """The graph: inputs (constants, carries, sequences), results those of the scan."""
        state = f32(self.batch, UNITS)
        carries = [state, state] if self.carries is None else self.carries
        xs = [f32(self.batch, INPUTS)] if self.xs is None else self.xs
        body = trace_graph(self.step, [*self.consts, *carries, *xs], "step")
        sequences = [TensorType((self.steps, *x.shape), x.dtype) for x in xs]

        def run(*operands: Any) -> Any:
            params = {
                "consts": len(self.consts),
                "carries": len(carries),
                "length": self.steps,
                "reverse": self.reverse,
            }
            return scan(operands, [body], **params)

        return trace_graph(run, [*self.consts, *carries, *sequences])

    def eqn(self) -> Eqn:
        """The scan alone."""
        (eqn,) = self.graph().eqns
        return eqn

    def eqn_with(self, *constants: np.ndarray) -> Eqn:
        """The scan with the first operands constant."""
        eqn = self.eqn()
        return replace(eqn, inputs=(*map(Const, constants), *eqn.inputs[len(constants) :]))


def permuted(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Gates in the order output, forget, cell, input, and 1 added to the forget gate."""
    order = (3, 1, 2, 0)
    kernel, recurrent, bias = (np.concatenate([gate(a, k) for k in order], -1) for a in (W, R, B))
    o, f, g, i = ops.split(1, ops.add(ops.add(dense(x, kernel), dense(h, recurrent)), bias), num_splits=4)
    new_h, new_c = update((i, ops.add(f, np.float32(1.0)), g, o), c)
    return new_h, new_c, new_h


def joined(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """One product with [x, h]; columns taken by STRIDED_SLICE."""
    z = dense(ops.concatenation(x, h, axis=-1), np.concatenate([W, R]), B)
    parts = [
        ops.strided_slice(z, [0, k * UNITS], [0, (k + 1) * UNITS], [1, 1], begin_mask=1, end_mask=1) for k in range(4)
    ]
    new_h, new_c = update(parts, c)
    return new_h, new_c, new_h


def eight_products(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    parts = [ops.add(ops.add(dense(x, gate(W, k)), gate(B, k)), dense(h, gate(R, k))) for k in range(4)]
    new_h, new_c = update(parts, c)
    return new_h, new_c, new_h


def transposed(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Columns are rows: (W' x')' + (R' h')'."""
    products = ops.add(
        ops.batch_matmul(W.T, ops.transpose(x, [1, 0])), ops.batch_matmul(R, ops.transpose(h, [1, 0]), adj_x=True)
    )
    new_h, new_c = update(ops.split(1, ops.add(ops.transpose(products, [1, 0]), B), num_splits=4), c)
    return new_h, new_c, new_h


def other_order(c: Array, h: Array, x: Array) -> tuple[Array, ...]:
    """c is carried before h."""
    new_h, new_c, y = keras(h, c, x)
    return new_c, new_h, y


def activated_before_split(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """One sigmoid over i, f and o, then split; and every product and sum the other way round."""
    order = (0, 1, 3, 2)
    kernel, recurrent, bias = (np.concatenate([gate(a, k) for k in order], -1) for a in (W, R, B))
    z = ops.add(bias, ops.add(dense(h, recurrent), dense(x, kernel)))
    gates, g = ops.split_v(z, [3 * UNITS, UNITS], 1)
    i, f, o = ops.split(1, ops.logistic(gates), num_splits=3)
    new_c = ops.add(ops.mul(ops.tanh(g), i), ops.mul(c, f))
    new_h = ops.mul(ops.tanh(new_c), o)
    return new_h, new_c, new_h


def spelled_out(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """sigmoid(z) = (1 + tanh(z / 2)) / 2 and tanh(z) = 2 * sigmoid(2 z) - 1; c' computed twice."""
    half, one, two = np.float32(0.5), np.float32(1), np.float32(2)

    def sigmoid(z: Array) -> Array:
        return ops.mul(half, ops.add(one, ops.tanh(ops.mul(z, half))))

    def tanh(z: Array) -> Array:
        return ops.sub(ops.mul(two, ops.logistic(ops.mul(z, two))), one)

    def cell() -> Array:
        return ops.add(ops.mul(sigmoid(f), c), ops.mul(sigmoid(i), tanh(g)))

    i, f, g, o = sums(x, h)
    new_h = ops.mul(sigmoid(o), tanh(cell()))
    return new_h, cell(), new_h


def squeezed(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """What Keras 3 makes at batch 1: the product with h loses the batch axis and is added like a bias."""
    z = ops.add(ops.add(dense(x, W), ops.squeeze(dense(h, R))), B)
    new_h, new_c = update(ops.split(1, z, num_splits=4), c)
    return new_h, new_c, new_h


def detour(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Values pass through other shapes on the way."""
    row = ops.reshape(ops.expand_dims(x, 1), [-1, INPUTS])
    new_h, new_c, y = keras(h, ops.squeeze(ops.expand_dims(c, 1), squeeze_dims=(1,)), row)
    return new_h, ops.reverse_v2(ops.reverse_v2(new_c, [1]), [1]), y
