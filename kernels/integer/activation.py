"""Activations on quantized integers: the RELU family, LEAKY_RELU, PRELU and HARD_SWISH."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.integer.numbers.fixed_point import (
    Multiplier,
    high_mul,
    multiplied,
    saturating_shift,
    shifted_right,
    wide,
)
from jfuse.kernels.integer.numbers.gemmlowp import FixedPoint
from jfuse.kernels.integer.numbers.scaling import activation_range, finished, half_away_from_zero
from jfuse.kernels.integer.numbers.wide_tables import softmax_of_words
from jfuse.kernels.integer.tables import is_of_bytes, is_of_bytes_or_words, is_of_words, looked_up
from jfuse.kernels.nn.activation import hard_swish, leaky_relu, prelu, relu, relu6, relu_0_to_1, relu_n1_to_1, softmax


def _declare_relu(op: TflOp, activation: str) -> None:
    def body(types: IntegerTypes, x: Array, /) -> Array:
        """Source: tflite/kernels/activations.cc, QuantizedReluX"""
        ratio = Multiplier.of(_slopes(types, 0)[0])
        x = jnp.asarray(x)
        if types.rounding == "tflm" and activation == "RELU6":  # which takes the scales for equal
            assert types.inputs[0] is not None, "an operand"
            return jnp.clip(x, *activation_range(types.inputs[0], activation)).astype(np.int8)
        return finished(multiplied(x.astype(np.int32) - types.zero_point(0), ratio), types.outputs[0], activation)

    def takes(types: IntegerTypes, options: Params) -> bool:
        in_words = activation == "RELU" or (activation == "RELU6" and types.rounding != "tflm")
        return is_of_bytes_or_words(types) if in_words else is_of_bytes(types)

    op.quantized(takes)(body)


_declare_relu(relu, "RELU")
_declare_relu(relu6, "RELU6")
_declare_relu(relu_n1_to_1, "RELU_N1_TO_1")
_declare_relu(relu_0_to_1, "RELU_0_TO_1")


def _slopes(types: IntegerTypes, alpha: float) -> tuple[float, float]:
    """Of numbers above and below 0, in steps of the result: in f32, but for tflite-micro, which has them in f64."""
    of = np.float64 if types.rounding == "tflm" else np.float32
    x, y = of(types.scale(0)), of(types.output_scale())
    return float(x / y), float(x * of(np.float32(alpha)) / y)


def _takes_leaky(types: IntegerTypes, options: Params) -> bool:
    """Source: XNNPACK/src/operators/unary-elementwise-nc.c"""
    if not is_of_bytes(types):
        return is_of_bytes_or_words(types)
    above, below = _slopes(types, options["alpha"])
    return bool(2.0**-8 <= above <= 2.0**7 and 2.0**-8 <= below <= 2.0**7)


@leaky_relu.quantized(_takes_leaky)
def _leaky_relu(types: IntegerTypes, x: Array, /, *, alpha: float) -> Array:
    """Source: tflite/kernels/internal/reference/leaky_relu.h; XNNPACK/src/reference/unary-elementwise.cc"""
    above, below = _slopes(types, alpha)
    if not is_of_bytes(types):
        x = jnp.asarray(x).astype(np.int32)
        of_both = (multiplied(x, Multiplier.of(slope)) for slope in (above, below))
        return finished(jnp.where(x >= 0, *of_both), types.outputs[0])
    centred = np.arange(-128, 128) - types.zero_point(0)
    if types.on_default_path:
        factors = np.where(centred >= 0, *(int(np.rint(256 * slope)) for slope in (above, below)))
        steps = (centred * factors + 128) >> 8
    else:
        steps = np.where(centred >= 0, *(multiplied(centred, Multiplier.of(float(s))) for s in (above, below)))
    return looked_up(x, np.asarray(finished(steps, types.outputs[0])))


def _takes_prelu(types: IntegerTypes, options: Params) -> bool:
    return is_of_bytes(types) and is_per_tensor(types.inputs[1]) and types.dtypes(1) == (DType.i8,)


@prelu.quantized(_takes_prelu)
def _prelu(types: IntegerTypes, x: Array, alpha: Array, /) -> Array:
    """Source: tflite/kernels/internal/reference/prelu.h"""
    x, alpha = (jnp.asarray(v).astype(np.int32) - types.zero_point(i) for i, v in enumerate((x, alpha)))
    above = multiplied(x, Multiplier.of(float(types.scale(0)) / float(types.output_scale())))
    ratio = float(np.float32(types.scale(0) * types.scale(1))) / float(types.output_scale())
    below = multiplied(x * alpha, Multiplier.of(ratio))
    return finished(jnp.where(x >= 0, above, below), types.outputs[0])


@hard_swish.quantized(is_of_bytes)
def _hard_swish(types: IntegerTypes, x: Array, /) -> Array:
    """Source: tflite/kernels/internal/reference/hard_swish.h; tflite/kernels/activations.cc, HardSwishPrepare"""
    fine = np.float32(1 / 128) * types.scale(0)
    out, out_exponent = _in_16_bits(float(np.float32(fine / types.output_scale())))
    ramp, exponent = _in_16_bits(float(np.float32(fine / np.float32(3 / 32768))))
    centred = (np.arange(-128, 128) - types.zero_point(0)) << 7
    scaled = _high(centred, out)
    gate = saturating_shift(centred, exponent - 1, 16) if exponent > 0 else centred
    gate = _high(gate, ramp)
    gate = saturating_shift(gate, 1, 16) if exponent > 0 else shifted_right(gate, -exponent)
    gate = (gate + (1 << 15)) >> 1
    product = gate * scaled
    cut = np.sign(product) * (np.abs(product) >> 15)
    return looked_up(x, np.asarray(finished(shifted_right(cut, -out_exponent), types.outputs[0])))


def _in_16_bits(real: float) -> tuple[int, int]:
    """A multiplier of 15 bits, and its exponent."""
    of = Multiplier.of(real)
    mantissa = int(of.mantissa)
    return (32767 if mantissa >= (1 << 31) - (1 << 15) else (mantissa + (1 << 15)) >> 16), int(of.shift)


def _high(x: np.ndarray, by: int) -> np.ndarray:
    return np.asarray(np.minimum((x * by + (1 << 14)) >> 15, 32767))


# SOFTMAX on quantized integers.

_WHOLE = 5  # integer bits of what enters exp
_SUM_BITS = 12  # integer bits of a sum of exponentials
_FIXED = FixedPoint(32)


def _takes(types: IntegerTypes, options: Params) -> bool:
    if is_of_words(types):
        return True
    return is_of_bytes(types) and float(types.output_scale()) == 1 / 256 and types.output_zero_point() == -128


@softmax.quantized(_takes)
def _softmax(types: IntegerTypes, x: Array, /, *, beta: float) -> Array:
    if types.dtypes(0) == (DType.i16,):
        return softmax_of_words(types, x, beta)
    x = jnp.asarray(x).astype(np.int32)
    below = x.max(-1, keepdims=True) - x
    return _in_floats(types, below, beta) if types.on_default_path else _in_fixed_point(types, below, beta)


def _in_floats(types: IntegerTypes, below: Array, beta: float) -> Array:
    """Exponentials from a table, added up one by one.   Source: tflite/kernels/internal/optimized/optimized_ops.h"""
    step = np.float32(-types.scale(0) * np.float32(beta))
    table = np.exp((step * np.arange(256).astype(np.float32)).astype(np.float64)).astype(np.float32)
    exponentials = jnp.take(jnp.asarray(table), below, mode="clip")

    def add(total: Array, one: Array) -> tuple[Array, None]:
        return total + one, None

    total, _ = jax.lax.scan(add, jnp.zeros(exponentials.shape[:-1], np.float32), jnp.moveaxis(exponentials, -1, 0))
    inverse = np.float32(1) / (total * types.output_scale())
    return finished(half_away_from_zero(exponentials * inverse[..., None]), types.outputs[0])


def _in_fixed_point(types: IntegerTypes, below: Array, beta: float) -> Array:
    """Source: tflite/kernels/internal/reference/softmax.h; quantization_util.cc, PreprocessSoftmaxScaling"""
    real = min(float(np.float32(beta)) * float(types.scale(0)) * (1 << (31 - _WHOLE)), (1 << 31) - 1.0)
    scale = Multiplier.of(real)
    left = int(scale.shift)
    radius = math.floor(((1 << _WHOLE) - 1) * (1 << (31 - _WHOLE)) / (1 << left))
    entering = np.arange(256)
    counts = entering <= radius
    exponentials = np.asarray(_FIXED.exp_of_negative(high_mul(-entering << left, scale.mantissa), _WHOLE))
    terms = np.where(counts, shifted_right(exponentials, _SUM_BITS), 0)
    exponential, inside, term = (jnp.take(jnp.asarray(t), below, mode="clip") for t in (exponentials, counts, terms))
    total = term.sum(-1, keepdims=True)
    head = wide(jax.lax.clz(total.astype(np.int32)))
    reciprocal = _FIXED.one_over_one_plus((total << head) - (1 << 31))
    quotient = shifted_right(high_mul(reciprocal, exponential), _SUM_BITS - head + 31 - 8)
    return jnp.where(inside, jnp.clip(quotient - 128, -128, 127), -128).astype(np.int8)
