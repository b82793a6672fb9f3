"""Elementwise TensorFlow ops: arithmetic, comparisons, logic, selection and conversion."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np

from jfuse.ir.dims import symbols_of
from jfuse.ir.graph import Const, Var
from jfuse.ir.trace import producer
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, TflOp, static_value
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.open_broadcast import agreeing
from jfuse.lowering.rule_tools.order_of_unsigned import in_order, unsigned
from jfuse.lowering.rule_tools.query import dtype, one_like, rank, scalar, type_of
from jfuse.lowering.rules import LowerRule, lowers

# Sizes that a model computes in floats: the same numbers in integers. LiteRT has no double precision.

_ARITHMETIC = (ops.add, ops.sub, ops.mul, ops.div)
_FLOATS = (DType.f32, DType.f64)
_SIZES = np.arange(2**15)
"""The sizes for which both spellings are compared: larger images are none, and products of two such are in i32."""


def whole_part(x: Array) -> Array | None:
    """Write the whole part of a float multiple of a size in integers, as n * p // q; None where the scalar is another.

    An f32 scalar is rewritten only for the size of a tensor: LiteRT computes with other numbers as TensorFlow does.
    The border of tf.image.central_crop, (n - n * fraction) / 2, is such a multiple. p / q is the largest of all whole
    parts over their sizes, so that no other quotient of small numbers can be right where it is not.
    """
    multiple = _of_sizes(x)
    if multiple is None:
        return None
    size, values = multiple
    if not np.isfinite(values).all() or values.min() < 0 or values.max() >= len(_SIZES):
        return None
    whole = values.astype(np.int64)
    q = 1 + int(np.argmax(whole[1:] / _SIZES[1:]))
    p = int(whole[q])
    if not np.array_equal(whole, _SIZES * p // q):
        return None
    return ops.floor_div(ops.mul(size, np.int32(p)), np.int32(q))


def _of_sizes(x: Any) -> tuple[Var, np.ndarray] | None:
    """The i32 scalar from which a float scalar follows by arithmetic with constants, and its value for each size."""
    made = producer(x) if isinstance(x, Var) and x.type.rank == 0 else None
    if made is None:
        return None
    (first, *_), result = made.inputs, made.outputs[0].type.dtype
    if made.op is ops.cast and isinstance(first, Var):
        is_size = result is DType.f64 or static_value(first) is not None
        return (first, _SIZES.astype(result.numpy)) if is_size and first.type.dtype is DType.i32 else None
    if made.op not in _ARITHMETIC or result not in _FLOATS:
        return None
    parts = [a.array if isinstance(a, Const) else _of_sizes(a) for a in made.inputs]
    of_size = [part for part in parts if isinstance(part, tuple)]
    if any(part is None for part in parts) or len({var for var, _ in of_size}) != 1:
        return None
    with np.errstate(all="ignore"):
        return of_size[0][0], made.op(*(part[1] if isinstance(part, tuple) else part for part in parts), **made.params)


_ZEROS_LIKE = frozenset({DType.f32, DType.i32, DType.i64})  # of which ZEROS_LIKE makes zeros


def alike(name: str, op: TflOp) -> LowerRule:
    """The rule for a TensorFlow op that is the TFLite op of the same operands."""

    def lower(*operands: Array) -> Array:
        return op(*agreeing(*operands))

    lower.__doc__ = f"{op.builtin} of the same operands."
    return lowers(name)(lower)


def ordered(name: str, op: TflOp) -> LowerRule:
    """The rule for a TensorFlow op that asks which of two operands is greater; u64 has no such kernel."""

    def lower(x: Array, y: Array) -> Array:
        if dtype(x) is not DType.u64:
            return op(*agreeing(x, y))
        result = op(*agreeing(in_order(x), in_order(y)))
        return unsigned(result) if dtype(result) is DType.i64 else result

    lower.__doc__ = f"{op.builtin} of the same operands; of u64 in i64."
    return lowers(name)(lower)


def composed(name: str, spelling: Callable[..., Array]) -> LowerRule:
    """The rule for a TensorFlow op that is a short expression of TFLite ops."""
    return lowers(name)(spelling)


alike("Add", ops.add)
alike("AddV2", ops.add)
alike("Sub", ops.sub)
alike("Mul", ops.mul)
ordered("Maximum", ops.maximum)
ordered("Minimum", ops.minimum)
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

ordered("Less", ops.less)
ordered("LessEqual", ops.less_equal)
ordered("Greater", ops.greater)
ordered("GreaterEqual", ops.greater_equal)
alike("LogicalAnd", ops.logical_and)
alike("LogicalOr", ops.logical_or)
alike("LogicalNot", ops.logical_not)
alike("SelectV2", ops.select_v2)

composed("Reciprocal", lambda x: ops.div(one_like(x), x))
composed("Inv", lambda x: ops.div(one_like(x), x))
composed("DivNoNan", lambda x, y: _zero_where(y, ops.div(x, y)))
composed("MulNoNan", lambda x, y: _zero_where(y, ops.mul(x, y)))
composed("Xdivy", lambda x, y: _zero_where(x, ops.div(x, y)))
composed("Xlogy", in_f32(lambda x, y: _zero_where(x, ops.mul(x, ops.log(y)))))
composed("IsNan", lambda x: ops.not_equal(x, x))
composed("IsInf", lambda x: ops.equal(ops.abs_(x), scalar(np.inf, x)))
composed("IsFinite", lambda x: ops.less(ops.abs_(x), scalar(np.inf, x)))


def _zero_where(zero: Array, value: Array) -> Array:
    """0 where `zero` is, else the value."""
    return ops.select_v2(ops.equal(zero, scalar(0, zero)), scalar(0, value), value)


@lowers("ZerosLike")
def lower_zeros_like(x: Array) -> Array:
    """Zeros of the type of x: ZEROS_LIKE where that takes it."""
    return ops.zeros_like(x) if dtype(x) in _ZEROS_LIKE else ops.fill(ops.shape(x), scalar(0, x))


@lowers("OnesLike")
def lower_ones_like(x: Array) -> Array:
    """Ones of the type of x, made from ZEROS_LIKE where that takes it: FILL leaves its result's shape to run time."""
    if dtype(x) in _ZEROS_LIKE:
        return ops.add(ops.zeros_like(x), one_like(x))
    return ops.fill(ops.shape(x), one_like(x))


