"""Fused recurrences: both directions as one each, and steps written out, in loops, or in basic cells."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array
from jfuse.lowering.spellings.elementwise import within
from jfuse.lowering.spellings.registry import respelled, spelling_of

MOST_STEPS = 64
"""Steps that are written out: each is half a dozen to a dozen operators of the file."""
_ACTIVATIONS: Mapping[str, Callable[[Array], Array]] = {
    "NONE": lambda x: x,
    "TANH": ops.tanh,
    "RELU": ops.relu,
    "RELU6": ops.relu6,
    "RELU_N1_TO_1": partial(within, low=-1, high=1),
}
_WEIGHTS = 17  # operands of one direction besides the sequence, the states and the layer norms
_PLAIN = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0}
Step = Callable[..., tuple[Array, ...]]
"""The input of a step, then the states before it -> the states after it, of which the first is the result."""


# Both directions.


def _options(eqn: Eqn) -> dict[str, Any]:
    """The options of one direction."""
    return {name: value for name, value in eqn.params.items() if name != "merge_outputs"}


def _time(eqn: Eqn) -> int:
    return 0 if eqn.params["time_major"] else 1


def _outputs(eqn: Eqn, forward: Array, backward: Array) -> tuple[Array, ...]:
    """The outputs of the operator, given those of both directions, each in the order in which it reads."""
    outputs = forward, ops.reverse_v2(backward, [_time(eqn)])
    return (ops.concatenation(*outputs, axis=2),) if eqn.params["merge_outputs"] else outputs


@spelling_of(ops.bidirectional_sequence_lstm, when=("target", "steps", "integers", "loop"))
def two_lstms(eqn: Eqn, x: Array, *operands: Array | None) -> tuple[Array, ...] | None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM forwards, and on the reversed sequence; an auxiliary input backwards only."""
    weights, states, aux = operands[: 2 * _WEIGHTS], operands[2 * _WEIGHTS :][:4], operands[2 * _WEIGHTS + 4 :]
    if any(a is not None for a in aux[1:]):
        return None
    y, h, c = ops.unidirectional_sequence_lstm(x, *weights[:_WEIGHTS], *states[:2], **_options(eqn))
    turned = ops.reverse_v2(x if not aux or aux[0] is None else aux[0], [_time(eqn)])
    back, *others = ops.unidirectional_sequence_lstm(turned, *weights[_WEIGHTS:], *states[2:], **_options(eqn))
    return (*_outputs(eqn, y, back), h, c, *others)


@spelling_of(ops.bidirectional_sequence_rnn, when=("target", "steps"))
def two_rnns(eqn: Eqn, x: Array, *operands: Array | None) -> tuple[Array, ...] | None:
    """UNIDIRECTIONAL_SEQUENCE_RNN forwards, and on the reversed sequence; not with an auxiliary input."""
    if any(a is not None for a in operands[8:]):
        return None
    y, h = ops.unidirectional_sequence_rnn(x, *operands[:4], **_options(eqn))
    z, other = ops.unidirectional_sequence_rnn(ops.reverse_v2(x, [_time(eqn)]), *operands[4:8], **_options(eqn))
    return (*_outputs(eqn, y, z), h, other)


# Steps in plain ops.


def in_plain_steps(eqn: Eqn) -> Sequence[Any] | None:
    """A recurrence of floats as a scan over steps of plain ops, or as another one that has such.

    Both directions become one each, and a single step a sequence of one. None where no spelling applies.
    """
    return respelled(eqn, "steps") if _is_float(eqn) else None


def _is_float(eqn: Eqn) -> bool:
    """Whether nothing of the equation is in integers, as files that were quantized have it."""
    return all(a.type.dtype.is_float for a in eqn.inputs if a is not None)


@spelling_of(ops.lstm, ops.rnn, when=("steps",))
def sequence_of_one(eqn: Eqn, x: Array, *operands: Array | None) -> tuple[Array, ...]:
    """A single step as a sequence of one."""
    sequence = ops.unidirectional_sequence_lstm if eqn.op is ops.lstm else ops.unidirectional_sequence_rnn
    options = {name: value for name, value in eqn.params.items() if name in sequence.options}
    ys, *after = sequence(ops.expand_dims(x, np.int32(0)), *operands, **options, time_major=True)
    return ops.squeeze(ys, squeeze_dims=(0,)), *after


