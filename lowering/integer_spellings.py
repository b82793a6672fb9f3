"""Ops without a kernel of integers, spelled in ops that have one.

Each takes the operands and options of an equation, and returns what computes the same, or None where that has no
integers either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn, Op
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import Array
from jfuse.lowering.integer_recurrences import steps_of_lstm, steps_of_rnn, steps_of_svdf, within


def _quotient(x: Array, y: Array, *, fused_activation_function: str = "NONE") -> Array | None:
    """A product, of what is divided by a constant."""
    if not isinstance(y, np.ndarray) or not np.all(y):
        return None
    reciprocal = np.reciprocal(y.astype(np.float64)).astype(y.dtype)
    if not np.isfinite(reciprocal).all():
        return None
    return ops.mul(x, reciprocal, fused_activation_function=fused_activation_function)


def _ones_where(x: Array, *, out_data_type: DType) -> Array | None:
    """A choice between 1 and 0, of truth values that become numbers."""
    if x.dtype != np.bool_ or out_data_type is not DType.f32:
        return None
    return ops.select_v2(x, np.float32(1), np.float32(0))


def _squared_difference(x: Array, y: Array) -> Array:
    difference = ops.sub(x, y)
    return ops.mul(difference, difference)


def _sum(x: Array, axes: Array, *, keep_dims: bool) -> Array | None:
    """The mean, as often as there are elements."""
    if not isinstance(axes, np.ndarray):
        return None
    sizes = [x.shape[axis] for axis in dict.fromkeys(axes_from_front(tuple(np.ravel(axes).tolist()), len(x.shape)))]
    if not all(map(is_known, sizes)):
        return None
    count = math.prod(map(int, sizes))
    return ops.mul(ops.mean(x, axes, keep_dims=keep_dims), np.float32(count))


def _depth_to_space(x: Array, *, block_size: int) -> Array | None:
    """The rows of a block, which stand side by side, below each other."""
    if not all(map(is_known, x.shape[1:])):
        return None
    height, width, channels = map(int, x.shape[1:])
    deep = channels // block_size**2
    rows = ops.reshape(x, np.array([-1, width, block_size, block_size * deep], np.int32))
    below = ops.transpose(rows, np.array([0, 2, 1, 3], np.int32))
    return ops.reshape(below, np.array([-1, height * block_size, width * block_size, deep], np.int32))


def _space_to_depth(x: Array, *, block_size: int) -> Array | None:
    """The rows of a block, which stand below each other, side by side."""
    if not all(map(is_known, x.shape[1:])):
        return None
    height, width, channels = (int(n) for n in x.shape[1:])
    wide, deep = width // block_size, block_size * channels
    rows = ops.reshape(x, np.array([-1, block_size, wide, deep], np.int32))
    beside = ops.transpose(rows, np.array([0, 2, 1, 3], np.int32))
    return ops.reshape(beside, np.array([-1, height // block_size, wide, block_size * deep], np.int32))


def _elu(x: Array) -> Array:
    return ops.add(ops.relu(x), ops.sub(ops.exp(ops.minimum(x, np.float32(0))), np.float32(1)))


def _prelu(x: Array, alpha: Array) -> Array:
    return ops.sub(ops.relu(x), ops.mul(ops.relu(ops.mul(x, np.float32(-1))), alpha))


def _hard_swish(x: Array) -> Array:
    """x * (1 + g) / 2, where g is x / 3, cut off at -1 and 1.

    LiteRT's kernel of 16 bits adds a constant much more slowly than another tensor, and multiplies both alike.
    """
    gate = ops.mul(x, np.float32(1 / 3), fused_activation_function="RELU_N1_TO_1")
    return ops.mul(ops.add(x, ops.mul(x, gate)), np.float32(0.5))


def _gelu(x: Array, *, approximate: bool) -> Array:
    """relu(x) - |x| * Phi(-|x|), with the normal distribution as LOGISTIC of an odd polynomial.

    What is taken off is 0.17 at most, so that its steps are finer than those of the result: in 8 bits the error is less
    than one of these. The polynomial is the tanh form's own, or that which errs least against the exact form: 2.7e-4.
    """
    first, third = (2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715)
    if not approximate:
        first, third = 1.60031416, 0.06940179
    size = ops.minimum(ops.maximum(x, ops.mul(x, np.float32(-1))), np.float32(_END_OF_GELU))
    slope = ops.add(ops.mul(ops.mul(size, size), np.float32(-third)), np.float32(-first))
    taken_off = ops.mul(size, ops.logistic(ops.mul(size, slope)))
    return ops.sub(ops.relu(x), taken_off)


_END_OF_GELU = 4.0  # 4 * Phi(-4) is 1.3e-4, less than the polynomial errs


def _two_directions(x: Array, *operands: Array | None, merge_outputs: bool, **options: Any) -> tuple[Array, ...] | None:
    """An LSTM for each direction; the backward one gets its input in the other order, and so does what it gives."""
    forward, backward, states, aux = operands[:17], operands[17:34], operands[34:38], operands[38:]
    if any(a is not None for a in aux[1:]) or options["fused_activation_function"] != "TANH" or options["proj_clip"]:
        return None
    time_axis = [0 if options["time_major"] else 1]
    read = ops.reverse_v2(x if not aux or aux[0] is None else aux[0], time_axis)
    y, *ends = ops.unidirectional_sequence_lstm(x, *forward, *states[:2], **options)
    z, *others = ops.unidirectional_sequence_lstm(read, *backward, *states[2:], **options)
    outputs = y, ops.reverse_v2(z, time_axis)
    return *((ops.concatenation(*outputs, axis=2),) if merge_outputs else outputs), *ends, *others


def spells_zeros(eqn: Eqn) -> bool:
    """Whether an equation is what ZEROS_LIKE is spelled as, which reads the shape of its operand alone."""
    return eqn.op is ops.sub and eqn.inputs[0] is eqn.inputs[1]


SPELLINGS: Mapping[Op, Callable[..., Any]] = {
    ops.square: lambda x: ops.mul(x, x),
    ops.zeros_like: lambda x: ops.sub(x, x),
    ops.neg: lambda x: ops.mul(x, np.float32(-1)),
    ops.cast: _ones_where,
    ops.div: _quotient,
    ops.depth_to_space: _depth_to_space,
    ops.space_to_depth: _space_to_depth,
    ops.gelu: _gelu,
    ops.elu: _elu,
    ops.prelu: _prelu,
    ops.relu6: within(0, 6),
    ops.relu_0_to_1: within(0, 1),
    ops.relu_n1_to_1: within(-1, 1),
    ops.sum_: _sum,
    ops.squared_difference: _squared_difference,
    ops.hard_swish: _hard_swish,
    ops.bidirectional_sequence_lstm: _two_directions,
    ops.unidirectional_sequence_lstm: steps_of_lstm,
    ops.unidirectional_sequence_rnn: steps_of_rnn,
    ops.svdf: steps_of_svdf,
}


FASTER: Mapping[Op, Callable[..., Any]] = {
    ops.relu: lambda x: ops.maximum(x, np.float32(0)),
    ops.abs_: lambda x: ops.maximum(x, ops.mul(x, np.float32(-1))),
    ops.prelu: _prelu,
    ops.hard_swish: _hard_swish,
}
"""In 8 bits on processors: XNNPACK lacks these, and LiteRT's own kernels go from number to number, in 5 to 10 times the
time of the operators that they are spelled in (LiteRT 2.3.0, 48 x 48 x 24: 500 to 1,000 us)."""


def _quotient_by_roots(x: Array, y: Array, *, fused_activation_function: str = "NONE") -> Array:
    """x * RSQRT(y)^2, of what is positive: the root spreads the divisors of a wide range over more steps."""
    root = ops.rsqrt(y)
    return ops.mul(ops.mul(x, root), root, fused_activation_function=fused_activation_function)


def _refined_rsqrt(x: Array) -> Array:
    """RSQRT in fewer bits, and two steps of Newton's method, of which each leaves 1.5 e^2 of a relative error e.

    8 bits know x to half a step, which is a fifth of what is 1/100 of the greatest x: an e of 0.1, then 0.015 and 3e-4.
    Calibration in floats sees no such errors: x * y^2 is 1 there, and needs room.
    """
    y = ops.rsqrt(x)
    for _ in range(2):
        square = _with_room(ops.mul(ops.mul(x, y), y), 2.0)
        y = ops.mul(ops.mul(y, _with_room(ops.sub(np.float32(3), square), 4.0)), np.float32(0.5))
    return y


def _with_room(x: Array, end: float) -> Array:
    """x, whose integers of 16 bits reach so far on either side of 0."""
    return ops.fake_quant(x, min=-end, max=end, num_bits=16, narrow_range=True)


LOOPS: Mapping[Op, Callable[..., Any]] = {
    ops.unidirectional_sequence_lstm: partial(steps_of_lstm, in_loop=True),
    ops.unidirectional_sequence_rnn: partial(steps_of_rnn, in_loop=True),
}
"""As scans, for recurrences of more steps than are written out, or of an open number of them."""
RECURRENCES = frozenset({*LOOPS, ops.bidirectional_sequence_lstm})
"""Whose steps are written out in integers, or run in loops."""
COARSE_SPELLINGS: Mapping[Op, Callable[..., Any]] = {
    ops.div: _quotient_by_roots,
    ops.sqrt: lambda x: ops.mul(x, ops.rsqrt(x)),
}
"""Where floats are not allowed: floats between integers would be nearer, and cost less than all that these do."""
REFINED: Mapping[Op, Callable[..., Any]] = {ops.rsqrt: _refined_rsqrt}
"""Where an op has a kernel for 8 bits alone: what makes 16 bits of its answer."""


def spelled_in_integers(eqn: Eqn, spellings: Mapping[Op, Callable[..., Any]] = SPELLINGS) -> Sequence[Any] | None:
    """The results of an equation in ops that have a kernel of integers, recorded in the active trace; None if none."""
    spelling = spellings.get(eqn.op)
    if spelling is None:
        return None
    result = spelling(*(a.array if isinstance(a, Const) else a for a in eqn.inputs), **eqn.params)
    return result if result is None or isinstance(result, tuple) else [result]
