"""SOFTMAX on quantized integers."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, high_mul, shifted_right, wide
from jfuse.kernels.integer.numbers.gemmlowp import FixedPoint
from jfuse.kernels.integer.numbers.scaling import finished, half_away_from_zero
from jfuse.kernels.integer.numbers.wide_tables import softmax_of_words
from jfuse.kernels.integer.tables import is_of_bytes, is_of_words
from jfuse.kernels.nn.activation import softmax

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
