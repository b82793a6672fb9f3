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
from jfuse.kernels.core.op import Array

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


# What TFLite's LSTM has beyond the plain one.

PEEPHOLES = {name: weights(UNITS) for name in ("input", "forget", "output")}
PROJECTION, PROJECTION_BIAS = weights(UNITS, 3), weights(3)
SCALES, SHIFTS = weights(4, UNITS), weights(4, UNITS)


def peepholes(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """The input and forget gates see c, the output gate sees c'."""
    i, f, g, o = sums(x, h)
    i, f = (ops.add(z, ops.mul(c, PEEPHOLES[name])) for name, z in (("input", i), ("forget", f)))
    _, new_c = update((i, f, g, o), c)
    o = ops.add(o, ops.mul(PEEPHOLES["output"], new_c))
    new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
    return new_h, new_c, new_h


def one_peephole(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    new_h, new_c = update((i, ops.add(f, ops.mul(c, PEEPHOLES["forget"])), g, o), c)
    return new_h, new_c, new_h


def late_peephole(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """The output gate sees the old c, which TFLite has not."""
    i, f, g, o = sums(x, h)
    new_h, new_c = update((i, f, g, ops.add(o, ops.mul(c, PEEPHOLES["output"]))), c)
    return new_h, new_c, new_h


def full_peephole(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """A gate sees c through a matrix."""
    i, f, g, o = sums(x, h)
    new_h, new_c = update((i, ops.add(f, dense(c, gate(R, 0))), g, o), c)
    return new_h, new_c, new_h


def cell_peephole(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    new_h, new_c = update((i, f, ops.add(g, ops.mul(c, PEEPHOLES["input"])), o), c)
    return new_h, new_c, new_h


def projected(clip: float = 0.0, bias: np.ndarray | None = PROJECTION_BIAS, kernel: np.ndarray = PROJECTION) -> Step:
    """h is sigmoid(o)*tanh(c') times a kernel, clipped where `clip` is not 0."""
    width = kernel.shape[1]

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(ops.add(dense(x, W), dense(h, R[:width])), B)
        new_h, new_c = update(ops.split(1, z, num_splits=4), c)
        new_h = dense(new_h, kernel, bias)
        new_h = ops.minimum(ops.maximum(new_h, np.float32(-clip)), np.float32(clip)) if clip else new_h
        return new_h, new_c, new_h

    return step


def clipped(limit: float) -> Step:
    """c' is clipped."""

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
        new_c = ops.minimum(ops.maximum(new_c, np.float32(-limit)), np.float32(limit))
        new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
        return new_h, new_c, new_h

    return step


def ended(new_c: Array, o: Array) -> tuple[Array, ...]:
    """h', c' and y from c' and what enters the output gate."""
    new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
    return new_h, new_c, new_h


ONE = np.float32(1)


def coupled(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """f*c + (1-f)*g."""
    _, f, g, o = sums(x, h)
    keep = ops.logistic(f)
    return ended(ops.add(ops.mul(keep, c), ops.mul(ops.sub(ONE, keep), ops.tanh(g))), o)


def coupled_difference(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """g + f*(c-g)."""
    _, f, g, o = sums(x, h)
    new = ops.tanh(g)
    return ended(ops.add(new, ops.mul(ops.logistic(f), ops.sub(c, new))), o)


def coupled_input(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """(1-i)*c + i*g."""
    i, _, g, o = sums(x, h)
    admit = ops.logistic(i)
    return ended(ops.add(ops.mul(ops.sub(ONE, admit), c), ops.mul(admit, ops.tanh(g))), o)


def coupled_as_a_step_towards(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """c + i*(g-c)."""
    i, _, g, o = sums(x, h)
    return ended(ops.add(c, ops.mul(ops.logistic(i), ops.sub(ops.tanh(g), c))), o)


def activated(act: Callable[[Array], Array], after: Callable[[Array], Array] | None = None) -> Step:
    """Another activation in place of tanh, in both places, or `after` in the second."""

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), act(g)))
        new_h = ops.mul(ops.logistic(o), (after or act)(new_c))
        return new_h, new_c, new_h

    return step


def chosen_relu(z: Array) -> Array:
    """relu as a choice."""
    return ops.select_v2(ops.greater(z, np.float32(0)), z, np.float32(0))


def negative_update(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """f*c - i*tanh(g)."""
    i, f, g, o = sums(x, h)
    return ended(ops.sub(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g))), o)


def exponentials(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """sigmoid(z) = 1 / (1 + exp(-z)), tanh(z) = (exp(z) - exp(-z)) / (exp(z) + exp(-z))."""

    def sigmoid(z: Array) -> Array:
        return ops.div(ONE, ops.add(ONE, ops.exp(ops.neg(z))))

    def tanh(z: Array) -> Array:
        up, down = ops.exp(z), ops.exp(ops.neg(z))
        return ops.div(ops.sub(up, down), ops.add(up, down))

    i, f, g, o = sums(x, h)
    new_c = ops.add(ops.mul(sigmoid(f), c), ops.mul(sigmoid(i), tanh(g)))
    new_h = ops.mul(sigmoid(o), tanh(new_c))
    return new_h, new_c, new_h


def diagonal(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Each unit sees its own h alone."""
    z = ops.split(1, ops.add(dense(x, W), B), num_splits=4)
    new_h, new_c = update([ops.add(part, ops.mul(h, PEEPHOLES["input"])) for part in z], c)
    return new_h, new_c, new_h


Norm = Callable[[Array, np.ndarray, np.ndarray, float], Array]


def written_norm(z: Array, scale: np.ndarray, shift: np.ndarray, epsilon: float) -> Array:
    """(z - mean) * rsqrt(variance + epsilon) * scale + shift."""
    mean = ops.mean(z, [1], keep_dims=True)
    variance = ops.mean(ops.squared_difference(z, mean), [1], keep_dims=True)
    normed = ops.mul(ops.sub(z, mean), ops.rsqrt(ops.add(variance, np.float32(epsilon))))
    return ops.add(ops.mul(normed, scale), shift)


def folded_norm(z: Array, scale: np.ndarray, shift: np.ndarray, epsilon: float) -> Array:
    """z * r + (shift - mean * r) with r = scale / sqrt(variance + epsilon), as batch normalization is written."""
    mean = ops.mean(z, [1], keep_dims=True)
    centred = ops.sub(z, mean)
    variance = ops.mean(ops.mul(centred, centred), [1], keep_dims=True)
    factor = ops.div(scale, ops.sqrt(ops.add(variance, np.float32(epsilon))))
    return ops.add(ops.mul(z, factor), ops.sub(shift, ops.mul(mean, factor)))


def root_mean_square_norm(z: Array, scale: np.ndarray, shift: np.ndarray, epsilon: float) -> Array:
    """Without the mean taken away: not TFLite's."""
    size = ops.rsqrt(ops.add(ops.mean(ops.square(z), [1], keep_dims=True), np.float32(epsilon)))
    return ops.add(ops.mul(ops.mul(z, size), scale), shift)


def normed(
    norm: Norm = written_norm, epsilon: float = 1e-8, *, bias: bool = False, gates: Sequence[int] = range(4)
) -> Step:
    """A layer norm in gates; bias: added to what is normalized as well."""

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(dense(x, W), dense(h, R))
        parts = ops.split(1, ops.add(z, B) if bias else z, num_splits=4)
        parts = [norm(p, SCALES[k], SHIFTS[k], epsilon) if k in gates else p for k, p in enumerate(parts)]
        new_h, new_c = update(parts, c)
        return new_h, new_c, new_h

    return step


def normed_together(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """All gates in one tensor of three axes, each normalized over its own units."""
    z = ops.reshape(ops.add(dense(x, W), dense(h, R)), [-1, 4, UNITS])
    centred = ops.sub(z, ops.mean(z, [2], keep_dims=True))
    variance = ops.mean(ops.square(centred), [2], keep_dims=True)
    found = ops.div(centred, ops.sqrt(ops.add(variance, np.float32(1e-8))))
    new_h, new_c = update(ops.unpack(ops.add(ops.mul(found, SCALES), SHIFTS), axis=1), c)
    return new_h, new_c, new_h


def normed_over_all(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Statistics over the units of all gates: not TFLite's."""
    z = written_norm(ops.add(dense(x, W), dense(h, R)), SCALES.reshape(-1), SHIFTS.reshape(-1), 1e-8)
    new_h, new_c = update(ops.split(1, z, num_splits=4), c)
    return new_h, new_c, new_h


def simple(act: Callable[[Array], Array] = ops.tanh) -> Step:
    """h' = act(W x + R h + b)."""

    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new_h = act(ops.add(ops.add(dense(x, gate(W, 0)), dense(h, gate(R, 0))), gate(B, 0)))
        return new_h, new_h

    return step


def gru(*, reset_after: bool) -> Step:
    """A GRU; the state moves from its old value to a new one."""

    def step(h: Array, x: Array) -> tuple[Array, ...]:
        z, r = (ops.logistic(ops.add(dense(x, gate(W, k)), dense(h, gate(R, k)))) for k in (0, 1))
        seen = ops.mul(r, dense(h, gate(R, 2), gate(B, 2))) if reset_after else dense(ops.mul(r, h), gate(R, 2))
        new = ops.tanh(ops.add(dense(x, gate(W, 2), gate(B, 1)), seen))
        new_h = ops.add(ops.mul(z, h), ops.mul(ops.sub(ONE, z), new))
        return new_h, new_h

    return step
