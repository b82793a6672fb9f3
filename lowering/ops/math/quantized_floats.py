"""Floats rounded to the steps of integers and back, symmetric about 0: TensorFlow's QuantizeAndDequantize."""

from __future__ import annotations

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import rank, scalar, static
from jfuse.lowering.rules import lowers


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
