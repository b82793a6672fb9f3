"""Elementwise TensorFlow ops: arithmetic, comparisons, logic, selection and conversion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.op import Array, TflOp
from jfuse.lowering.query import dtype, one_like, rank, scalar, type_of
from jfuse.lowering.rules import LowerRule, lowers


def alike(name: str, op: TflOp) -> LowerRule:
    """The rule for a TensorFlow op that is the TFLite op of the same operands."""

    def lower(*operands: Array) -> Array:
        return op(*operands)

    lower.__doc__ = f"{op.builtin} of the same operands."
    return lowers(name)(lower)


def composed(name: str, spelling: Callable[..., Array]) -> LowerRule:
    """The rule for a TensorFlow op that is a short expression of TFLite ops."""
    return lowers(name)(spelling)


alike("Add", ops.add)
alike("AddV2", ops.add)
alike("Sub", ops.sub)
alike("Mul", ops.mul)
alike("RealDiv", ops.div)
alike("Div", ops.div)
alike("TruncateDiv", ops.div)
alike("FloorMod", ops.floor_mod)
alike("Maximum", ops.maximum)
alike("Minimum", ops.minimum)
alike("Pow", ops.pow_)
alike("SquaredDifference", ops.squared_difference)

alike("Abs", ops.abs_)
alike("Neg", ops.neg)
alike("Exp", ops.exp)
alike("Log", ops.log)
alike("Sqrt", ops.sqrt)
alike("Rsqrt", ops.rsqrt)
alike("Sin", ops.sin)
alike("Cos", ops.cos)
alike("Floor", ops.floor)
alike("Ceil", ops.ceil)
alike("Rint", ops.round_)
alike("Round", ops.round_)  # both round halves to the even neighbour, as TFLite does
alike("Sign", ops.sign)
alike("ZerosLike", ops.zeros_like)

alike("Less", ops.less)
alike("LessEqual", ops.less_equal)
alike("Greater", ops.greater)
alike("GreaterEqual", ops.greater_equal)
alike("LogicalAnd", ops.logical_and)
alike("LogicalOr", ops.logical_or)
alike("LogicalNot", ops.logical_not)
alike("SelectV2", ops.select_v2)

composed("Reciprocal", lambda x: ops.div(one_like(x), x))
composed("Inv", lambda x: ops.div(one_like(x), x))
composed("DivNoNan", lambda x, y: ops.select_v2(ops.equal(y, scalar(0, y)), scalar(0, x), ops.div(x, y)))
composed("IsNan", lambda x: ops.not_equal(x, x))
composed("IsInf", lambda x: ops.equal(ops.abs_(x), scalar(np.inf, x)))
composed("IsFinite", lambda x: ops.less(ops.abs_(x), scalar(np.inf, x)))


@lowers("OnesLike")
def lower_ones_like(x: Array) -> Array:
    """Ones of the type of x, made from ZEROS_LIKE where that takes it: FILL leaves its result's shape to run time."""
    if dtype(x) in (DType.f32, DType.i32, DType.i64):
        return ops.add(ops.zeros_like(x), one_like(x))
    return ops.fill(ops.shape(x), one_like(x))


@lowers("Equal")
def lower_equal(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
    """EQUAL. Operands that do not broadcast are an error here, whatever TensorFlow was told to answer."""
    return ops.equal(x, y)


@lowers("NotEqual")
def lower_not_equal(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
    """NOT_EQUAL. Operands that do not broadcast are an error here, whatever TensorFlow was told to answer."""
    return ops.not_equal(x, y)


@lowers("FloorDiv")
def lower_floor_div(x: Array, y: Array) -> Array:
    """FLOOR_DIV of integers. Of floats FLOOR and DIV: FLOOR_DIV's quotient is in double, TensorFlow's is not."""
    return ops.floor(ops.div(x, y)) if dtype(x).is_float else ops.floor_div(x, y)


@lowers("Select")
def lower_select(condition: Array, x: Array, y: Array) -> Array:
    """SELECT; a vector condition chooses rows of x and y, as one more column that SELECT_V2 broadcasts.

    SELECT takes vectors too, but is no elementwise op then.
    """
    if rank(condition) != 1 or rank(x) == 1:
        return ops.select(condition, x, y)
    for axis in range(1, rank(x)):
        condition = ops.expand_dims(condition, axis)
    return ops.select_v2(condition, x, y)


@lowers("Square")
def lower_square(x: Array) -> Array:
    """SQUARE, which is for floats; integers are multiplied."""
    return ops.square(x) if dtype(x).is_float else ops.mul(x, x)


@lowers("Log1p")
def lower_log1p(x: Array) -> Array:
    """log(1 + x) + what rounding 1 + x lost, which is all of x where x is small.

    x: f[...] -> f[...]; relative error 3 units of the last place.
    """
    small = ops.relu_n1_to_1(x)  # beyond 1 the loss does not show, and infinity must not meet its own difference
    return ops.add(ops.log(ops.add(x, one_like(x))), lost_beside_one(small))


def lost_beside_one(x: Array) -> Array:
    """x - ((x + 1) - 1), exactly: the part of x that rounding x + 1 loses.   x: f[...] in [-1, 1] -> f[...]"""
    one = one_like(x)
    return ops.sub(x, ops.sub(ops.add(x, one), one))


@lowers("Expm1")
def lower_expm1(x: Array) -> Array:
    """exp(x) - 1 as tanh(x / 2) * (exp(x) + 1), which does not cancel near 0.   x: f[...] -> f[...]"""
    half = ops.tanh(ops.mul(x, scalar(0.5, x)))
    return ops.mul(half, ops.add(ops.exp(x), one_like(x)))


@lowers("Cast")
def lower_cast(x: Array, *, DstT: DType) -> Array:
    """CAST; nothing where the dtype stays."""
    return x if dtype(x) is DstT else ops.cast(x, out_data_type=DstT)


@lowers("AddN")
def lower_add_n(*values: Array) -> Array:
    """The sum of tensors of one type."""
    return values[0] if len(values) == 1 else ops.add_n(*values)


@lowers("BiasAdd")
def lower_bias_add(x: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
    """ADD, with the bias along the channels: the last axis, or axis 1 of channels-first data."""
    if data_format.startswith("NC") and rank(x) > 2:
        bias = ops.reshape(bias, (*type_of(bias).shape, *(1 for _ in range(rank(x) - 2))))
    return ops.add(x, bias)


@lowers("Identity", "StopGradient", "PreventGradient", "Snapshot", "EnsureShape")
def lower_identity(x: Array, *, message: str = "", shape: object = None) -> Array:
    """The operand itself: gradients, copies and checks mean nothing here."""
    return x


@lowers("IdentityN")
def lower_identity_n(*values: Array) -> tuple[Array, ...]:
    """The operands themselves."""
    return values