@lowers("Abs")
def lower_abs(x: Array) -> Array:
    """ABS; of i64, which that lacks, the greater of x and -x. A size is what it is."""
    size = static_value(x) if isinstance(x, Var) and x.type.rank == 0 else None
    if size is not None and str(size) in symbols_of(size):
        return x
    return ops.maximum(x, ops.neg(x)) if dtype(x) is DType.i64 else ops.abs_(x)


@lowers("Sign")
def lower_sign(x: Array) -> Array:
    """SIGN; of i64, which that lacks, x between -1 and 1."""
    return clipped(x, -1, 1) if dtype(x) is DType.i64 else ops.sign(x)


def clipped(x: Array, low: float, high: float) -> Array:
    """x between two numbers.   x: number[...] -> the same type"""
    return ops.minimum(ops.maximum(x, scalar(low, x)), scalar(high, x))


@lowers("ClipByValue")
def lower_clip_by_value(t: Array, clip_value_min: Array, clip_value_max: Array) -> Array:
    """MAXIMUM with the lower bound last, as TensorFlow: it is what counts where the bounds are the wrong way round."""
    return ops.maximum(ops.minimum(t, clip_value_max), clip_value_min)


@lowers("ApproximateEqual")
def lower_approximate_equal(x: Array, y: Array, *, tolerance: float = 1e-5) -> Array:
    """|x - y| <= tolerance.   x, y: f[...] -> bool[...]"""
    return ops.less_equal(ops.abs_(ops.sub(x, y)), scalar(tolerance, x))


@lowers("L2Loss")
@in_f32
def lower_l2_loss(t: Array) -> Array:
    """Half the sum of the squares."""
    total = ops.sum_(ops.square(t), np.arange(rank(t), dtype=np.int32), keep_dims=False)
    return ops.mul(total, scalar(0.5, t))


@lowers("Cross")
def lower_cross(a: Array, b: Array) -> Array:
    """The vector product along the last axis: a[i + 1] * b[i + 2] - a[i + 2] * b[i + 1], places counted in a circle."""

    def turned(x: Array, places: list[int]) -> Array:
        return ops.gather(x, np.array(places, np.int32), axis=rank(x) - 1)

    first, second = [1, 2, 0], [2, 0, 1]
    return ops.sub(ops.mul(turned(a, first), turned(b, second)), ops.mul(turned(a, second), turned(b, first)))


