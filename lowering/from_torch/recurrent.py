"""Whole recurrent layers: a scan for each layer and direction, which recurrences are recovered from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.creation import lower_arange
from jfuse.lowering.from_torch.products import lower_linear
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import lower_select, lower_stack, lower_transpose
from jfuse.lowering.rule_tools.query import scalar
from jfuse.lowering.rule_tools.steps import scanned
from jfuse.lowering.rules import lowers_torch

Step = Callable[["DirectionWeights", Array, Sequence[Array]], tuple[Array, ...]]


@dataclass(frozen=True)
class DirectionWeights:
    """The weights of one direction of a layer, gates along the first axis; None for those that it does not have."""

    entering: Array
    recurrent: Array
    entering_bias: Array | None = None
    recurrent_bias: Array | None = None
    projection: Array | None = None

    def all(self) -> tuple[Array | None, ...]:
        """In the order of the fields."""
        return (self.entering, self.recurrent, self.entering_bias, self.recurrent_bias, self.projection)

    @property
    def bias(self) -> Array | None:
        """The sum of both biases."""
        if self.entering_bias is None or self.recurrent_bias is None:
            return self.entering_bias
        return ops.add(self.entering_bias, self.recurrent_bias)

    def sums(self, x: Array, h: Array) -> Array:
        """Compute the sums that enter the gates."""
        return ops.add(lower_linear(x, self.entering, self.bias), lower_linear(h, self.recurrent))


def _lstm_step(weights: DirectionWeights, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    h, c = states
    i, f, g, o = ops.split(np.int32(1), weights.sums(x, h), num_splits=4)
    c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
    h = ops.mul(ops.logistic(o), ops.tanh(c))
    return (h if weights.projection is None else lower_linear(h, weights.projection)), c


def _gru_step(weights: DirectionWeights, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    (h,) = states
    r, z, n = ops.split(np.int32(1), lower_linear(x, weights.entering, weights.entering_bias), num_splits=3)
    r_h, z_h, n_h = ops.split(np.int32(1), lower_linear(h, weights.recurrent, weights.recurrent_bias), num_splits=3)
    reset, update = ops.logistic(ops.add(r, r_h)), ops.logistic(ops.add(z, z_h))
    new = ops.tanh(ops.add(n, ops.mul(reset, n_h)))
    return (ops.add(ops.mul(ops.sub(scalar(1, h), update), new), ops.mul(update, h)),)


def _tanh_step(weights: DirectionWeights, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    return (ops.tanh(weights.sums(x, states[0])),)


def _relu_step(weights: DirectionWeights, x: Array, states: Sequence[Array]) -> tuple[Array, ...]:
    return (ops.relu(weights.sums(x, states[0])),)


def _layer(name: str, step: Step) -> None:
    def lower(
        x: Array,
        states: Sequence[Array],
        weights: Sequence[Array],
        biases: bool,
        layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
        lengths: Array | None = None,
    ) -> tuple[Array, ...]:
        rows = lower_transpose(x, 0, 1) if batch_first else x
        counts = None if lengths is None else _counts(rows, lengths)
        directions = 2 if bidirectional else 1
        size = len(weights) // (layers * directions)
        finals: list[tuple[Array, ...]] = []
        for layer in range(layers):
            results = []
            for direction in range(directions):
                number = layer * directions + direction
                weights_of_layer = _weights(weights[number * size : (number + 1) * size], biases)
                first = [lower_select(state, 0, number) for state in states]
                *last, ys = _steps(step, weights_of_layer, rows, first, counts, reverse=direction == 1)
                results.append(ys)
                finals.append(tuple(last))
            rows = results[0] if directions == 1 else ops.concatenation(*results, axis=2)
        ends = [lower_stack(list(column)) for column in zip(*finals, strict=True)]
        return (lower_transpose(rows, 0, 1) if batch_first else rows, *ends)

    lower.__doc__ = f"""torch.nn's {name}: a scan for each layer and direction.

    x: f[t, b, i], or f[b, t, i]; states: f[layers * directions, b, units] each; weights: as the layer keeps them;
    lengths: i64[b], how many steps count. -> the outputs of the last layer, zero where no step counts, and each state
    after the last step that does
    """
    lowers_torch(f"jfuse.{name}")(lower)


for _name, _step in {"lstm": _lstm_step, "gru": _gru_step, "rnn_tanh": _tanh_step, "rnn_relu": _relu_step}.items():
    _layer(_name, _step)


def _cell(name: str, step: Step) -> None:
    def lower(
        x: Array,
        states: Any,
        entering: Array,
        recurrent: Array,
        entering_bias: Array | None = None,
        recurrent_bias: Array | None = None,
    ) -> Any:
        before = list(states) if isinstance(states, list | tuple) else [states]
        after = step(DirectionWeights(entering, recurrent, entering_bias, recurrent_bias), x, before)
        return after if len(after) > 1 else after[0]

    lower.__doc__ = f"One step of torch.nn's {name}.   x: f[b, i], states: f[b, units] each -> each state after it"
    lowers_torch(f"aten.{name}")(lower)


_cell("lstm_cell", _lstm_step)
_cell("gru_cell", _gru_step)
_cell("rnn_tanh_cell", _tanh_step)
_cell("rnn_relu_cell", _relu_step)


def _weights(gate_weights: Sequence[Array], biases: bool) -> DirectionWeights:
    entering, recurrent, *rest = gate_weights
    first, second = rest[:2] if biases else (None, None)
    projection = rest[2 if biases else 0 :]
    return DirectionWeights(entering, recurrent, first, second, projection[0] if projection else None)


def _counts(x: Array, lengths: Array) -> Array:
    """Which steps count.   x: f[t, b, i], lengths: i64[b] -> bool[t, b]"""
    steps = lower_arange(x.shape[0], dtype=DType.i32)
    return ops.less(ops.expand_dims(steps, np.int32(1)), ops.expand_dims(as_type(lengths, DType.i32), np.int32(0)))


def _steps(
    step: Step, weights: DirectionWeights, x: Array, states: Sequence[Array], counts: Array | None, *, reverse: bool
) -> tuple[Any, ...]:
    """The states after the last step, and what each step gives: its first state.   x: f[t, b, i], counts: bool[t, b]

    A step that does not count leaves the states as they are and gives zeros.
    """

    def body(held: Sequence[Any], before: Sequence[Array], step_inputs: Sequence[Array]) -> tuple[Array, ...]:
        row, *counting = step_inputs
        after = step(DirectionWeights(*held), row, before)
        if not counting:
            return (*after, after[0])
        count = ops.expand_dims(counting[0], np.int32(1))
        selected = (ops.select_v2(count, new, old) for new, old in zip(after, before, strict=True))
        return (*selected, ops.select_v2(count, after[0], scalar(0, after[0])))

    return scanned(body, weights.all(), states, [x] if counts is None else [x, counts], reverse=reverse)
