"""Fused recurrences step by step, in ops that have a kernel of integers: written out, or as a scan.

Each function takes the operands and options of an equation, and returns what computes the same, or None.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array

Step = Callable[..., tuple[Array, ...]]
"""What enters a step, then the states before it -> the states after it, of which the first is the result."""


def within(low: float, high: float) -> Callable[[Array], Array]:
    """The op that cuts numbers to a range."""
    return lambda x: ops.minimum(ops.maximum(x, np.float32(low)), np.float32(high))


def steps_of_rnn(
    x: Array, weights: Array, recurrent: Array, bias: Array, h: Array, *, in_loop: bool = False, **options: Any
) -> tuple[Array, ...] | None:
    """A simple RNN: the products of the inputs at once, then a product and an activation for each step."""
    activate = _ACTIVATIONS.get(options["fused_activation_function"])
    if activate is None or (in_loop and not _are_arrays([recurrent], [0])):  # a step reads nothing from outside
        return None

    def step(entering: Array, h: Array) -> tuple[Array, ...]:
        return (activate(ops.add(entering, ops.fully_connected(h, recurrent, None))),)

    return _over_steps(step, (x, weights, bias), (h,), options["time_major"], in_loop)


def steps_of_lstm(
    x: Array, *operands: Array | None, time_major: bool, in_loop: bool = False, **options: Any
) -> tuple[Array, ...] | None:
    """An LSTM without layer norms: what its kernel of integers does not compute, or not in 16 bits."""
    weights, recurrent, (first, forget, out) = operands[:4], operands[4:8], operands[8:11]
    biases, (projection, projection_bias), (h, c) = operands[11:15], operands[15:17], operands[17:19]
    activate = _ACTIVATIONS.get(options["fused_activation_function"])
    there = [i for i, w in enumerate(weights) if w is not None]
    matrices = [np.concatenate([a[i] for i in there]) for a in (weights, recurrent, biases) if _are_arrays(a, there)]
    if activate is None or any(a is not None for a in operands[19:]) or len(matrices) < 3:
        return None
    if in_loop and not _are_arrays(operands, [i for i in range(17) if operands[i] is not None]):
        return None
    is_diagonal = matrices[1].ndim == 1

    def from_before(h: Array) -> Array:
        """What the output before adds to the gates, side by side."""
        if is_diagonal:
            return ops.concatenation(*(ops.mul(h, recurrent[i]) for i in there), axis=1)
        return ops.fully_connected(h, matrices[1], None)

    def step(entering: Array, h: Array, c: Array) -> tuple[Array, ...]:
        total = ops.add(entering, from_before(h))
        totals = dict(zip(there, ops.split(np.int32(1), total, num_splits=len(there)), strict=True))

        def gate(place: int, peephole: Array | None) -> Array:
            return ops.logistic(totals[place] if peephole is None else ops.add(totals[place], ops.mul(c, peephole)))

        kept = gate(1, forget)
        admitted = gate(0, first) if 0 in totals else ops.sub(np.float32(1), kept)
        c = _clipped(ops.add(ops.mul(kept, c), ops.mul(admitted, activate(totals[2]))), options["cell_clip"])
        h = ops.mul(gate(3, out), activate(c))
        if projection is not None:
            h = _clipped(ops.fully_connected(h, projection, projection_bias), options["proj_clip"])
        return h, c

    return _over_steps(step, (x, matrices[0], matrices[2]), (h, c), time_major, in_loop)


def steps_of_svdf(
    x: Array,
    features: Array,
    times: Array,
    bias: Array | None,
    state: Array,
    *,
    rank: int,
    fused_activation_function: str,
    **options: Any,
) -> tuple[Array, ...] | None:
    """An SVDF whose activation its kernel of integers does not have: the memory moves on, then a sum of products."""
    activate = _ACTIVATIONS.get(fused_activation_function)
    if activate is None or not isinstance(times, np.ndarray):
        return None
    filters, memory = times.shape
    steps = ops.reshape(state, np.array([-1, filters, memory], np.int32))
    kept = ops.strided_slice(steps, [0, 0, 1], [0, 0, 0], [1, 1, 1], begin_mask=3, end_mask=7)
    newest = ops.fully_connected(x, features, None)
    steps = ops.concatenation(kept, ops.reshape(newest, np.array([-1, filters, 1], np.int32)), axis=2)
    units = filters // rank
    by_unit = ops.reshape(ops.mul(steps, times), np.array([-1, units, rank * memory], np.int32))
    total = ops.sum_(by_unit, np.array([2], np.int32), keep_dims=False)
    y = activate(total if bias is None else ops.add(total, bias))
    return y, ops.reshape(steps, np.array([-1, filters * memory], np.int32))


def _over_steps(
    step: Step, product: tuple[Array, Array, Array], states: Sequence[Array | None], time_major: bool, in_loop: bool
) -> tuple[Array, ...] | None:
    """The results of all steps, then the states after the last; None where these are too many to be written out.

    product: the input, its weights and the bias, which are multiplied for all steps at once. in_loop: as a scan.
    """
    axis = 0 if time_major else 1
    steps = product[0].shape[axis]
    if not in_loop and not (isinstance(steps, int) and 0 < steps <= MOST_STEPS):
        return None
    products = ops.fully_connected(*product, keep_num_dims=True)
    if in_loop:
        return _scanned(step, products, states, time_major)
    found = ops.unpack(products, axis=axis)
    rows = []
    for entering in found if isinstance(found, tuple) else (found,):
        states = step(entering, *states)
        rows.append(states[0])
    return ops.pack(*rows, axis=axis), *states


def _scanned(step: Step, products: Array, states: Sequence[Array | None], time_major: bool) -> tuple[Array, ...]:
    order = np.array([1, 0, 2], np.int32)
    rows = as_atom(products if time_major else ops.transpose(products, order))
    carried = [as_atom(state) for state in states]
    types = [*(atom.type for atom in carried), TensorType(rows.type.shape[1:], rows.type.dtype)]

    def body(*values: Array) -> tuple[Array, ...]:
        after = step(values[-1], *values[:-1])
        return *after, after[0]

    options = {"consts": 0, "carries": len(carried), "length": rows.type.shape[0], "reverse": False}
    *after, ys = scan([*carried, rows], [trace_graph(body, types, "step")], **options)
    return ys if time_major else ops.transpose(ys, order), *after


def _are_arrays(operands: Sequence[Array | None], places: Sequence[int]) -> bool:
    return all(isinstance(operands[i], np.ndarray) for i in places)


def _clipped(x: Array, limit: float) -> Array:
    return x if not limit else ops.maximum(ops.minimum(x, np.float32(limit)), np.float32(-limit))


MOST_STEPS = 64  # each is half a dozen to a dozen operators of the file
_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "NONE": lambda x: x,
    "TANH": ops.tanh,
    "RELU": ops.relu,
    "RELU6": ops.relu6,
    "RELU_N1_TO_1": within(-1, 1),
}
