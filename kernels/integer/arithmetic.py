"""ADD, SUB, MUL, SQUARED_DIFFERENCE, ABS and roots on quantized integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor, scale_of, zero_point_of
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, high_mul, multiplied, multiplied_once, wide
from jfuse.kernels.integer.numbers.inverse_root import inverse_root
from jfuse.kernels.integer.numbers.scaling import CLAMPS, finished, to_nearest_even
from jfuse.kernels.integer.tables import is_of_bytes, is_of_bytes_or_words, looked_up
from jfuse.kernels.math.elementwise import (
    abs_,
    add,
    equal,
    greater,
    greater_equal,
    less,
    less_equal,
    mul,
    not_equal,
    rsqrt,
    sqrt,
    squared_difference,
    sub,
)
from jfuse.kernels.math.reduce import axis_tuple, mean, sum_

_LEAST, _END = 2.0**-10, 2.0**8
"""Scales of terms over that of the sum that XNNPACK takes.   Source: xnnpack_delegate.cc, VisitAddNode"""
_LEAST_PRODUCT = 2.0**-16
_END_IN_16_BITS = 2.0**12
"""Of a term's scale over that of the sum: four times as large, LiteRT ends the process. XNNPACK has no 16 bits."""
_ABREAST = 16
"""Elements of 16 bits that LiteRT's ADD takes together on x86-64.   Source: optimized/integer_ops/add.h"""


def _takes(types: IntegerTypes, options: Params) -> bool:
    quantized = [t for t in (*types.inputs, *types.outputs) if t is not None and is_per_tensor(t)]
    if len(quantized) < 3 or options["fused_activation_function"] not in CLAMPS:
        return False
    dtypes = {t.dtype for t in quantized}
    return dtypes == {DType.i8} or (dtypes == {DType.i16} and not any(map(zero_point_of, quantized)))


def _takes_sum(types: IntegerTypes, options: Params) -> bool:
    if not _takes(types, options):
        return False
    tensors = [t for t in (*types.inputs, *types.outputs) if t is not None]
    if tensors[0].dtype is DType.i16 and options["pot_scale_int16"] and all(map(_is_power_of_two, tensors)):
        return False  # which are added by shifts
    ratios = [types.scale(i) / types.output_scale() for i in (0, 1)]
    if tensors[0].dtype is DType.i16:
        return bool(max(ratios) < _END_IN_16_BITS)
    return bool(min(ratios) >= _LEAST and max(ratios) < _END)  # other kernels wrap around, or round by place


def _takes_product(types: IntegerTypes, options: Params) -> bool:
    if not _takes(types, options):
        return False
    least = 0.0 if types.outputs[0].dtype is DType.i16 else _LEAST_PRODUCT
    return bool(least <= _product_scale(types) < _END)


def _is_power_of_two(t: TensorType) -> bool:
    return bool(np.frexp(scale_of(t))[0] == 0.5)


def _on_xnnpack(types: IntegerTypes) -> bool:
    return types.on_default_path and types.outputs[0].dtype is DType.i8


@add.quantized(_takes_sum)
def _add(types: IntegerTypes, x: Array, y: Array, /, *, fused_activation_function: str, **_: Any) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/add.h"""
    return _sum(types, x, y, 1, fused_activation_function)


@sub.quantized(_takes_sum)
def _sub(types: IntegerTypes, x: Array, y: Array, /, *, fused_activation_function: str, **_: Any) -> Array:
    """Source: tflite/kernels/internal/reference/sub.h"""
    return _sum(types, x, y, -1, fused_activation_function)


def _sum(types: IntegerTypes, x: Array, y: Array, sign: int, activation: str) -> Array:
    x, y = jnp.asarray(x), jnp.asarray(y)
    if _on_xnnpack(types):
        total = _sum_on_xnnpack(types, x, y, sign)
    elif sign > 0 and types.on_default_path and x.shape == y.shape:
        total = _sum_by_place(types, x, y)
    else:
        total = _sum_in_fixed_point(types, x, y, sign, multiplied)
    return finished(total, types.outputs[0], activation)


def _sum_in_fixed_point(types: IntegerTypes, x: Array, y: Array, sign: int, scaled: Any) -> Array:
    """Both terms in the larger one's scale, with more bits.   scaled: what multiplies them with it   -> i64[...]"""
    left = 20 if types.outputs[0].dtype is DType.i8 else 15
    twice = 2.0 * float(max(types.scale(0), types.scale(1)))
    terms = [
        scaled((wide(v) - types.zero_point(i)) << left, Multiplier.of(float(types.scale(i)) / twice))
        for i, v in enumerate((x, y))
    ]
    total = terms[0] + sign * terms[1]
    return multiplied(total, Multiplier.of(twice / (2.0**left * float(types.output_scale()))))


