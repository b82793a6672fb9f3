"""Fused recurrences step by step, with states in plain tensors: in cells with the basic kernel, or in plain ops."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn, Op
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array, TflOp
from jfuse.lowering.instead.bidirectional import two_lstms, two_rnns
from jfuse.lowering.instead.registry import Spelling, operands
from jfuse.lowering.integer_recurrences import steps_of_lstm, steps_of_rnn, steps_of_svdf

_PLAIN = {"fused_activation_function": "TANH", "cell_clip": 0.0, "proj_clip": 0.0}
_WEIGHTS, _RECURRENT, _OTHERS, _BIASES, _STATES = slice(1, 5), slice(5, 9), slice(9, 12), slice(12, 16), slice(18, 20)


def in_basic_cells(eqn: Eqn) -> Sequence[Any] | None:
    """An LSTM as a scan of `basic_lstm`, or as one of it where it is a single step; None where the kernel has no such.

    That are peepholes, projections, clips, layer norms, diagonal recurrence, and another activation than TANH. Where
    the input gate is 1 minus the forget gate, it has the negated weights of that.
    """
    if eqn.op not in (ops.unidirectional_sequence_lstm, ops.lstm) or not _is_float(eqn):
        return None
    given = operands(eqn)
    x, (h, c) = given[0], given[_STATES]
    others = (*given[_OTHERS], *given[16:18], *given[20:])
    if any(a is not None for a in others) or any(eqn.params[name] != value for name, value in _PLAIN.items()):
        return None
    found = [_rows(given[part]) for part in (_WEIGHTS, _RECURRENT, _BIASES)]
    if (
        any(array is None for array in found)
        or found[1].ndim == 1
        or any(s.type.rank != 2 for s in map(as_atom, (h, c)))
    ):
        return None
    weights, bias = np.concatenate(found[:2], 1), found[2]

    def step(h: Array, c: Array, x: Array) -> tuple[Array, Array]:
        after_h, after_c, *_ = ops.basic_lstm(x, h, weights, bias, c)
        return after_h, after_c

    if eqn.op is ops.lstm:
        after_h, after_c = step(h, c, x)
        return after_h, after_h, after_c
    return _over_time(step, as_atom(x), as_atom(h), as_atom(c), eqn.params["time_major"])


def in_plain_steps(eqn: Eqn) -> Sequence[Any] | None:
    """A fused recurrence as a scan over steps of plain ops, or as another one that has such; None where there is none.

    Both directions become one each, and a single step a sequence of one.
    """
    if not _is_float(eqn):
        return None
    given = operands(eqn)
    if eqn.op in _ONE_DIRECTION:
        return _ONE_DIRECTION[eqn.op](eqn)
    if eqn.op in _SEQUENCES:
        sequence = _SEQUENCES[eqn.op]
        options = {name: value for name, value in eqn.params.items() if name in sequence.options}
        ys, *after = sequence(ops.expand_dims(given[0], np.int32(0)), *given[1:], **options, time_major=True)
        return ops.squeeze(ys, squeeze_dims=(0,)), *after
    steps = _STEPS.get(eqn.op)
    return None if steps is None else steps(*given, **eqn.params)


_ONE_DIRECTION: Mapping[Op, Spelling] = {
    ops.bidirectional_sequence_lstm: two_lstms,
    ops.bidirectional_sequence_rnn: two_rnns,
}
_SEQUENCES: Mapping[Op, TflOp] = {ops.lstm: ops.unidirectional_sequence_lstm, ops.rnn: ops.unidirectional_sequence_rnn}
_STEPS: Mapping[Op, Callable[..., Any]] = {
    ops.unidirectional_sequence_lstm: partial(steps_of_lstm, in_loop=True),
    ops.unidirectional_sequence_rnn: partial(steps_of_rnn, in_loop=True),
    ops.svdf: steps_of_svdf,
}


def _is_float(eqn: Eqn) -> bool:
    """Whether nothing of the equation is in integers, as files that were quantized have it."""
    return all(a.type.dtype.is_float for a in eqn.inputs if a is not None)


def _rows(of_gates: Sequence[Any]) -> Any:
    """The weights of all gates, one below the other, in the order of the basic kernel; None where some are computed."""
    admit, forget, cell, out = of_gates
    if any(not isinstance(a, np.ndarray) for a in (forget, cell, out)):
        return None
    admit = -forget if admit is None else admit
    return np.concatenate([admit, cell, forget, out]) if isinstance(admit, np.ndarray) else None


def _over_time(step: Any, x: Any, h: Any, c: Any, time_major: bool) -> Sequence[Any]:
    """The results of all steps, then h and c after the last."""
    order = np.array([1, 0, 2], np.int32)
    rows = x if time_major else as_atom(ops.transpose(x, order))
    types = [h.type, c.type, TensorType(rows.type.shape[1:], rows.type.dtype)]

    def body(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        after = step(h, c, x)
        return *after, after[0]

    options = {"consts": 0, "carries": 2, "length": rows.type.shape[0], "reverse": False}
    *after, ys = scan([h, c, rows], [trace_graph(body, types, "step")], **options)
    return (ys if time_major else ops.transpose(ys, order)), *after
