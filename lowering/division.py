"""Quotients and remainders, of floats and of integers rounded down or toward zero; and powers.

Of the smallest integer over -1, which no integer of the type holds, the runtime answers what it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.elementwise import alike
from jfuse.lowering.query import dtype, is_constant, scalar
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
    """DIV. It has no i64: there x, less its remainder, is divided."""
    return ops.div(x, y) if dtype(x) is not DType.i64 else _exact_quotient(ops.sub(x, _remainder(x, y)[0]), y)


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
        return ops.floor_div(x, y)
    if is_constant(y) and (y != np.iinfo(np.int64).min).all():
        return _exact_quotient(ops.sub(x, ops.floor_mod(x, y)), y, near=x)
    remainder, is_above = _remainder(x, y)
    return ops.sub(_exact_quotient(ops.sub(x, remainder), y), ops.cast(is_above, out_data_type=DType.i64))


alike("FloorMod", ops.floor_mod)


@lowers("Mod", "TruncateMod")
def lower_mod(x: Array, y: Array) -> Array:
    """The remainder with the sign of x."""
    if dtype(x).is_float:
        return ops.mul(ops.sign(x), ops.floor_mod(ops.abs_(x), ops.abs_(y)))
    if dtype(x) is DType.i64:
        return _remainder(x, y)[0]
    return ops.sub(x, ops.mul(ops.div(x, y), y))


def _remainder(x: Array, y: Array) -> tuple[Array, Array]:
    """The remainder with the sign of x, and whether x / y rounded toward zero is above x / y rounded down.

    x, y: i64[...] -> i64[...], bool[...]
    """
    remainder, zero = ops.floor_mod(x, y), scalar(0, x)
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
    """POW; squares and products where y is one integer that the model knows.

    POW of integers is right where the result fits: LiteRT computes it in double.
    """
    if not is_constant(y) or y.ndim or y < 0:
        return ops.pow_(x, y)
    exponent = int(y)
    if dtype(x).is_float:
        return ops.square(x) if y == 2 else ops.pow_(x, y)
    return _power(x, exponent)


def _power(x: Array, exponent: int) -> Array:
    """x to the power of a number from 0 on, by squaring.   x: i[...] -> i[...]"""
    result = None
    while exponent:
        if exponent % 2:
            result = x if result is None else ops.mul(result, x)
        exponent //= 2
        x = ops.mul(x, x) if exponent else x
    return result