def _sum_by_place(types: IntegerTypes, x: Array, y: Array) -> Array:
    """A sum of 16 bits whose terms are rounded once, but twice in what is left of the last whole group of elements."""
    once, twice = (_sum_in_fixed_point(types, x, y, 1, scaled).ravel() for scaled in (multiplied_once, multiplied))
    together = x.size // _ABREAST * _ABREAST
    return jnp.where(np.arange(x.size) < together, once, twice).reshape(x.shape)


def _sum_on_xnnpack(types: IntegerTypes, x: Array, y: Array, sign: int) -> Array:
    """Multipliers of 21 bits, and one shift, rounded half up.   Source: XNNPACK/src/microparams-init.c   -> i32[...]"""
    ratios = [np.float32(types.scale(i) / types.output_scale()) for i in (0, 1)]
    exponent = int(np.frexp(max(ratios))[1]) - 1
    shift = 20 - exponent
    first, second = (int(np.rint(np.ldexp(np.float64(r), shift))) for r in ratios)
    second *= sign
    bias = (1 << (shift - 1)) - first * types.zero_point(0) - second * types.zero_point(1)
    total = bias + first * wide(x) + second * wide(y)
    return total >> shift


@mul.quantized(_takes_product)
def _mul(types: IntegerTypes, x: Array, y: Array, /, *, fused_activation_function: str, **_: Any) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/mul.h; XNNPACK/src/microparams-init.c, rndnu on arm64"""
    terms = [jnp.asarray(v).astype(np.int32) - types.zero_point(i) for i, v in enumerate((x, y))]
    product, scale = terms[0] * terms[1], _product_scale(types)
    if _on_xnnpack(types) and types.rounding == "arm64":
        steps: Array = multiplied_once(product, Multiplier.of(float(scale)))
    elif _on_xnnpack(types):
        steps = to_nearest_even(product.astype(np.float32) * scale)
    else:
        steps = multiplied(product, Multiplier.of(float(scale)))
    return finished(steps, types.outputs[0], fused_activation_function)


def _takes_squares(types: IntegerTypes, options: Params) -> bool:
    quantized = [t for t in (*types.inputs, *types.outputs) if t is not None and is_per_tensor(t)]
    return len(quantized) == 3 and {t.dtype for t in quantized} == {DType.i8}


@squared_difference.quantized(_takes_squares)
def _squared_difference(types: IntegerTypes, x: Array, y: Array, /) -> Array:
    """Source: tflite/kernels/squared_difference.cc"""
    left, twice = 7, 2.0 * float(max(types.scale(0), types.scale(1)))
    terms = [
        multiplied((wide(jnp.asarray(v)) - types.zero_point(i)) << left, Multiplier.of(float(types.scale(i)) / twice))
        for i, v in enumerate((x, y))
    ]
    square = (terms[0] - terms[1]) ** 2
    steps = multiplied(square, Multiplier.of(twice**2 / (4.0**left * float(types.output_scale()))))
    return finished(steps, types.outputs[0])


_MORE_BITS = 20  # of a root of an integer from 1 to 255


@rsqrt.quantized(is_of_bytes)
def _rsqrt(types: IntegerTypes, x: Array, /) -> Array:
    """The greatest integer for 0, and for negative numbers, which end an invoke of the runtimes.

    Source: tflite/kernels/elementwise.cc, RsqrtEvalQuantized; tflite-micro's has the scales in f64
    """
    value = wide(jnp.asarray(x)) - types.zero_point(0)
    mantissa, right = inverse_root(jnp.maximum(value, 1))
    root = high_mul(1 << (_MORE_BITS - right), mantissa)
    of = np.float64 if types.rounding == "tflm" else np.float32
    scale = Multiplier.of(1.0 / float(np.sqrt(of(types.scale(0))) * of(types.output_scale())))
    steps = multiplied(root, replace(scale, shift=scale.shift - _MORE_BITS))
    return finished(jnp.where(value > 0, steps, np.iinfo(np.int16).max), types.outputs[0])


@sqrt.quantized(is_of_bytes)
def _sqrt(types: IntegerTypes, x: Array, /) -> Array:
    """Cut off, not rounded; negative numbers end an invoke of the runtime.   Source: tflite/kernels/elementwise.cc"""
    reals = types.scale(0) * np.maximum(np.arange(-128, 128) - types.zero_point(0), 0).astype(np.float32)
    return looked_up(
        x, np.asarray(finished((np.sqrt(reals) / types.output_scale()).astype(np.int32), types.outputs[0]))
    )


def _takes_one(types: IntegerTypes, options: Params) -> bool:
    quantized = [t for t in (*types.inputs, *types.outputs) if t is not None and is_per_tensor(t)]
    return (
        len(quantized) == 2 and len({t.dtype for t in quantized}) == 1 and quantized[0].dtype in (DType.i8, DType.i16)
    )


@abs_.quantized(_takes_one)
def _abs(types: IntegerTypes, x: Array, /) -> Array:
    """Source: tflite/kernels/elementwise.cc, AbsEvalQuantized; tflite-micro's has the scales in f64"""
    size = jnp.abs(wide(jnp.asarray(x)) - types.zero_point(0))
    of = np.float64 if types.rounding == "tflm" else np.float32
    scale = float(of(types.scale(0)) / of(types.output_scale()))
    return finished(size if scale == 1 else multiplied(size, Multiplier.of(scale)), types.outputs[0])


