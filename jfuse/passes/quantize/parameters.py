"""Ranges become scales and zero points."""

from __future__ import annotations

from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType

FIRST = {DType.i8: -128, DType.i16: -(2**15)}
_LAST_OF_INT8 = 127
_STEPS = {DType.i8: 127, DType.i16: 2**15 - 1}
_LEAST = 4e-9
"""The least scale: the 6 of a RELU6 is below 2^31 of its steps, beyond which LiteRT refuses the operator
(CalculateActivationRangeQuantized in tflite/kernels/kernel_util.cc), and products of two of them stay normal numbers of
f32. A narrower range is one of noise about zero."""


def parameters(
    low: float, high: float, dtype: DType, *, symmetric: bool = False, least_scale: float = 0.0
) -> Quantization:
    """Scale and zero point of a range, widened so that 0 is one of the integers.   dtype: i8 or i16"""
    low, high = min(low, 0.0), max(high, 0.0)
    if symmetric or dtype is DType.i16:
        return Quantization((_scale(max(-low, high), _STEPS[dtype], least_scale),), (0,))
    first, last = FIRST[DType.i8], _LAST_OF_INT8
    scale = _scale(high - low, last - first, least_scale)
    zero_point = min(max(round(first - low / scale), first), last)
    return Quantization((scale,), (zero_point,))


def _scale(extent: float, steps: int, least: float) -> float:
    """Divide an extent into steps. Zeros alone get some scale: any represents them."""
    return max(extent / steps if extent > 0 else 1 / steps, least, _LEAST)


def real_ends(dtype: DType, quantization: Quantization) -> tuple[float, float]:
    """The real values of the least and greatest integers.   dtype: i8 or i16, which does not use its least one"""
    (scale,), (zero_point,) = quantization.scale, quantization.zero_point
    least, most = (FIRST[dtype], _LAST_OF_INT8) if dtype is DType.i8 else (-_STEPS[dtype], _STEPS[dtype])
    return (least - zero_point) * scale, (most - zero_point) * scale


def as_unsigned(quantization: Quantization) -> Quantization:
    """The parameters with which u8 represents the same numbers as i8."""
    return Quantization(quantization.scale, (quantization.zero_point[0] + 128,))
