"""QUANTIZE and DEQUANTIZE: between real numbers and the integers that represent them.

The scale is part of a tensor's type, which arrays do not have. So the ops themselves compute only the part that needs
no scale, and `dequantized` is the formula for callers that know the types.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, namespace, tfl


@tfl("DEQUANTIZE", scales="out_of")
def dequantize(x: Array, /) -> Array:
    """The real numbers.   x: f16[...] | bf16[...] -> f32[...]; integers with a scale in a graph

    Source: tflite/kernels/dequantize.cc
    """
    if x.dtype.kind in "iu":
        raise TypeMismatch("integers without a scale", expected="a float, or quantized integers of a graph")
    return x.astype(np.float32)


@tfl("QUANTIZE", scales="into")
def quantize(x: Array, /) -> Array:
    """Quantize real numbers, or requantize integers; in a graph alone.

    x: f32[...] | i8[...] | u8[...] | i16[...] | i32[...] -> i8[...] | u8[...] | i16[...] | i32[...]
    Source: tflite/kernels/quantize.cc
    """
    raise TypeMismatch("the integers depend on the type of the result", expected="an equation of a graph")


@quantize.types
def _quantize_type(x: TensorType) -> TensorType:
    return replace(x, dtype=DType.f32, quantization=None)  # whatever the file states has this shape


def dequantized(x: Array, quantization: Quantization) -> Array:
    """scale * (x - zero_point), bit for bit as DEQUANTIZE has it.   x: i4, i8, u8 or i16[...] -> f32[...]

    One scale for all, or one for each index of `quantization.axis`; zero points with one scale and up to 8 bits alone.
    LiteRT's kernel computes x * scale + -zero_point * scale, each rounded to f32 (measured on 2.3.0): where there is a
    zero point, those few values are looked up, as a compiler may round the sum of a product once.
    """
    shape = [-1 if i == quantization.axis else 1 for i in range(x.ndim)] if len(quantization.scale) > 1 else []
    scale = np.array(quantization.scale, np.float32).reshape(shape)
    if not any(quantization.zero_point):
        return x.astype(np.float32) * scale
    low, high = -128, 255  # of signed and unsigned bytes
    values = np.arange(low, high + 1).astype(np.float32) * scale
    values += np.float32(-quantization.zero_point[0]) * scale
    return namespace(x).take(values, x.astype(np.int32) - low)


# FAKE_QUANT: the values that a quantized tensor could hold, as floats.


def nudged_range(low: float, high: float, num_bits: int, narrow_range: bool) -> tuple[float, float, float]:
    """The step, and the range moved so that 0 is one of the steps: (step, least, greatest), rounded as f32.

    Source: tflite/kernels/internal/quantization_util.cc, NudgeQuantizationRange
    """
    first, last = np.float32(narrow_range), np.float32(2**num_bits - 1)
    step = (np.float32(high) - np.float32(low)) / (last - first)
    zero = np.floor(np.clip(first - np.float32(low) / step, first, last) + np.float32(0.5))
    return float(step), float((first - zero) * step), float((last - zero) * step)


@tfl("FAKE_QUANT", elementwise=True, switch="round")
def fake_quant(
    x: Array,
    /,
    *,
    min: float = 0.0,  # noqa: A002 - the schema's name
    max: float = 0.0,  # noqa: A002 - the schema's name
    num_bits: int = 0,
    narrow_range: bool = False,
) -> Array:
    """x cut to a range and rounded to one of its 2**num_bits steps.   x: f32[...] -> f32[...]

    Source: tflite/kernels/fake_quant.cc
    """
    xp = namespace(x)
    step, low, high = (x.dtype.type(v) for v in nudged_range(min, max, num_bits, narrow_range))
    steps = (xp.clip(x, low, high) - low) * (x.dtype.type(1) / step)
    return xp.floor(steps + x.dtype.type(0.5)) * step + low