def _product_scale(types: IntegerTypes) -> Any:
    """f32[], or f64[] in tflite-micro.   Source: tflite/kernels/mul.cc; micro/kernels/mul_common.cc"""
    of = np.float64 if types.rounding == "tflm" else np.float32
    return of(types.scale(0)) * of(types.scale(1)) / of(types.output_scale())


# EQUAL, LESS and the other comparisons of quantized integers.

_BITS = 8  # that are added before scales are multiplied in


def _takes_bytes(types: IntegerTypes, options: Params) -> bool:
    quantized = [t for t in types.inputs if t is not None and is_per_tensor(t) and t.dtype is DType.i8]
    return len(quantized) == 2 and all(types.scale(i) < 1 for i in (0, 1))


def _declare_comparison(op: TflOp) -> None:
    def body(types: IntegerTypes, x: Array, y: Array, /) -> Array:
        """Source: tflite/kernels/comparisons.cc, ComparisonQuantized"""
        x, y = (
            multiplied(
                (jnp.asarray(v).astype(np.int32) - types.zero_point(i)) << _BITS, Multiplier.of(float(types.scale(i)))
            )
            for i, v in enumerate((x, y))
        )
        return op.body(x, y)

    op.quantized(_takes_bytes)(body)


for _op in (equal, greater, greater_equal, less, less_equal, not_equal):
    _declare_comparison(_op)


# MEAN and SUM on quantized integers.


@mean.quantized(is_of_bytes_or_words)
def _mean_of_integers(types: IntegerTypes, x: Array, axes: Any, /, *, keep_dims: bool) -> Array:
    """Source: tflite/kernels/internal/reference/reduce.h, QuantizedMeanOrSum"""
    return _reduced(types, x, axes, keep_dims, is_mean=True)


def _takes_total(types: IntegerTypes, options: Params) -> bool:
    return types.rounding != "reference" and is_of_bytes(types, options)  # whose sum of bytes wraps around


@sum_.quantized(_takes_total)
def _sum_of_bytes(types: IntegerTypes, x: Array, axes: Any, /, *, keep_dims: bool) -> Array:
    """Source: tflite/kernels/reduce.cc, EvalSum"""
    return _reduced(types, x, axes, keep_dims, is_mean=False)


def _reduced(types: IntegerTypes, x: Array, axes: Any, keep_dims: bool, *, is_mean: bool) -> Array:
    axis = axis_tuple(axes)
    x = jnp.asarray(x).astype(np.int32) - types.zero_point(0)
    total = x.sum(axis, keepdims=keep_dims, dtype=np.int32)
    count = int(np.prod([x.shape[a] for a in axis])) if is_mean else 1
    scale = float(types.scale(0)) / float(types.output_scale())
    if types.on_default_path and is_of_bytes(types):
        steps: Array = to_nearest_even(total.astype(np.float32) * np.float32(np.float32(scale) / np.float32(count)))
    else:
        steps = multiplied(total, _over(Multiplier.of(scale), count))
    return finished(steps, types.outputs[0])


def _over(by: Multiplier, count: int) -> Multiplier:
    """A multiplier divided by a number of elements, cut off.

    Source: tflite/kernels/internal/reference/reduce.h, QuantizedMeanOrSum
    """
    left = min(count.bit_length() - 1, 32, 31 + int(by.shift)) if count > 1 else 0
    return Multiplier((by.mantissa << left) // count, by.shift - left)