@lowers("SquaredDifference")
def lower_squared_difference(x: Array, y: Array) -> Array:
    """SQUARED_DIFFERENCE; of i64, which that lacks, SUB and MUL."""
    if dtype(x) is not DType.i64:
        return ops.squared_difference(x, y)
    difference = ops.sub(x, y)
    return ops.mul(difference, difference)


@lowers("Equal")
def lower_equal(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
    """EQUAL. Operands that do not broadcast are an error here, whatever TensorFlow was told to answer."""
    return ops.equal(x, y)


@lowers("NotEqual")
def lower_not_equal(x: Array, y: Array, *, incompatible_shape_error: bool = True) -> Array:
    """NOT_EQUAL. Operands that do not broadcast are an error here, whatever TensorFlow was told to answer."""
    return ops.not_equal(x, y)


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
@in_f32
def lower_log1p(x: Array) -> Array:
    """log(1 + x); where x is small 2 * atanh(x / (x + 2)), as a series.   x: f[...] -> f[...]; relative error 4e-7

    What rounding 1 + x loses could be added, but XNNPACK's log errs by 1e-7 beside 1 itself, which is more.
    """
    ratio = ops.div(x, ops.add(x, scalar(2, x)))
    square = ops.mul(ratio, ratio)
    series: Array = scalar(2 / 9, x)
    for divisor in (7, 5, 3, 1):  # 6e-9 is left at 0.3
        series = ops.add(ops.mul(series, square), scalar(2 / divisor, x))
    is_small = ops.less(ops.abs_(x), scalar(0.3, x))
    return ops.select_v2(is_small, ops.mul(series, ratio), ops.log(ops.add(x, one_like(x))))


@lowers("Xlog1py")
@in_f32
def lower_xlog1py(x: Array, y: Array) -> Array:
    """x * log1p(y), and 0 where x is.   x, y: f[...], broadcast -> f[...]"""
    return _zero_where(x, ops.mul(x, lower_log1p(y)))


@lowers("Expm1")
@in_f32
def lower_expm1(x: Array) -> Array:
    """exp(x) - 1 as tanh(x / 2) * (exp(x) + 1), which does not cancel near 0.   x: f[...] -> f[...]"""
    half = ops.tanh(ops.mul(x, scalar(0.5, x)))
    return ops.mul(half, ops.add(ops.exp(x), one_like(x)))


@lowers("Cast")
def lower_cast(x: Array, *, DstT: DType, Truncate: bool = False) -> Array:
    """CAST; nothing where the dtype stays. CAST knows no u64: integers go through i64, which has the same bits."""
    if dtype(x) is DstT:
        return x
    if dtype(x) is DType.u64 and not DstT.is_float:
        return lower_cast(ops.bitcast(x, out_data_type=DType.i64), DstT=DstT)
    if DstT is DType.u64 and not dtype(x).is_float:
        return ops.bitcast(lower_cast(x, DstT=DType.i64), out_data_type=DType.u64)
    if dtype(x) in (DType.f32, DType.f64) and DstT.is_integer and (size := whole_part(x)) is not None:
        return size if DstT is DType.i32 else ops.cast(size, out_data_type=DstT)
    return ops.cast(x, out_data_type=DstT)


@lowers("AddN", "AccumulateNV2")
def lower_add_n(*values: Array, shape: Any = None) -> Array:
    """The sum of tensors of one type: ADD_N of f32 and i32, which is all it takes, else one ADD after the other."""
    if len(values) > 2 and dtype(values[0]) in (DType.f32, DType.i32):
        return ops.add_n(*values)
    return reduce(ops.add, values)


@lowers("BiasAdd", "BiasAddV1")
def lower_bias_add(x: Array, bias: Array, *, data_format: str = "NHWC") -> Array:
    """ADD, with the bias along the channels: the last axis, or axis 1 of channels-first data."""
    if data_format.startswith("NC") and rank(x) > 2:
        bias = ops.reshape(bias, (*type_of(bias).shape, *(1 for _ in range(rank(x) - 2))))
    return ops.add(x, bias)


@lowers(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "Snapshot",
    "CheckNumerics",
    "CheckNumericsV2",
    "GuaranteeConst",
    "DeepCopy",
    "DebugGradientIdentity",
)
def lower_identity(x: Array, *, message: str = "") -> Array:
    """The operand itself: gradients and copies mean nothing here."""
    return x


@lowers("IdentityN")
def lower_identity_n(*values: Array) -> tuple[Array, ...]:
    """The operands themselves."""
    return values
