"""Values as a quantized tensor could hold them: FAKE_QUANT, or its arithmetic where that has no single known range."""

from __future__ import annotations

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import is_constant, rank, scalar, static
from jfuse.lowering.rules import lowers


@lowers("FakeQuantWithMinMaxArgs")
def lower_fake_quant_args(
    inputs: Array,
    *,
    min: float = -6.0,  # noqa: A002 - the attribute's name
    max: float = 6.0,  # noqa: A002 - the attribute's name
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Array:
    """As with the range as operands."""
    bounds = (scalar(min, inputs), scalar(max, inputs))
    return lower_fake_quant_vars(inputs, *bounds, num_bits=num_bits, narrow_range=narrow_range)


@lowers("FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxVarsPerChannel")
def lower_fake_quant_vars(
    inputs: Array,
    min: Array,  # noqa: A002 - the operand's name
    max: Array,  # noqa: A002 - the operand's name
    *,
    num_bits: int = 8,
    narrow_range: bool = False,
) -> Array:
    """FAKE_QUANT of one range that is known and not empty; else the same arithmetic, along the last axis of x."""
    is_known = rank(min) == 0 and is_constant(min) and is_constant(max)
    if is_known and min < max:
        options = {"narrow_range": True} if narrow_range else {}
        return ops.fake_quant(inputs, min=float(min), max=float(max), num_bits=num_bits, **options)
    step, low, high, zero = _nudged(min, max, int(narrow_range), 2**num_bits - 1)
    # A range from 0 to 0 has no steps: everything is 0 in it.
    is_range = ops.less(low, high)
    rounded = _rounded(inputs, step, low, high, zero)
    return ops.select_v2(is_range, rounded, scalar(0, rounded))


def in_arithmetic(
    inputs: Array,
    *,
    min: float,  # noqa: A002 - the schema's name
    max: float,  # noqa: A002 - the schema's name
    num_bits: int,
    narrow_range: bool,
) -> Array:
    """FAKE_QUANT of a narrow range in other operators: it has an option for it, which its kernel refuses."""
    bounds = (scalar(min, inputs), scalar(max, inputs))
    return _rounded(inputs, *_nudged(*bounds, int(narrow_range), 2**num_bits - 1))


def cut(x: Array, low: float | None, high: float | None) -> Array:
    """Clip x to a range; an end may be open."""
    x = x if low is None else ops.maximum(x, scalar(low, x))
    return x if high is None else ops.minimum(x, scalar(high, x))


def is_never_negative(activation: str) -> bool:
    """Whether an activation, as a builtin or as an option of one, gives no negative numbers."""
    return activation in ("RELU", "RELU6", "RELU_0_TO_1", "LOGISTIC", "SOFTMAX")


def _rounded(inputs: Array, step: Array, low: Array, high: Array, zero: Array) -> Array:
    """The nearest of the steps within the range."""
    cut = ops.minimum(ops.maximum(inputs, low), high)
    steps = ops.sub(ops.mul(ops.sub(cut, low), ops.div(scalar(1, step), step)), zero)
    return ops.mul(ops.floor(ops.add(steps, scalar(0.5, steps))), step)


def _nudged(low: Array, high: Array, first: int, last: int) -> tuple[Array, Array, Array, Array]:
    """The step, the range moved so that 0 is one of the steps, and which of them that is, from the least on."""
    step = ops.div(ops.sub(high, low), scalar(last - first, low))
    zero = ops.sub(scalar(first, low), ops.div(low, step))
    cut = ops.minimum(ops.maximum(zero, scalar(first, low)), scalar(last, low))
    zero = ops.floor(ops.add(cut, scalar(0.5, low)))
    return (
        step,
        ops.mul(ops.sub(scalar(first, low), zero), step),
        ops.mul(ops.sub(scalar(last, low), zero), step),
        ops.sub(zero, scalar(first, low)),
    )


# Floats rounded to the steps of integers and back, symmetric about 0: TensorFlow's QuantizeAndDequantize.


@lowers("QuantizeAndDequantizeV2", "QuantizeAndDequantizeV4")
def lower_quantize_and_dequantize(
    x: Array,
    low: Array,
    high: Array,
    *,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    narrow_range: bool = False,
    axis: int = -1,
) -> Array:
    """x times a scale, rounded, over the scale; in constants where the range is one.

    x: f[...]; low, high: f[], the range; where none is given it is that of x, for each place along the axis.
    """
    if not range_given:
        low, high = _range_of(x, axis)
    first = -(1 << (num_bits - 1)) + narrow_range if signed_input else 0
    last = (1 << (num_bits - signed_input)) - 1
    scale, step = _fit(low, high, first, last)
    cut = ops.minimum(ops.maximum(x, ops.mul(step, scalar(first, x))), ops.mul(step, scalar(last, x)))
    steps = ops.mul(cut, scale)
    is_even = round_mode == "HALF_TO_EVEN"
    return ops.mul(ops.round_(steps) if is_even else ops.floor(ops.add(steps, scalar(0.5, x))), step)


@lowers("QuantizeAndDequantizeV3")
def lower_quantize_and_dequantize_v3(
    x: Array,
    low: Array,
    high: Array,
    num_bits: Array,
    *,
    signed_input: bool = True,
    range_given: bool = True,
    narrow_range: bool = False,
    axis: int = -1,
) -> Array:
    """As the others, with the number of bits as an operand, which must be a constant."""
    return lower_quantize_and_dequantize(
        x,
        low,
        high,
        signed_input=signed_input,
        num_bits=static(num_bits, "num_bits"),
        range_given=range_given,
        narrow_range=narrow_range,
        axis=axis,
    )


def _range_of(x: Array, axis: int) -> tuple[Array, Array]:
    axes = np.array([i for i in range(rank(x)) if i != axis], np.int32)
    return ops.reduce_min(x, axes, keep_dims=axis >= 0), ops.reduce_max(x, axes, keep_dims=axis >= 0)


def _fit(low: Array, high: Array, first: int, last: int) -> tuple[Array, Array]:
    """The larger scale at which both ends fit, and the step that is its inverse.   low, high: f[...] -> f[...], f[...]

    An end on the wrong side of 0 fits at any scale.
    """
    zero, largest = scalar(0, low), np.finfo(np.float32).max.astype(low.dtype)
    scales = []
    for end, count in ((low, first), (high, last)):
        count_of = scalar(count, end)
        fits = ops.greater(ops.mul(end, count_of), zero)
        scales.append(ops.select_v2(fits, ops.div(count_of, end), largest))
    by_low = ops.less(*scales)
    steps = (ops.div(low, scalar(first, low)) if first else zero, ops.div(high, scalar(last, high)))
    return ops.minimum(*scales), ops.select_v2(by_low, *steps)
