"""Operators of StableHLO that compute element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import max_dim, min_dim

from jfuse.frontends.stablehlo.rules import ModuleReader, reads
from jfuse.frontends.stablehlo.values import are_sizes, as_array, is_sizes, result_type

_PLAIN: Mapping[str, Callable[..., Any]] = {
    "abs": lax.abs,
    "cbrt": lax.cbrt,
    "ceil": lax.ceil,
    "cosine": lax.cos,
    "count_leading_zeros": lax.clz,
    "exponential": lax.exp,
    "exponential_minus_one": lax.expm1,
    "floor": lax.floor,
    "imag": lax.imag,
    "is_finite": lax.is_finite,
    "log": lax.log,
    "log_plus_one": lax.log1p,
    "logistic": lax.logistic,
    "negate": lax.neg,
    "not": lax.bitwise_not,
    "popcnt": lax.population_count,
    "real": lax.real,
    "round_nearest_even": lambda x: lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN),
    "round_nearest_afz": lambda x: lax.round(x, lax.RoundingMethod.AWAY_FROM_ZERO),
    "rsqrt": lax.rsqrt,
    "sign": lax.sign,
    "sine": lax.sin,
    "sqrt": lax.sqrt,
    "tan": lax.tan,
    "tanh": lax.tanh,
    "add": lambda x, y: lax.bitwise_or(x, y) if x.dtype == bool else lax.add(x, y),
    "and": lax.bitwise_and,
    "atan2": lax.atan2,
    "complex": lax.complex,
    "divide": lax.div,
    "maximum": lax.max,
    "minimum": lax.min,
    "multiply": lambda x, y: lax.bitwise_and(x, y) if x.dtype == bool else lax.mul(x, y),
    "or": lax.bitwise_or,
    "power": lax.pow,
    "remainder": lax.rem,
    "shift_left": lax.shift_left,
    "shift_right_arithmetic": lax.shift_right_arithmetic,
    "shift_right_logical": lax.shift_right_logical,
    "subtract": lax.sub,
    "xor": lax.bitwise_xor,
}
_OF_SIZES: Mapping[str, Callable[..., Any]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.floor_divide,
    "remainder": np.mod,
    "negate": np.negative,
    "maximum": np.frompyfunc(max_dim, 2, 1),
    "minimum": np.frompyfunc(min_dim, 2, 1),
}
"""NumPy functions for arithmetic on sizes; sizes are positive, so floor division equals truncation."""


def _plain(name: str, function: Callable[..., Any]) -> None:
    def read(reader: ModuleReader, op: Any, *operands: Any) -> Any:
        if are_sizes(operands) and name in _OF_SIZES:
            return np.asarray(_OF_SIZES[name](*(np.asarray(o, object) for o in operands)), object)
        return function(*(as_array(o, result_type(op)[1]) for o in operands))

    reads(f"stablehlo.{name}")(read)


for _name, _function in _PLAIN.items():
    _plain(_name, _function)

_CHLO: Mapping[str, Callable[..., Any]] = {
    "acos": lax.acos,
    "acosh": lax.acosh,
    "asin": lax.asin,
    "asinh": lax.asinh,
    "atan": lax.atan,
    "atanh": lax.atanh,
    "bessel_i1e": lax.bessel_i1e,
    "cosh": lax.cosh,
    "digamma": lax.digamma,
    "erf": lax.erf,
    "erf_inv": lax.erf_inv,
    "erfc": lax.erfc,
    "lgamma": lax.lgamma,
    "next_after": lax.nextafter,
    "sinh": lax.sinh,
    "square": lax.square,
    "tan": lax.tan,
}
"""Functions that stand in a file as a composite of that name, with a decomposition, or as an operator of CHLO."""


def named_function(name: str) -> Callable[..., Any] | None:
    """jax's function for chlo.erf and its like."""
    return _CHLO.get(name.removeprefix("chlo.")) if name.startswith("chlo.") else None


for _name, _function in _CHLO.items():
    reads(f"chlo.{_name}")(lambda reader, op, *operands, function=_function: function(*operands))

_COMPARE: Mapping[str, Callable[..., Any]] = {
    "EQ": lax.eq,
    "NE": lax.ne,
    "GE": lax.ge,
    "GT": lax.gt,
    "LE": lax.le,
    "LT": lax.lt,
}


@reads("stablehlo.compare")
def _compare(reader: ModuleReader, op: Any, x: Any, y: Any) -> Any:
    direction = str(op.attributes["comparison_direction"]).rsplit(maxsplit=1)[-1].rstrip(">")
    kinds = [v.dtype for v in (x, y) if not is_sizes(v)]
    x, y = (as_array(v, kinds[0] if kinds else np.int32) for v in (x, y))
    return _COMPARE[direction](x, y)


@reads("stablehlo.select")
def _select(reader: ModuleReader, op: Any, which: Any, x: Any, y: Any) -> Any:
    x, y = (as_array(v, result_type(op)[1]) for v in (x, y))
    if np.ndim(which) == 0 and np.ndim(x):
        which = lax.broadcast(which, x.shape)
    return lax.select(which, x, y)


@reads("stablehlo.clamp")
def _clamp(reader: ModuleReader, op: Any, least: Any, x: Any, most: Any) -> Any:
    if are_sizes((least, x, most)):
        return _OF_SIZES["minimum"](_OF_SIZES["maximum"](x, least), most)
    return lax.clamp(*(as_array(v, result_type(op)[1]) for v in (least, x, most)))


@reads("stablehlo.convert")
def _convert(reader: ModuleReader, op: Any, x: Any) -> Any:
    kind = result_type(op)[1]
    if is_sizes(x) and kind.kind in "iu":
        return x
    if isinstance(x, np.ndarray) and not is_sizes(x) and not x.ndim:
        return x.astype(kind)
    return lax.convert_element_type(as_array(x), kind)


@reads("stablehlo.bitcast_convert")
def _bitcast(reader: ModuleReader, op: Any, x: Any) -> Any:
    return lax.bitcast_convert_type(x, result_type(op)[1])


@reads("stablehlo.reduce_precision")
def _reduce_precision(reader: ModuleReader, op: Any, x: Any) -> Any:
    return lax.reduce_precision(x, *(int(op.attributes[n]) for n in ("exponent_bits", "mantissa_bits")))


@reads("stablehlo.optimization_barrier")
def _barrier(reader: ModuleReader, op: Any, *operands: Any) -> Any:
    return list(operands)


@reads("stablehlo.batch_norm_inference")
def _batch_norm(reader: ModuleReader, op: Any, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    axis = int(op.attributes["feature_index"])
    shape = [d if i == axis else 1 for i, d in enumerate(x.shape)]
    scale, offset, mean, variance = (jnp.reshape(v, shape) for v in (scale, offset, mean, variance))
    epsilon = np.asarray(float(op.attributes["epsilon"].value), x.dtype)
    return (x - mean) * lax.rsqrt(variance + epsilon) * scale + offset
