"""Quotients and remainders, of floats and of integers rounded down or toward zero; and powers.

The smallest integer over -1 is itself in TensorFlow. In the runtime FLOOR_MOD of these two ends the process, DIV and
FLOOR_DIV give the largest integer (LiteRT 2.3.0): their answers are not taken where the divisor is -1.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.core.op import static_value as known_value
from jfuse.lowering.rule_tools.open_broadcast import agreeing
from jfuse.lowering.rule_tools.query import dtype, is_constant, one_like, rank, scalar, type_of
from jfuse.lowering.rules import lowers

Binary = Callable[[Array, Array], Array]


def _in_i64(function: Binary) -> Binary:
    """The function, which is for i64, of u32 as well."""

    @wraps(function)
    def call(x: Array, y: Array) -> Array:
        if dtype(x) is not DType.u32:
            return function(x, y)
        wide = function(*(ops.cast(v, out_data_type=DType.i64) for v in (x, y)))
        return ops.cast(wide, out_data_type=DType.u32)

    return call


@lowers("TruncateDiv")
def lower_truncate_div(x: Array, y: Array) -> Array:
    """The quotient rounded toward zero, of floats too."""
    quotient = lower_div(x, y)
    return ops.mul(ops.sign(quotient), ops.floor(ops.abs_(quotient))) if dtype(x).is_float else quotient


@lowers("RealDiv", "Div")
@_in_i64
def lower_div(x: Array, y: Array) -> Array:
    """DIV, and NEG where an integer is divided by -1. It has no i64: there x, less its remainder, is divided."""
    if dtype(x) is DType.i64:
        return _exact_quotient(ops.sub(x, _remainder(x, y)[0]), y)
    return _negated_by_minus_one(ops.div, x, y)


def _negated_by_minus_one(divide: Binary, x: Array, y: Array) -> Array:
    """The quotient, and -x where an integer is divided by -1."""
    quotient = divide(x, y)
    return ops.select_v2(_is_minus_one(y), ops.neg(x), quotient) if _can_be_minus_one(y) else quotient


def _can_be_minus_one(y: Array) -> bool:
    """Whether a divisor is a signed integer that may be -1, as far as is known; sizes are at least 0."""
    if not dtype(y).is_integer or np.iinfo(dtype(y).numpy).min == 0:
        return False
    return bool((y == -1).any()) if is_constant(y) else known_value(y) is None


def _is_minus_one(y: Array) -> Array:
    return ops.equal(y, scalar(-1, y))


def floor_mod(x: Array, y: Array) -> Array:
    """FLOOR_MOD, never by -1.   x, y: number[...], broadcast -> number[...]"""
    x, y = agreeing(x, y)
    return ops.floor_mod(x, _remainder_divisor(y) if dtype(y) in (DType.i32, DType.i64) else y)


def _remainder_divisor(y: Array) -> Array:
    """1 instead of -1, which leaves the remainders as they are."""
    return ops.select_v2(_is_minus_one(y), one_like(y), y) if _can_be_minus_one(y) else y


@lowers("FloorDiv")
@_in_i64
def floor_div(x: Array, y: Array) -> Array:
    """FLOOR_DIV of integers; it has no i64: there x, less its remainder, is divided.

    Where y could be -2**63, the truncated quotient is, and 1 is taken from it where it is above: others may wrap.
    Of floats FLOOR and DIV: FLOOR_DIV's quotient is in double, TensorFlow's is not.
    """
    if dtype(x).is_float:
        return ops.floor(ops.div(x, y))
    if dtype(x) is not DType.i64:
        return _negated_by_minus_one(ops.floor_div, x, y)
    if is_constant(y) and (y != np.iinfo(np.int64).min).all():
        return _exact_quotient(ops.sub(x, floor_mod(x, y)), y, near=x)
    remainder, is_above = _remainder(x, y)
    return ops.sub(_exact_quotient(ops.sub(x, remainder), y), ops.cast(is_above, out_data_type=DType.i64))


lowers("FloorMod")(floor_mod)


@lowers("Mod", "TruncateMod")
@_in_i64
def lower_mod(x: Array, y: Array) -> Array:
    """The remainder with the sign of x."""
    if dtype(x).is_float:
        return ops.mul(ops.sign(x), ops.floor_mod(ops.abs_(x), ops.abs_(y)))
    if dtype(x) is DType.i64:
        return _remainder(x, y)[0]
    y = _remainder_divisor(y)
    return ops.sub(x, ops.mul(ops.div(x, y), y))


def _remainder(x: Array, y: Array) -> tuple[Array, Array]:
    """The remainder with the sign of x, and whether x / y rounded toward zero is above x / y rounded down.

    x, y: i64[...] -> i64[...], bool[...]
    """
    remainder, zero = floor_mod(x, y), scalar(0, x)
    is_negative = ops.not_equal(ops.less(x, zero), ops.less(y, zero))
    is_above = ops.logical_and(is_negative, ops.not_equal(remainder, zero))
    return ops.select_v2(is_above, ops.sub(remainder, y), remainder), is_above


def _exact_quotient(x: Array, y: Array, near: Array | None = None) -> Array:
    """x / y where y divides x, with f32's quotients alone.   x, y: i64[...] -> i64[...]

    near: less than y away from x, and not wrapped where x has.
    Each quotient is right to 22 bits, so that after two of them less than 2**20 times y is left, and the third is the
    whole rest once rounded. What overflows on the way wraps, and is made up for by the next.
    """
    first = _quotient(x if near is None else near, y)
    rest = ops.sub(x, ops.mul(first, y))
    second = _quotient(rest, y)
    rest = ops.sub(rest, ops.mul(second, y))
    return ops.add(ops.add(first, second), _quotient(rest, y, rounded=True))


def _quotient(x: Array, y: Array, *, rounded: bool = False) -> Array:
    """x / y in f32, to the nearest integer or toward zero.   x, y: i64[...] -> i64[...]"""
    quotient = ops.div(*(ops.cast(v, out_data_type=DType.f32) for v in (x, y)))
    return ops.cast(ops.round_(quotient) if rounded else quotient, out_data_type=DType.i64)


@lowers("Pow")
def lower_pow(x: Array, y: Array) -> Array:
    """POW of floats; of integers products, as POW, which computes in double, does not wrap."""
    if dtype(x).is_float:
        return ops.square(x) if is_constant(y) and not y.ndim and y == 2 else ops.pow_(x, y)
    if is_constant(y) and not y.ndim and y >= 0:
        return _power(x, int(y))
    return ops.pow_(x, y) if is_constant(x) and is_constant(y) else _power_of_tensors(x, y)


def _power(x: Array, exponent: int) -> Array:
    """x to the power of a number from 0 on, by squaring.   x: i[...] -> i[...]"""
    result = None
    while exponent:
        if exponent % 2:
            result = x if result is None else ops.mul(result, x)
        exponent //= 2
        x = ops.mul(x, x) if exponent else x
    return result


def _power_of_tensors(x: Array, y: Array) -> Array:
    """x to the power of y by squaring: a WHILE of one turn for each bit of y.   x, y: i[...], broadcast -> i[...]

    Negative powers, which TensorFlow refuses, are taken for 0.
    """

    def turned(y: Array, x: Array, result: Array) -> tuple[Array, ...]:
        factor = ops.select_v2(_is_odd(y), x, one_like(x))
        return floor_div(y, scalar(2, y)), ops.mul(x, x), ops.mul(result, factor)

    def goes_on(y: Array, x: Array, result: Array) -> Array:
        return ops.reduce_any(ops.greater(y, scalar(0, y)), np.arange(rank(y), dtype=np.int32))

    first = ops.select_v2(ops.logical_and(_is_odd(y), ops.greater(y, scalar(0, y))), x, one_like(x))
    carried = floor_div(ops.maximum(y, scalar(0, y)), scalar(2, y)), ops.mul(x, x), first
    types = [type_of(v) for v in carried]
    cond, body = trace_graph(goes_on, types, name="cond"), trace_graph(turned, types, name="body")
    return ops.while_(carried, [cond, body])[2]


def _is_odd(y: Array) -> Array:
    return ops.equal(ops.floor_mod(y, scalar(2, y)), one_like(y))
