"""The logarithm of the gamma function and its derivative, which TFLite lacks, to f32's last digits."""

from __future__ import annotations

import math

import numpy as np

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.special import need_f32, polynomial
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.query import one_like, scalar
from jfuse.lowering.rules import lowers

# lgamma(x) / ((x - 1) * (x - 2)) over x - 2 from -1 to 1: interpolated at Chebyshev's points, to 7e-9.
_NEAR_TWO = (
    1.8091516e-05,
    -3.8580478e-05,
    2.3881601e-05,
    -5.2839725e-05,
    1.9173969e-04,
    -4.2515414e-04,
    9.1259449e-04,
    -2.1022423e-03,
    4.9989959e-03,
    -1.2384944e-02,
    3.2964990e-02,
    -1.0031728e-01,
    4.2278433e-01,
)
# Stirling's series over 1 / x squared: B(2n) / (2n * (2n - 1)), and of the derivative B(2n) / 2n.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)
_STIRLING_DERIVED = (1 / 240, -1 / 252, 1 / 120, -1 / 12)
_SHIFT = 6  # from there on the derivative's series is right to 1e-9


@lowers("Lgamma")
@in_f32
def lower_lgamma(x: Array) -> Array:
    """log(|gamma(x)|).   x: f32|f16|bf16[...] -> the same type; 1e-6 of the larger of 1 and the value

    A polynomial from 1 to 3, Stirling's series beyond, one step of the recurrence below 1, a reflection below 0.
    """
    need_f32("lgamma", x)
    zero, one = scalar(0, x), one_like(x)
    is_negative = ops.less(x, zero)
    size = ops.select_v2(is_negative, ops.sub(one, x), x)
    is_small = ops.less(size, one)
    shifted = ops.select_v2(is_small, ops.add(size, one), size)
    value = ops.select_v2(ops.less(shifted, scalar(3, x)), _near_two(shifted), _stirling(shifted))
    value = ops.select_v2(is_small, ops.sub(value, ops.log(size)), value)
    sine, _ = _sine_and_cosine(x)
    reflected = ops.sub(scalar(math.log(math.pi), x), ops.add(ops.log(ops.abs_(sine)), value))
    return ops.select_v2(is_negative, reflected, value)


def _near_two(x: Array) -> Array:
    from_two = ops.minimum(ops.sub(x, scalar(2, x)), one_like(x))
    return ops.mul(ops.mul(ops.add(from_two, one_like(x)), from_two), polynomial(from_two, _NEAR_TWO))


def _stirling(x: Array) -> Array:
    """(x - 1/2) * (log(x) - 1) + log(2 * pi) / 2 - 1/2 + series / x.   x: f32[...], 3 or more"""
    inverse = ops.div(one_like(x), ops.maximum(x, scalar(3, x)))
    series = ops.mul(polynomial(ops.mul(inverse, inverse), _STIRLING), inverse)
    main = ops.mul(ops.sub(x, scalar(0.5, x)), ops.sub(ops.log(x), one_like(x)))
    return ops.add(main, ops.add(series, scalar(0.5 * math.log(2 * math.pi) - 0.5, x)))


def _sine_and_cosine(x: Array) -> tuple[Array, Array]:
    """sin and cos of pi * x, up to a sign that they share, from x less the nearest integer."""
    angle = ops.mul(ops.sub(x, ops.round_(x)), scalar(math.pi, x))
    return ops.sin(angle), ops.cos(angle)


@lowers("Digamma")
@in_f32
def lower_digamma(x: Array) -> Array:
    """The derivative of log(gamma(x)).   x: f32|f16|bf16[...] -> the same type; 1e-6 of the larger of 1 and the value

    An asymptotic series six steps of the recurrence further, a reflection up to 0.
    """
    need_f32("digamma", x)
    is_negative = ops.less_equal(x, scalar(0, x))
    size = ops.select_v2(is_negative, ops.sub(one_like(x), x), x)
    far = ops.add(size, scalar(_SHIFT, x))
    inverse = ops.div(one_like(x), far)
    square = ops.mul(inverse, inverse)
    value = ops.sub(ops.log(far), ops.mul(inverse, scalar(0.5, x)))
    value = ops.add(value, ops.mul(polynomial(square, _STIRLING_DERIVED), square))
    for step in range(_SHIFT):
        value = ops.sub(value, ops.div(one_like(x), ops.add(size, scalar(step, x)) if step else size))
    sine, cosine = _sine_and_cosine(x)
    reflected = ops.sub(value, ops.div(ops.mul(cosine, np.float32(math.pi)), sine))
    return ops.select_v2(is_negative, reflected, value)
