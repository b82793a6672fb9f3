"""Elementwise primitives: most have TensorFlow's rule of the same meaning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, is_constant, scalar
from jfuse.lowering.rules import DEFAULT, lowers_jax

_SAME = {
    "add": "AddV2",
    "add_any": "AddV2",
    "sub": "Sub",
    "mul": "Mul",
    "pow": "Pow",
    "atan2": "Atan2",
    "neg": "Neg",
    "sign": "Sign",
    "floor": "Floor",
    "ceil": "Ceil",
    "exp": "Exp",
    "expm1": "Expm1",
    "log": "Log",
    "log1p": "Log1p",
    "sqrt": "Sqrt",
    "rsqrt": "Rsqrt",
    "square": "Square",
    "logistic": "Sigmoid",
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
    "erf": "Erf",
    "erfc": "Erfc",
    "erf_inv": "Erfinv",
    "lgamma": "Lgamma",
    "digamma": "Digamma",
    "is_finite": "IsFinite",
    "eq": "Equal",
    "ne": "NotEqual",
    "lt": "Less",
    "le": "LessEqual",
    "gt": "Greater",
    "ge": "GreaterEqual",
    "real": "Real",
    "imag": "Imag",
    "complex": "Complex",
    "conj": "Conj",
    "shift_left": "LeftShift",
    "bessel_i0e": "BesselI0e",
    "bessel_i1e": "BesselI1e",
}
"""Primitives that are a TensorFlow op under another name, all of whose parameters concern the compiler."""


def _alike(primitive: str, tensorflow: str) -> None:
    def lower(*operands: Array) -> Any:
        return DEFAULT.lowers[tensorflow](*operands)

    lower.__doc__ = f"As TensorFlow's {tensorflow}."
    lowers_jax(primitive)(lower)


for _primitive, _tensorflow in _SAME.items():
    _alike(_primitive, _tensorflow)


def _logical(primitive: str, of_bools: str, of_integers: str) -> None:
    def lower(*operands: Array) -> Any:
        return DEFAULT.lowers[of_bools if dtype(operands[0]) is DType.bool else of_integers](*operands)

    lower.__doc__ = f"As TensorFlow's {of_bools} of bools, {of_integers} of integers."
    lowers_jax(primitive)(lower)


_logical("and", "LogicalAnd", "BitwiseAnd")
_logical("or", "LogicalOr", "BitwiseOr")
_logical("not", "LogicalNot", "Invert")


def _in_total_order(primitive: str, tensorflow: str) -> None:
    def lower(x: Array, y: Array) -> Any:
        return DEFAULT.lowers[tensorflow](_rank(x), _rank(y))

    lower.__doc__ = f"As TensorFlow's {tensorflow} of floats in their total order: -NaN, …, -0, 0, …, NaN."
    lowers_jax(primitive)(lower)


def _rank(x: Array) -> Array:
    """An integer for each number, in their order: its bits, turned but for the sign where it is negative."""
    if not dtype(x).is_float:
        return x
    if dtype(x) is not DType.f32:
        raise LowerError("a total order of these numbers", expected="float32", found=dtype(x).value)
    bits = ops.bitcast(x, out_data_type=DType.i32)
    return ops.select_v2(ops.less(bits, np.int32(0)), ops.sub(np.int32(-(2**31)), ops.add(bits, np.int32(1))), bits)


_in_total_order("eq_to", "Equal")
_in_total_order("lt_to", "Less")
_in_total_order("le_to", "LessEqual")


@lowers_jax("xor")
def lower_xor(x: Array, y: Array) -> Array:
    """NOT_EQUAL of bools, BITWISE_XOR of integers."""
    return ops.not_equal(x, y) if dtype(x) is DType.bool else DEFAULT.lowers["BitwiseXor"](x, y)


@lowers_jax("max")
def lower_max(x: Array, y: Array) -> Array:
    """MAXIMUM; the other operand beside -inf, which jax starts reductions from."""
    return _beside(-np.inf, x, y) or DEFAULT.lowers["Maximum"](x, y)


@lowers_jax("min")
def lower_min(x: Array, y: Array) -> Array:
    """MINIMUM; the other operand beside inf."""
    return _beside(np.inf, x, y) or DEFAULT.lowers["Minimum"](x, y)


def _beside(neutral: float, x: Array, y: Array) -> Array | None:
    """The Var beside a scalar constant that changes nothing."""
    for constant, other in ((x, y), (y, x)):
        is_neutral = is_constant(constant) and np.ndim(constant) == 0 and np.asarray(constant) == neutral
        if is_neutral and not is_constant(other):
            return other
    return None


@lowers_jax("abs")
def lower_abs(x: Array) -> Array:
    """ABS, of complex numbers COMPLEX_ABS."""
    return DEFAULT.lowers["ComplexAbs" if dtype(x) is DType.c64 else "Abs"](x)


@lowers_jax("div")
def lower_div(x: Array, y: Array) -> Array:
    """The quotient; of integers towards zero, and -1 (all bits set) where the divisor is 0."""
    if not dtype(x).is_integer:
        return DEFAULT.lowers["RealDiv"](x, y)
    return _by_others_than_0(DEFAULT.lowers["TruncateDiv"], x, y, ~scalar(0, x))


@lowers_jax("rem")
def lower_rem(x: Array, y: Array) -> Array:
    """The remainder with the sign of x; of integers x where the divisor is 0."""
    if not dtype(x).is_integer:
        return DEFAULT.lowers["TruncateMod"](x, y)
    return _by_others_than_0(DEFAULT.lowers["TruncateMod"], x, y, x)


def _by_others_than_0(divide: Callable[[Array, Array], Array], x: Array, y: Array, by_0: Array) -> Array:
    """Integers divided as XLA does it: by 0, too, where the runtime's kernels end with an error."""
    if is_constant(y) and np.all(y):
        return divide(x, y)
    is_0 = ops.equal(y, scalar(0, y))
    return ops.select_v2(is_0, by_0, divide(x, ops.select_v2(is_0, scalar(1, y), y)))