@spelling_of(ops.unidirectional_sequence_rnn, when=("integers",))
def steps_of_rnn(
    eqn: Eqn, x: Array, weights: Array, recurrent: Array, bias: Array, h: Array, *, in_loop: bool = False
) -> tuple[Array, ...] | None:
    """A simple RNN: the products of the inputs at once, then a product and an activation for each step."""
    activate = _ACTIVATIONS.get(eqn.params["fused_activation_function"])
    if activate is None or (in_loop and not _are_arrays([recurrent], [0])):  # a step reads nothing from outside
        return None

    def step(entering: Array, h: Array) -> tuple[Array, ...]:
        return (activate(ops.add(entering, ops.fully_connected(h, recurrent, None))),)

    return _over_steps(step, (x, weights, bias), (h,), eqn.params["time_major"], in_loop)


@spelling_of(ops.unidirectional_sequence_lstm, when=("integers",))
def steps_of_lstm(eqn: Eqn, x: Array, *operands: Array | None, in_loop: bool = False) -> tuple[Array, ...] | None:
    """An LSTM without layer norms: what its kernel of integers does not compute, or not in 16 bits."""
    weights, recurrent, (first, forget, out) = operands[:4], operands[4:8], operands[8:11]
    biases, (projection, projection_bias), (h, c) = operands[11:15], operands[15:17], operands[17:19]
    options, activate = eqn.params, _ACTIVATIONS.get(eqn.params["fused_activation_function"])
    there = [i for i, w in enumerate(weights) if w is not None]
    matrices = [np.concatenate([a[i] for i in there]) for a in (weights, recurrent, biases) if _are_arrays(a, there)]
    if activate is None or any(a is not None for a in operands[19:]) or len(matrices) < 3:
        return None
    if in_loop and not _are_arrays(operands, [i for i in range(17) if operands[i] is not None]):
        return None
    is_diagonal = matrices[1].ndim == 1

    def from_before(h: Array) -> Array:
        """The share of the output before in the sums of the gates, side by side."""
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

    return _over_steps(step, (x, matrices[0], matrices[2]), (h, c), options["time_major"], in_loop)


@spelling_of(ops.svdf, when=("integers", "steps"))
def steps_of_svdf(
    eqn: Eqn, x: Array, features: Array, times: Array, bias: Array | None, state: Array
) -> tuple[Array, ...] | None:
    """An SVDF whose activation its kernel of integers does not have: the memory moves on, then a sum of products."""
    rank, activate = eqn.params["rank"], _ACTIVATIONS.get(eqn.params["fused_activation_function"])
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


for _op, _steps in ((ops.unidirectional_sequence_lstm, steps_of_lstm), (ops.unidirectional_sequence_rnn, steps_of_rnn)):
    spelling_of(_op, when=("loop", "steps"))(partial(_steps, in_loop=True))


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


# Basic cells.


@spelling_of(ops.unidirectional_sequence_lstm, ops.lstm, when=("cells",))
def in_basic_cells(eqn: Eqn, x: Array, *operands: Array | None) -> tuple[Array, ...] | None:
    """An LSTM as a scan of `basic_lstm`, or as one of it where it is a single step; None where the kernel has no such.

    That are peepholes, projections, clips, layer norms, diagonal recurrence, and another activation than TANH. Where
    the input gate is 1 minus the forget gate, it has the negated weights of that.
    """
    weights, recurrent, biases, (h, c) = operands[:4], operands[4:8], operands[11:15], operands[17:19]
    others = (*operands[8:11], *operands[15:17], *operands[19:])
    is_plain = all(eqn.params[name] == value for name, value in _PLAIN.items())
    if not (_is_float(eqn) and is_plain) or any(a is not None for a in others):
        return None
    rows = [_rows(part) for part in (weights, recurrent, biases)]
    if any(r is None for r in rows) or rows[1].ndim == 1 or any(as_atom(s).type.rank != 2 for s in (h, c)):
        return None
    matrix, bias = np.concatenate(rows[:2], 1), rows[2]

    def step(x: Array, h: Array, c: Array) -> tuple[Array, Array]:
        after_h, after_c, *_ = ops.basic_lstm(x, h, matrix, bias, c)
        return after_h, after_c

    if eqn.op is ops.lstm:
        after_h, after_c = step(x, h, c)
        return after_h, after_h, after_c
    return _scanned(step, x, (h, c), eqn.params["time_major"])


def _rows(of_gates: Sequence[Any]) -> Any:
    """The weights of all gates, one below the other, in the order of the basic kernel; None where some are computed."""
    admit, forget, cell, out = of_gates
    if any(not isinstance(a, np.ndarray) for a in (forget, cell, out)):
        return None
    admit = -forget if admit is None else admit
    return np.concatenate([admit, cell, forget, out]) if isinstance(admit, np.ndarray) else None
