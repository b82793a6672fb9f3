"""Trigonometric and hyperbolic functions and their inverses, most of which TFLite lacks.

Spelled so that nothing cancels and nothing overflows on the way; errors are in units of the last place (ulp).
"""

from __future__ import annotations

import math

from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.elementwise import alike, lower_log1p
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.query import one_like, scalar
from jfuse.lowering.rules import lowers

_LARGE = 1e4  # beyond it, log(2 * x) is asinh(x) and acosh(x) in f32; 2 * x would overflow

alike("Atan2", ops.atan2)


@lowers("Tan")
@in_f32
def lower_tan(x: Array) -> Array:
    """sin(x) / cos(x).   x: f[...] -> f[...]; 3 ulp"""
    return ops.div(ops.sin(x), ops.cos(x))


@lowers("Atan")
@in_f32
def lower_atan(x: Array) -> Array:
    """The angle of the point (1, x).   x: f[...] -> f[...]; 1 ulp"""
    return ops.atan2(x, one_like(x))


@lowers("Asin")
@in_f32
def lower_asin(x: Array) -> Array:
    """The angle of the point (sqrt(1 - x**2), x) of the unit circle.   x: f[...] -> f[...]; 3 ulp"""
    return ops.atan2(x, _other_leg(x))


@lowers("Acos")
@in_f32
def lower_acos(x: Array) -> Array:
    """The angle of the point (x, sqrt(1 - x**2)) of the unit circle.   x: f[...] -> f[...]; 3 ulp"""
    return ops.atan2(_other_leg(x), x)


def _other_leg(x: Array) -> Array:
    """sqrt((1 - x) * (1 + x)): 1 - x**2 would lose digits beside 1.   x: f[...] -> f[...]"""
    one = one_like(x)
    return ops.sqrt(ops.mul(ops.sub(one, x), ops.add(one, x)))


@lowers("Sinh")
@in_f32
def lower_sinh(x: Array) -> Array:
    """tanh(x / 2) * (cosh(x) + 1).   x: f[...] -> f[...]; 6 ulp"""
    half = ops.mul(x, scalar(0.5, x))
    return ops.mul(ops.tanh(half), ops.add(_cosh_of_twice(half), one_like(x)))


@lowers("Cosh")
@in_f32
def lower_cosh(x: Array) -> Array:
    """(exp(x) + exp(-x)) / 2.   x: f[...] -> f[...]; 4 ulp"""
    return _cosh_of_twice(ops.mul(x, scalar(0.5, x)))


def _cosh_of_twice(x: Array) -> Array:
    """p + 1 / (4 * p) with p = exp(2 * |x|) / 2, as exp(|x|) * exp(|x|) / 2, which overflows no sooner than cosh."""
    power = ops.exp(ops.abs_(x))
    product = ops.mul(power, ops.mul(power, scalar(0.5, x)))
    return ops.add(product, ops.div(scalar(0.25, x), product))


@lowers("Asinh")
@in_f32
def lower_asinh(x: Array) -> Array:
    """log1p(s + s / (1 / s + sqrt(1 / s**2 + 1))) with s = |x|, and the sign of x.   x: f[...] -> f[...]; 5 ulp"""
    size = ops.abs_(x)
    inverse = ops.div(one_like(x), size)
    root = ops.sqrt(ops.add(ops.mul(inverse, inverse), one_like(x)))
    rest = ops.add(size, ops.div(size, ops.add(inverse, root)))
    return ops.mul(ops.sign(x), _log1p_or_log_of_twice(rest, size))


@lowers("Acosh")
@in_f32
def lower_acosh(x: Array) -> Array:
    """log1p(t + sqrt(t) * sqrt(t + 2)) with t = x - 1.   x: f[...] -> f[...]; 5 ulp"""
    rest = ops.sub(x, one_like(x))
    root = ops.mul(ops.sqrt(rest), ops.sqrt(ops.add(rest, scalar(2, x))))
    return _log1p_or_log_of_twice(ops.add(rest, root), x)


def _log1p_or_log_of_twice(small: Array, large: Array) -> Array:
    """log(1 + small), or log(2 * large) where that is the same and `small` may have overflowed."""
    limit = scalar(_LARGE, large)
    twice = ops.add(ops.log(large), scalar(math.log(2), large))
    return ops.select_v2(ops.greater(large, limit), twice, lower_log1p(small))


@lowers("Atanh")
@in_f32
def lower_atanh(x: Array) -> Array:
    """log1p(2 * s / (1 - s)) / 2 with s = |x|, and the sign of x.   x: f[...] -> f[...]; 5 ulp"""
    size = ops.abs_(x)
    ratio = ops.div(ops.add(size, size), ops.sub(one_like(x), size))
    return ops.mul(ops.mul(ops.sign(x), scalar(0.5, x)), lower_log1p(ratio))