@lowers_jax("round")
def lower_round(x: Array, *, rounding_method: Any) -> Array:
    """The nearest integer; halves go to the even one, or away from zero (rounding_method 0)."""
    if int(rounding_method) == 1:
        return ops.round_(x)
    half = scalar(0.5, x)
    return ops.mul(ops.sign(x), ops.floor(ops.add(ops.abs_(x), half)))


@lowers_jax("exp2")
def lower_exp2(x: Array) -> Array:
    """2 to the power of x."""
    return ops.pow_(scalar(2, x), x)


@lowers_jax("cbrt")
def lower_cbrt(x: Array) -> Array:
    """The real cube root."""
    return ops.mul(ops.sign(x), ops.pow_(ops.abs_(x), scalar(1 / 3, x)))


@lowers_jax("integer_pow")
def lower_integer_pow(x: Array, *, y: int) -> Array:
    """x to a constant integer power, by repeated squares, as XLA computes it."""
    if y == 0:
        return ops.add(ops.mul(x, scalar(0, x)), scalar(1, x))
    power, result, rest = x, None, abs(y)
    while rest:
        if rest & 1:
            result = power if result is None else ops.mul(result, power)
        rest >>= 1
        power = ops.mul(power, power) if rest else power
    return result if y > 0 else ops.div(scalar(1, x), result)


@lowers_jax("clamp")
def lower_clamp(low: Array, x: Array, high: Array) -> Array:
    """min(max(x, low), high)"""
    return DEFAULT.lowers["Minimum"](DEFAULT.lowers["Maximum"](x, low), high)


@lowers_jax("select_n")
def lower_select_n(which: Array, *cases: Array) -> Array:
    """cases[which], element by element.   which: bool or i32, of the cases' shape or a scalar"""
    if dtype(which) is DType.bool:
        return cases[0] if len(cases) == 1 else ops.select_v2(which, cases[1], cases[0])
    result = cases[-1]
    for number in range(len(cases) - 2, -1, -1):
        result = ops.select_v2(ops.equal(which, np.asarray(number, dtype(which).numpy)), cases[number], result)
    return result


@lowers_jax("convert_element_type")
def lower_convert(x: Array, *, new_dtype: Any) -> Array:
    """CAST; numbers become bools by whether they are not 0."""
    new_type = DType.of(np.dtype(new_dtype))
    if new_type is dtype(x):
        return x
    if new_type is DType.bool:
        return ops.not_equal(x, scalar(0, x))
    return DEFAULT.lowers["Cast"](x, DstT=new_type)


@lowers_jax("reduce_precision")
def lower_reduce_precision(x: Array, *, exponent_bits: int, mantissa_bits: int) -> Array:
    """x rounded to f16 or bf16 and back; any other precision is refused."""
    if (exponent_bits, mantissa_bits) == (8, 23):
        return x
    narrow = {(5, 10): DType.f16, (8, 7): DType.bf16}.get((exponent_bits, mantissa_bits))
    if narrow is None:
        raise LowerError("a precision that TFLite lacks", found=f"{exponent_bits} and {mantissa_bits} bits")
    return ops.cast(ops.cast(x, out_data_type=narrow), out_data_type=dtype(x))


@lowers_jax("bitcast_convert_type")
def lower_bitcast(x: Array, *, new_dtype: Any) -> Array:
    """BITCAST."""
    return ops.bitcast(x, out_data_type=DType.of(np.dtype(new_dtype)))


_UNSIGNED = {DType.i8: DType.u8, DType.i16: DType.u16, DType.i32: DType.u32, DType.i64: DType.u64}


@lowers_jax("population_count")
def lower_population_count(x: Array) -> Array:
    """How many bits are set, in the type of x."""
    return ops.cast(DEFAULT.lowers["PopulationCount"](x), out_data_type=dtype(x))


@lowers_jax("shift_right_arithmetic")
def lower_shift_right(x: Array, y: Array) -> Array:
    """RIGHT_SHIFT, which keeps the sign of signed numbers."""
    return DEFAULT.lowers["RightShift"](x, y)


@lowers_jax("shift_right_logical")
def lower_shift_right_logical(x: Array, y: Array) -> Array:
    """RIGHT_SHIFT of the bits as an unsigned number."""
    kind, unsigned = dtype(x), _UNSIGNED.get(dtype(x))
    if unsigned is None:
        return DEFAULT.lowers["RightShift"](x, y)
    shifted = DEFAULT.lowers["RightShift"](*(ops.bitcast(v, out_data_type=unsigned) for v in (x, y)))
    return ops.bitcast(shifted, out_data_type=kind)


@lowers_jax("copy", "copy_p", "stop_gradient", "device_put", "optimization_barrier", "sharding_constraint", "name")
def lower_identity(*values: Array) -> Any:
    """The values themselves."""
    return values if len(values) > 1 else values[0]
