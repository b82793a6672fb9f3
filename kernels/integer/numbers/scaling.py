"""The last steps of an integer body: real steps of the result, the range of an activation, the element type."""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
import numpy as np

from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import IntegerTypes, scale_of, zero_point_of
from jfuse.kernels.core.op import Array, namespace
from jfuse.kernels.integer.numbers.fixed_point import half_away

EIGHT_BITS = frozenset({DType.i8})
CLAMPS = frozenset({"NONE", "RELU", "RELU6", "RELU_N1_TO_1"})
"""Fused activations that integer kernels have."""
_ENDS: Mapping[str, tuple[float | None, float | None]] = {
    "NONE": (None, None),
    "RELU": (0.0, None),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),  # an operator, but no fused activation
}


def activation_range(t: TensorType, activation: str = "NONE") -> tuple[int, int]:
    """The integers that a result may have, those of a fused activation.

    Source: tflite/kernels/kernel_util.cc, CalculateActivationRangeQuantized
    """
    info = np.iinfo(t.dtype.numpy)
    least, greatest = int(info.min), int(info.max)
    scale, zero = scale_of(t), zero_point_of(t)

    def step(real: float) -> int:
        return zero + half_away(float(np.float32(real) / scale))

    low, high = _ENDS[activation]
    return max(least, least if low is None else step(low)), min(greatest, greatest if high is None else step(high))


def finished(total: Array, t: TensorType, activation: str = "NONE") -> Array:
    """Integers with the zero point of a result, within its range and type.   total: i32[...] or i64[...]"""
    least, greatest = activation_range(t, activation)
    return namespace(total).clip(total + zero_point_of(t), least, greatest).astype(t.dtype.numpy)


def product_scales(types: IntegerTypes, x: int, weights: int) -> np.ndarray:
    """scale(x) * scale(weights) / scale(result), in f64: f64[] or f64[channels].

    Source: tflite/kernels/kernel_util.cc, PopulateConvolutionQuantizationParams
    """
    of = types.quantization(weights)
    assert of is not None, "quantized weights"
    scales = np.array(of.scale, np.float32).astype(np.float64)
    multipliers = np.float64(types.scale(x)) * scales / np.float64(types.output_scale())
    return multipliers[0] if len(scales) == 1 else multipliers


def float_scales(types: IntegerTypes, x: int, weights: int) -> np.ndarray:
    """As `product_scales`, in f32 throughout.   Source: XNNPACK/src/operators/convolution-nhwc.c"""
    of = types.quantization(weights)
    assert of is not None, "quantized weights"
    scales = types.scale(x) * np.array(of.scale, np.float32) / types.output_scale()
    return scales[0] if len(scales) == 1 else scales


def to_nearest_even(x: Array) -> Array:
    """f32[...] -> i32[...], halves to the even integer; numbers beyond 2^30 in size come out as large as that."""
    limit = np.float32(2**30)
    return jnp.clip(jnp.round(x), -limit, limit).astype(jnp.int32)


def half_away_from_zero(x: Array) -> Array:
    """f[...] -> i32[...], halves away from zero; numbers beyond 2^30 in size come out as large as that.

    Not `lax.round`: on CPU (jaxlib 0.10.2) it makes -483 of -482.49997.
    """
    limit = x.dtype.type(2.0**30)
    whole = jnp.trunc(jnp.clip(x, -limit, limit))
    away = jnp.abs(x - whole) >= 0.5  # the difference is exact
    return whole.astype(jnp.int32) + jnp.where(away, jnp.sign(x), 0).astype(jnp.int32)


def divided(x: Array, scale: float) -> Array:
    """x / scale, rounded once.   x: f[...]

    XLA makes of a division by a constant a product with its reciprocal: so the divisor is none.
    """
    return x / jnp.where(x == x, x.dtype.type(scale), x.dtype.type(1))
