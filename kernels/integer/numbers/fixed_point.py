"""Multiplication of integers by real numbers, in integers.

Arrays are NumPy's or jax's; products are of 64 bits, and jax's x64 must be on, as ops have it.
Source: tflite/kernels/internal/common.h, tflite/kernels/internal/quantization_util.cc, gemmlowp/fixedpoint/fixedpoint.h
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.kernels.core.op import Array, namespace


@dataclass(frozen=True)
class Multiplier:
    """Real numbers as `mantissa * 2^(shift - 31)`, mantissas in [2^30, 2^31): scalars, or vectors for channels."""

    mantissa: np.ndarray
    shift: np.ndarray

    @classmethod
    def of(cls, real: Any) -> Multiplier:
        """The multiplier of f64[] or f64[n].   Source: QuantizeMultiplier"""
        pairs = [_parts(float(r)) for r in np.ravel(np.asarray(real, np.float64))]
        mantissa, shift = (np.array(v, np.int64).reshape(np.shape(real)) for v in zip(*pairs, strict=True))
        return cls(mantissa, shift)


def _parts(real: float) -> tuple[int, int]:
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    mantissa = half_away(fraction * 2.0**31)
    if mantissa == 2**31:
        mantissa, shift = mantissa // 2, shift + 1
    return (0, 0) if shift < -31 else (mantissa, shift)


def half_away(real: float) -> int:
    """The nearest integer of a number below 2^52, halves away from zero."""
    return int(math.copysign(math.floor(abs(real) + 0.5), real))


def high_mul(x: Array, y: Any, bits: int = 32) -> Array:
    """x * y / 2^(bits - 1), rounded to nearest, halves up.   x, y: i64[...] of values of `bits` bits -> i64[...]

    Of the least numbers alone the result does not fit: then the greatest number.
    Source: SaturatingRoundingDoublingHighMul
    """
    rounded = (x * y + (1 << (bits - 2))) >> (bits - 1)
    return namespace(x).minimum(rounded, (1 << (bits - 1)) - 1)


def shifted_right(x: Array, count: Any) -> Array:
    """x / 2^count, rounded to nearest, halves away from zero, in x's type.   Source: RoundingDivideByPOT"""
    count = namespace(count).asarray(count, x.dtype)
    half = (1 << count) >> 1
    down = (half > 0).astype(x.dtype)
    return (x + half - (x < 0) * down) >> count


def shifted_right_half_up(x: Array, count: Any) -> Array:
    """x / 2^count, rounded to nearest, halves up.   x: i64[...]"""
    count = namespace(count).asarray(count, np.int64)
    return (x + ((1 << count) >> 1)) >> count


def multiplied(x: Array, by: Multiplier) -> Array:
    """x times real numbers, rounded twice.   x: i32[...] or i64[...] with values of 32 bits -> i64[...]

    Source: MultiplyByQuantizedMultiplier
    """
    return shifted_right(_high(x, by), np.maximum(-by.shift, 0))


def multiplied_half_up(x: Array, by: Multiplier) -> Array:
    """As `multiplied`, of whose roundings the second takes halves up as well: rows of 16 bits without a bias on x86-64.

    Measured with LiteRT 2.3.0.   x: i32[...] or i64[...] with values of 32 bits -> i64[...]
    """
    return shifted_right_half_up(_high(x, by), np.maximum(-by.shift, 0))


def _high(x: Array, by: Multiplier) -> Array:
    """x times mantissas, shifted to the left as far as multipliers say."""
    return high_mul(in_32_bits(wide(x) << np.maximum(by.shift, 0)), by.mantissa)


def multiplied_once(x: Array, by: Multiplier) -> Array:
    """As `multiplied`, rounded once, halves up, as LiteRT's matrix products of bytes have it.   x: below 2^31

    So have rows of 16 bits without a bias on arm64 (measured with LiteRT 2.3.0).

    Source: ruy/kernel_avx512.cc
    """
    return shifted_right_half_up(wide(x) * by.mantissa, 31 - by.shift)


def multiplied_wide(x: Array, by: Multiplier) -> Array:
    """x times real numbers of 15 bits, rounded once, halves up.   x: i64[...] below 2^47 -> i64[...]

    Source: MultiplyByQuantizedMultiplier of int64_t
    """
    mantissa = np.where(by.mantissa < 0x7FFF0000, (by.mantissa + (1 << 15)) >> 16, 0x7FFF)
    return shifted_right_half_up(x * mantissa, 15 - by.shift)


def saturating_shift(x: Array, left: int, bits: int) -> Array:
    """x * 2^left within `bits` bits, rounded where left is negative.   Source: SaturatingRoundingMultiplyByPOT"""
    if left <= 0:
        return shifted_right(x, -left)
    xp = namespace(x)
    return xp.clip(x << left, -(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def wide(x: Array) -> Array:
    """x in i64, so that sums and products of i32 cannot overflow."""
    return x.astype(np.int64)


def in_32_bits(x: Array) -> Array:
    """i64[...] whose values are wrapped around to 32 bits, as C++ does where i32 overflows."""
    return x.astype(np.int32).astype(np.int64)
