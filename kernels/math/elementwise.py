"""Elementwise ops: arithmetic, comparisons, logic, selection and conversion, with NumPy's broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import max_dim, min_dim

from jfuse.ir.dims import floor_divided, is_known, remainder
from jfuse.ir.types import DType
from jfuse.kernels.core.op import Amount, Array, Divisor, ShapeOnly, TflOp, namespace, tfl
from jfuse.kernels.nn.activation import activate


def matched(*operands: Array) -> ModuleType:
    """The namespace of operands that must have one dtype; raises TypeError where they have two.

    NumPy operands may differ: known values of shapes are wider than the tensors that they are known of.
    """
    xp = namespace(*operands)
    dtypes = {str(o.dtype) for o in operands}
    if xp is jnp and len(dtypes) > 1:
        raise TypeError(f"operands of different dtypes: {' and '.join(sorted(dtypes))}")
    return xp


def truncated_quotient(x: Array, y: Array) -> Array:
    """x / y of integers, rounded toward zero as in C++.   x, y: i[...] -> i[...]"""
    xp = namespace(x, y)
    quotient = xp.floor_divide(x, y)
    inexact = (quotient * y != x) & ((x < 0) != (y < 0))
    return quotient + inexact.astype(quotient.dtype)


def _called(function: str, *operands: Array) -> Array:
    """The function of that name in jax.numpy; in NumPy that in double precision, rounded once.

    NumPy's own float32 functions are vectorized for each instruction set: with AVX-512 they err by up to 4 ulp, so that
    constants, and with them files, would depend on the processor. Source: numpy/_core/src/umath/loops_umath_fp.dispatch
    """
    xp = namespace(*operands)
    if xp is np and all(getattr(o, "dtype", None) == np.float32 for o in operands):
        with np.errstate(over="ignore"):  # the result is inf, as in float32
            return np.asarray(getattr(np, function)(*(o.astype(np.float64) for o in operands))).astype(np.float32)
    return getattr(xp, function)(*operands)


def unary(builtin: str, function: str, text: str, *, switch: str | None = None) -> TflOp:
    """Declare an op that is the function of that name in NumPy and jax.numpy."""

    def body(x: Array, /) -> Array:
        return _called(function, x)

    body.__doc__ = f"{text}.   x: number[...] -> the same type   Source: tflite/kernels/elementwise.cc"
    return tfl(builtin, elementwise=True, switch=switch)(body)


def binary(builtin: str, function: str, text: str, *, second: Any = Array) -> TflOp:
    """Declare an op on two operands that broadcast, the function of that name in NumPy and jax.numpy.

    second: the annotation of the second operand.
    """

    def body(x: Array, y: Array, /) -> Array:
        matched(x, y)
        return _called(function, x, y)

    body.__annotations__["y"] = second

    body.__doc__ = (
        f"{text}.   x, y: number[...], broadcast -> number[...]   Source: tflite/kernels/{builtin.lower()}.cc"
    )
    return tfl(builtin, elementwise=True)(body)


def compare(builtin: str, sign: str, also: str = "") -> TflOp:
    """Declare a comparison: the function of NumPy and jax.numpy with the name of the builtin.   sign: as it is written

    Not on shapes: a comparison of symbols is false where it should be unknown.
    """
    doc = f"x {sign} y{also}.   x, y: any[...], broadcast -> bool[...]   Source: tflite/kernels/comparisons.cc"
    return _of_two(builtin, builtin.lower(), doc, switch="compare", compares=sign)


def logical(builtin: str, function: str, text: str) -> TflOp:
    """Declare an op on two bools, the function of that name in NumPy and jax.numpy."""
    doc = f"{text}.   x, y: bool[...], broadcast -> bool[...]   Source: tflite/kernels/logical.cc"
    return _of_two(builtin, function, doc)


def _of_two(builtin: str, function: str, doc: str, *, switch: str | None = None, compares: str = "") -> TflOp:
    def body(x: Array, y: Array, /) -> Array:
        return getattr(matched(x, y), function)(x, y)

    body.__doc__ = doc
    return tfl(builtin, elementwise=True, switch=switch, compares=compares)(body)


@tfl("ADD", on_shapes=True, elementwise=True, linear="joint", clamps=True)
def add(x: Array, y: Array, /, *, fused_activation_function: str = "NONE", pot_scale_int16: bool = True) -> Array:
    """x + y.   x, y: number[...], broadcast -> number[...]   Source: tflite/kernels/add.cc"""
    return activate(matched(x, y).add(x, y), fused_activation_function)


@tfl("ADD_N", elementwise=True, linear="joint")
def add_n(*values: Array) -> Array:
    """The sum.   values: number[...], all of one type -> number[...]   Source: tflite/kernels/add_n.cc"""
    matched(*values)
    return sum(values[1:], start=values[0])


@tfl("SUB", on_shapes=True, elementwise=True, linear="joint", clamps=True)
def sub(x: Array, y: Array, /, *, fused_activation_function: str = "NONE", pot_scale_int16: bool = True) -> Array:
    """x - y.   x, y: number[...], broadcast -> number[...]   Source: tflite/kernels/sub.cc"""
    return activate(matched(x, y).subtract(x, y), fused_activation_function)


@tfl("MUL", on_shapes=True, elementwise=True, linear="each", clamps=True, product="elements", at_allocation=True)
def mul(x: Array, y: Array, /, *, fused_activation_function: str = "NONE") -> Array:
    """x * y.   x, y: number[...], broadcast -> number[...]   Source: tflite/kernels/mul.cc"""
    return activate(matched(x, y).multiply(x, y), fused_activation_function)


@tfl("DIV", elementwise=True, linear="first", clamps=True)
def div(x: Array, y: Divisor, /, *, fused_activation_function: str = "NONE") -> Array:
    """x / y, of integers rounded toward zero.   x, y: number[...], broadcast -> number[...]

    Source: tflite/kernels/div.cc
    """
    xp = matched(x, y)
    integers = DType.of(x.dtype).is_integer
    quotient = truncated_quotient(x, y) if integers else xp.divide(x, y)
    return activate(quotient, fused_activation_function)


_quotients = np.frompyfunc(lambda x, y: floor_divided(x, y) if is_known(y) and y > 0 else x // y, 2, 1)
_remainders = np.frompyfunc(lambda x, y: remainder(x, y) if is_known(y) and y > 0 else x % y, 2, 1)
"""Of sizes: in one form, by which those that agree are seen to."""


@tfl("FLOOR_DIV", on_shapes=True, elementwise=True, switch="round")
def floor_div(x: Array, y: Divisor, /) -> Array:
    """floor(x / y), of floats from a quotient in double precision.   x, y: number[...], broadcast -> number[...]

    Source: tflite/kernels/floor_div.cc
    """
    if object in (x.dtype, y.dtype):
        return np.asarray(_quotients(x, y), object)
    xp = matched(x, y)
    if not DType.of(x.dtype).is_float:
        return xp.floor_divide(x, y)
    return xp.floor(xp.divide(x.astype(np.float64), y.astype(np.float64))).astype(x.dtype)


def _extreme(builtin: str, function: str, of_sizes: Callable[[Any, Any], Any], text: str) -> TflOp:
    """Declare the greater or smaller of two; of sizes an expression where the run time decides."""
    on_sizes = np.frompyfunc(of_sizes, 2, 1)

    def body(x: Array, y: Array, /) -> Array:
        if object in (x.dtype, y.dtype):
            return np.asarray(on_sizes(x, y), object)
        return getattr(matched(x, y), function)(x, y)

    body.__doc__ = f"{text}.   x, y: number[...], broadcast -> number[...]   Source: tflite/kernels/{function}.cc"
    return tfl(builtin, elementwise=True, on_shapes=True, switch="clip")(body)


maximum = _extreme("MAXIMUM", "maximum", max_dim, "The greater of x and y")
minimum = _extreme("MINIMUM", "minimum", min_dim, "The smaller of x and y")


@tfl("FLOOR_MOD", on_shapes=True, elementwise=True, switch="mod")
def floor_mod(x: Array, y: Divisor, /) -> Array:
    """x - y * floor(x / y), with the sign of y.   x, y: number[...], broadcast -> number[...]

    Source: tflite/kernels/floor_mod.cc
    """
    if object in (x.dtype, y.dtype):
        return np.asarray(_remainders(x, y), object)
    matched(x, y)
    return _called("mod", x, y)


pow_ = binary("POW", "power", "x to the power of y", second=Amount)
atan2 = binary("ATAN2", "arctan2", "The angle of the point (y, x), from -pi to pi; the operands come in that order")


@tfl("SQUARED_DIFFERENCE", elementwise=True)
def squared_difference(x: Array, y: Array, /) -> Array:
    """(x - y) squared.   x, y: number[...], broadcast -> number[...]   Source: tflite/kernels/squared_difference.cc"""
    return matched(x, y).square(x - y)


@tfl("NEG", on_shapes=True, elementwise=True, linear="joint")
def neg(x: Array, /) -> Array:
    """-x.   x: number[...] -> number[...]   Source: tflite/kernels/neg.cc"""
    return namespace(x).negative(x)


abs_ = unary("ABS", "abs", "The absolute value", switch="clip")
exp = unary("EXP", "exp", "e to the power of x")
log = unary("LOG", "log", "The natural logarithm")
sqrt = unary("SQRT", "sqrt", "The square root")
square = unary("SQUARE", "square", "x * x")
sin = unary("SIN", "sin", "The sine")
cos = unary("COS", "cos", "The cosine")
floor = unary("FLOOR", "floor", "The greatest integer not above x", switch="round")
ceil = unary("CEIL", "ceil", "The smallest integer not below x", switch="round")
round_ = unary("ROUND", "round", "The nearest integer, halves to the even one", switch="round")
sign = unary("SIGN", "sign", "-1, 0 or 1", switch="compare")


@tfl("RSQRT", elementwise=True)
def rsqrt(x: Array, /) -> Array:
    """1 / sqrt(x).   x: f[...] -> f[...]   Source: tflite/kernels/elementwise.cc"""
    return 1 / namespace(x).sqrt(x)


equal = compare("EQUAL", "==", ", strings too")
not_equal = compare("NOT_EQUAL", "!=", ", strings too")
less = compare("LESS", "<")
less_equal = compare("LESS_EQUAL", "<=")
greater = compare("GREATER", ">")
greater_equal = compare("GREATER_EQUAL", ">=")

logical_and = logical("LOGICAL_AND", "logical_and", "x and y")
logical_or = logical("LOGICAL_OR", "logical_or", "x or y")


@tfl("LOGICAL_NOT", elementwise=True)
def logical_not(x: Array, /) -> Array:
    """not x.   x: bool[...] -> bool[...]   Source: tflite/kernels/elementwise.cc"""
    return namespace(x).logical_not(x)


@tfl("SELECT", elementwise=True, switch="select", entries=("x", "y"))
def select(condition: Array, x: Array, y: Array, /) -> Array:
    """x where the condition holds, else y; a vector condition chooses whole slices of x and y.

    condition: bool[], bool[n] or bool[...]; x, y: any[n,...], of one shape -> any[n,...]

    Source: tflite/kernels/select.cc
    """
    if condition.ndim == 1 and x.ndim > 1:
        condition = condition.reshape(condition.shape + (1,) * (x.ndim - 1))
    matched(x, y)
    return namespace(condition, x, y).where(condition, x, y)


@tfl("SELECT_V2", elementwise=True, switch="select", entries=("x", "y"))
def select_v2(condition: Array, x: Array, y: Array, /) -> Array:
    """x where the condition holds, else y.   condition: bool[...]; x, y: any[...], broadcast -> any[...]

    Source: tflite/kernels/select.cc
    """
    matched(x, y)
    return namespace(condition, x, y).where(condition, x, y)


@tfl("CAST", on_shapes=True, elementwise=True, linear="joint", switch="cast", entries=("x",))
def cast(x: Array, /, *, out_data_type: DType) -> Array:
    """x in another dtype; floats become integers by cutting the fraction off.   x: any[...] -> any[...]

    Linear between floats only; a case distinction only from float to integer or bool.
    Source: tflite/kernels/cast.cc
    """
    if x.dtype == object and out_data_type.is_integer:
        return x  # sizes that are known only at run time
    return x.astype(out_data_type.numpy)


@tfl("ZEROS_LIKE")
def zeros_like(x: ShapeOnly, /) -> Array:
    """Zeros of the type of x.   x: number[...] -> number[...]   Source: tflite/kernels/zeros_like.cc"""
    return namespace(x).zeros_like(x)


# Ops on the bits of integers, and one type's bits read as another's.

bitwise_xor = binary("BITWISE_XOR", "bitwise_xor", "The bits that x and y differ in")


@tfl("STABLEHLO_AND", elementwise=True)
def stablehlo_and(x: Array, y: Array, /) -> Array:
    """The bits that x and y share.   x, y: i[...]|bool[...], of one shape -> the same type

    Source: tflite/kernels/stablehlo_elementwise.cc
    """
    return matched(x, y).bitwise_and(x, y)


@tfl("RIGHT_SHIFT", elementwise=True)
def right_shift(x: Array, y: Amount, /) -> Array:
    """x * 2**-y rounded down; y below 0 counts as 0, beyond the width as the width - 1.   x, y: i[...] -> i[...]

    Source: tflite/kernels/right_shift.cc
    """
    xp = matched(x, y)
    width = 8 * x.dtype.itemsize
    return xp.right_shift(x, xp.clip(y, 0, width - 1))


@tfl("BITCAST")
def bitcast(x: Array, /, *, out_data_type: DType) -> Array:
    """The bits of x read as another dtype: a last axis is added where that is narrower, and taken where it is wider.

    x: number[...] or number[..., n], n elements of x to one of the result -> number[..., n] or number[...]

    Source: tflite/kernels/bitcast.cc
    """
    if namespace(x) is not np:
        return jax.lax.bitcast_convert_type(x, out_data_type.numpy)
    wanted = np.dtype(out_data_type.numpy)
    if wanted.itemsize == x.dtype.itemsize:
        return x.view(wanted)
    last = x if wanted.itemsize > x.dtype.itemsize else x[..., None]
    values = np.ascontiguousarray(last).view(wanted)
    return values[..., 0] if wanted.itemsize > x.dtype.itemsize else values
