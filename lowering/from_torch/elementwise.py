"""Elementwise operators: most have TensorFlow's rule of the same meaning."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type, common_type, is_tensor, promoted
from jfuse.lowering.rule_tools.query import dtype, scalar, type_of
from jfuse.lowering.rules import DEFAULT, lowers_torch

_OF_ANYTHING = {
    "neg": "Neg",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "square": "Square",
    "isfinite": "IsFinite",
    "isnan": "IsNan",
    "isinf": "IsInf",
    "conj": "Conj",
    "real": "Real",
    "imag": "Imag",
}
"""Operators of one tensor that are a TensorFlow op under another name."""
_OF_FLOATS = {
    "exp": "Exp",
    "expm1": "Expm1",
    "log": "Log",
    "log1p": "Log1p",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "reciprocal": "Reciprocal",
    "sin": "Sin",
    "cos": "Cos",
    "tan": "Tan",
    "asin": "Asin",
    "acos": "Acos",
    "atan": "Atan",
    "sinh": "Sinh",
    "cosh": "Cosh",
    "tanh": "Tanh",
    "asinh": "Asinh",
    "acosh": "Acosh",
    "atanh": "Atanh",
    "sigmoid": "Sigmoid",
    "erf": "Erf",
    "erfc": "Erfc",
    "erfinv": "Erfinv",
    "lgamma": "Lgamma",
    "digamma": "Digamma",
}
"""Those that make floats of integers."""
_OF_TWO = {
    "mul": "Mul",
    "maximum": "Maximum",
    "minimum": "Minimum",
    "eq": "Equal",
    "ne": "NotEqual",
    "lt": "Less",
    "le": "LessEqual",
    "gt": "Greater",
    "ge": "GreaterEqual",
    "fmod": "TruncateMod",
    "remainder": "FloorMod",
    "floor_divide": "FloorDiv",
    "bitwise_left_shift": "LeftShift",
    "__lshift__": "LeftShift",
    "bitwise_right_shift": "RightShift",
    "__rshift__": "RightShift",
}
"""Operators of two tensors, or of a tensor and a number."""


_OTHER_NAMES = {"erf": "special_erf", "erfc": "special_erfc", "erfinv": "special_erfinv", "sigmoid": "special_expit"}


def _one(name: str, tensorflow: str, floats: bool) -> None:
    def lower(x: Array) -> Array:
        return DEFAULT.lowers[tensorflow](*promoted(x, floats=floats))

    lower.__doc__ = f"As TensorFlow's {tensorflow}."
    lowers_torch(f"aten.{name}", *(f"aten.{n}" for n in (_OTHER_NAMES.get(name),) if n))(lower)


def _two(name: str, tensorflow: str) -> None:
    def lower(x: Any, y: Any) -> Array:
        return DEFAULT.lowers[tensorflow](*promoted(x, y))

    lower.__doc__ = f"As TensorFlow's {tensorflow}, of operands of their common type."
    lowers_torch(f"aten.{name}")(lower)


for _name, _tensorflow in _OF_ANYTHING.items():
    _one(_name, _tensorflow, False)
for _name, _tensorflow in _OF_FLOATS.items():
    _one(_name, _tensorflow, True)
for _name, _tensorflow in _OF_TWO.items():
    _two(_name, _tensorflow)


@lowers_torch("aten.abs")
def lower_abs(x: Array) -> Array:
    """ABS, of complex numbers COMPLEX_ABS."""
    return DEFAULT.lowers["ComplexAbs" if dtype(x) is DType.c64 else "Abs"](x)


@lowers_torch("aten.add")
def lower_add(x: Any, y: Any, *, alpha: Any = 1) -> Array:
    """x + alpha * y; of bools their disjunction."""
    first, second = promoted(x, y)
    if dtype(first) is DType.bool:
        return ops.logical_or(first, second)
    return ops.add(first, _times(second, alpha))


@lowers_torch("aten.sub")
def lower_sub(x: Any, y: Any, *, alpha: Any = 1) -> Array:
    """x - alpha * y"""
    first, second = promoted(x, y)
    return ops.sub(first, _times(second, alpha))


@lowers_torch("aten.rsub")
def lower_rsub(x: Any, y: Any, alpha: Any = 1) -> Array:
    """y - alpha * x"""
    return lower_sub(y, x, alpha=alpha)


def _times(x: Array, factor: Any) -> Array:
    return x if not is_tensor(factor) and factor == 1 else ops.mul(x, as_type(factor, dtype(x)))


@lowers_torch("aten.pow")
def lower_pow(x: Any, y: Any) -> Array:
    """x to the power of y: small integers by products, a half by roots."""
    if not is_tensor(y) and is_tensor(x) and common_type(x, y) is dtype(x):
        if y == 2:
            return ops.mul(x, x)
        if y == 3:
            return ops.mul(ops.mul(x, x), x)
        if y == 0.5:
            return ops.sqrt(x)
        if y == -0.5:
            return ops.rsqrt(x)
        if y == -1:
            return ops.div(scalar(1, x), x)
    return DEFAULT.lowers["Pow"](*promoted(x, y))


@lowers_torch("aten.div", "aten.true_divide")
def lower_div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Array:
    """The quotient, of integers as f32; rounded down ("floor") or towards zero ("trunc")."""
    if rounding_mode is None:
        return ops.div(*promoted(x, y, floats=True))
    first, second = promoted(x, y)
    if rounding_mode == "floor":
        return DEFAULT.lowers["FloorDiv"](first, second)
    if dtype(first).is_integer:
        return DEFAULT.lowers["TruncateDiv"](first, second)
    return lower_trunc(ops.div(first, second))


@lowers_torch("aten.trunc", "aten.fix")
def lower_trunc(x: Array) -> Array:
    """The integer towards zero."""
    return x if dtype(x).is_integer else ops.mul(ops.sign(x), ops.floor(ops.abs_(x)))


@lowers_torch("aten.round")
def lower_round(x: Array, *, decimals: int = 0) -> Array:
    """The nearest number of so many decimals, halves to the even one."""
    if decimals == 0:
        return x if dtype(x).is_integer else ops.round_(x)
    factor = scalar(10.0**decimals, x)
    return ops.div(ops.round_(ops.mul(x, factor)), factor)


@lowers_torch("aten.frac")
def lower_frac(x: Array) -> Array:
    """Subtract the truncated number."""
    return ops.sub(x, lower_trunc(x))


@lowers_torch("aten.exp2")
def lower_exp2(x: Array) -> Array:
    """2 to the power of x."""
    (x,) = promoted(x, floats=True)
    return ops.pow_(scalar(2, x), x)


def _logarithm(name: str, base: float) -> None:
    def lower(x: Array) -> Array:
        (x,) = promoted(x, floats=True)
        return ops.mul(ops.log(x), scalar(1 / np.log(base), x))

    lower.__doc__ = f"The logarithm to the base {base:g}."
    lowers_torch(f"aten.{name}")(lower)


_logarithm("log2", 2.0)
_logarithm("log10", 10.0)


@lowers_torch("aten.atan2")
def lower_atan2(x: Array, y: Array) -> Array:
    """The angle of the point (y, x)."""
    return DEFAULT.lowers["Atan2"](*promoted(x, y, floats=True))


@lowers_torch("aten.lerp")
def lower_lerp(start: Array, end: Array, weight: Any) -> Array:
    """start + weight * (end - start)"""
    return ops.add(start, ops.mul(as_type(weight, dtype(start)), ops.sub(end, start)))


@lowers_torch("aten.addcmul")
def lower_addcmul(x: Array, y: Array, z: Array, *, value: Any = 1) -> Array:
    """x + value * y * z"""
    return ops.add(x, _times(ops.mul(y, z), value))


@lowers_torch("aten.addcdiv")
def lower_addcdiv(x: Array, y: Array, z: Array, *, value: Any = 1) -> Array:
    """x + value * y / z"""
    return ops.add(x, _times(ops.div(y, z), value))


@lowers_torch("aten.clamp", "aten.clip", "aten.clamp_min", "aten.clamp_max.none")
def lower_clamp(x: Array, low: Any = None, high: Any = None) -> Array:
    """min(max(x, low), high), of those that are given."""
    type_ = common_type(x, *(v for v in (low, high) if v is not None))
    result = as_type(x, type_)
    if low is not None:
        result = ops.maximum(result, as_type(low, type_))
    return result if high is None else ops.minimum(result, as_type(high, type_))


@lowers_torch("aten.clamp_max")
def lower_clamp_max(x: Array, high: Any) -> Array:
    """min(x, high)"""
    return lower_clamp(x, None, high)


@lowers_torch("aten.where")
def lower_where(condition: Array, x: Any, y: Any) -> Array:
    """x where the condition holds, else y."""
    return ops.select_v2(as_type(condition, DType.bool), *promoted(x, y))


@lowers_torch("aten.masked_fill")
def lower_masked_fill(x: Array, mask: Array, value: Any) -> Array:
    """x with a value where the mask holds."""
    return ops.select_v2(mask, as_type(value, dtype(x)), x)


def _logical(name: str, of_bools: str, of_integers: str | None) -> None:
    def lower(*operands: Any) -> Array:
        promoted_operands = promoted(*operands)
        if of_integers is not None and dtype(promoted_operands[0]) is not DType.bool:
            return DEFAULT.lowers[of_integers](*promoted_operands)
        return DEFAULT.lowers[of_bools](*(as_type(v, DType.bool) for v in promoted_operands))

    lower.__doc__ = f"As TensorFlow's {of_bools}" + (f" of bools, {of_integers} of integers." if of_integers else ".")
    lowers_torch(f"aten.{name}", *(f"aten.{n}" for n in (_OPERATORS.get(name),) if n))(lower)


_OPERATORS = {"bitwise_and": "__and__", "bitwise_or": "__or__", "bitwise_xor": "__xor__"}
_logical("logical_and", "LogicalAnd", None)
_logical("logical_or", "LogicalOr", None)
_logical("logical_not", "LogicalNot", None)
_logical("logical_xor", "NotEqual", None)
_logical("bitwise_and", "LogicalAnd", "BitwiseAnd")
_logical("bitwise_or", "LogicalOr", "BitwiseOr")
_logical("bitwise_xor", "NotEqual", "BitwiseXor")
_logical("bitwise_not", "LogicalNot", "Invert")


@lowers_torch("aten.nan_to_num")
def lower_nan_to_num(x: Array, nan: float | None = None, high: float | None = None, low: float | None = None) -> Array:
    """x with numbers in the place of what is none, and of infinities."""
    limits = np.finfo(dtype(x).numpy)
    bounds = (float(limits.min) if low is None else low, float(limits.max) if high is None else high)
    numbers = ops.select_v2(DEFAULT.lowers["IsNan"](x), scalar(0.0 if nan is None else nan, x), x)
    return ops.minimum(ops.maximum(numbers, scalar(bounds[0], x)), scalar(bounds[1], x))


@lowers_torch("aten.logaddexp")
def lower_logaddexp(x: Array, y: Array) -> Array:
    """log(exp(x) + exp(y)), which does not overflow."""
    difference = ops.neg(ops.abs_(ops.sub(x, y)))
    return ops.add(ops.maximum(x, y), DEFAULT.lowers["Log1p"](ops.exp(difference)))


@lowers_torch("aten.item", "aten._local_scalar_dense")
def lower_item(x: Array) -> Array:
    """The one element, as a place that is computed."""
    return ops.reshape(x, np.zeros(0, np.int32))


@lowers_torch("aten._to_copy", "aten.to", "aten.type_as")
def lower_to(x: Array, *rest: Any, dtype: DType | None = None) -> Array:
    """CAST to the dtype that is given, or that another tensor has; numbers become bools by whether they are not 0."""
    types = (r if isinstance(r, DType) else type_of(r).dtype for r in rest if isinstance(r, DType) or is_tensor(r))
    type_ = next(types, dtype)
    return x if type_ is None else as_type(x, type_)


@lowers_torch(
    "aten.clone",
    "aten.contiguous",
    "aten.detach",
    "aten.alias",
    "aten.lift_fresh_copy",
    "aten.dropout",
    "aten.feature_dropout",
    "aten.alpha_dropout",
    "aten.positive",
)
def lower_identity(x: Array, rate: float = 0.0, train: bool = False) -> Array:
    """The tensor itself; dropout does nothing in eval mode."""
    if train and rate:
        raise LowerError("a dropout that is active", found=f"rate {rate}", remedy="module.eval()")
    return x
