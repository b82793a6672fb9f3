"""exp, logistic and tanh of fixed-point numbers, as gemmlowp has them: 16 or 32 bits in arrays of twice as many.

A number with `whole` integer bits has `bits - 1 - whole` fraction bits.
Source: gemmlowp/fixedpoint/fixedpoint.h
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from jfuse.kernels.core.op import Array, namespace
from jfuse.kernels.integer.numbers.fixed_point import high_mul, saturating_shift, shifted_right

_FACTORS = (
    (-2, 1672461947),
    (-1, 1302514674),
    (0, 790015084),
    (1, 290630308),
    (2, 39332535),
    (3, 720401),
    (4, 242),
)
"""exp(-2^n) in 31 fraction bits, by n."""


@cache
def table_of(function: Literal["logistic", "tanh"], whole: int) -> np.ndarray:
    """i16[65536]: the function of -32768, -32767, … with so many integer bits."""
    entering = np.arange(-(1 << 15), 1 << 15, dtype=np.int32)
    table: np.ndarray = getattr(FixedPoint(16), function)(entering, whole).astype(np.int16)
    return table


class FixedPoint:
    """The functions for numbers of so many bits."""

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._most = (1 << (bits - 1)) - 1

    def logistic(self, x: Array, whole: int) -> Array:
        """1 / (1 + exp(-x)), without integer bits."""
        positive = self.one_over_one_plus(self.exp_of_negative(-namespace(x).abs(x), whole))
        signed = namespace(x).where(x > 0, positive, self._most - positive)
        return namespace(x).where(x == 0, 1 << (self._bits - 2), signed)

    def tanh(self, x: Array, whole: int) -> Array:
        """tanh(x), without integer bits."""
        size = self._ratio(self.exp_of_negative(-namespace(x).abs(x), whole + 1))
        return namespace(x).where(x == 0, 0, namespace(x).sign(x) * size)

    def exp_of_negative(self, x: Array, whole: int) -> Array:
        """exp(x) of numbers that are not above 0, without integer bits."""
        fraction = self._bits - 1 - whole
        quarter = 1 << (fraction - 2)
        rest = (x & (quarter - 1)) - quarter
        result = self._exp_near_zero(self._rescaled(rest, whole, 0))
        remainder = rest - x
        for exponent, factor in _FACTORS:
            if whole > exponent:
                bit = (remainder >> (fraction + exponent)) & 1
                result = namespace(x).where(bit == 1, self._mul(result, self._constant(factor)), result)
        if whole > 5:
            result = namespace(x).where(x < -(1 << (fraction + 5)), 0, result)
        return namespace(x).where(x == 0, self._most, result)

    def one_over_one_plus(self, x: Array) -> Array:
        """1 / (1 + x) of numbers in [0, 1], without integer bits."""
        return saturating_shift(self._reciprocal(x), 1, self._bits)

    def _ratio(self, x: Array) -> Array:
        """(1 - x) / (1 + x)."""
        return saturating_shift(self._wrapped(self._reciprocal(x) - (1 << (self._bits - 3))), 2, self._bits)

    def _reciprocal(self, x: Array) -> Array:
        """2 / (1 + x) by three steps of Newton and Raphson, with two integer bits."""
        total = x + self._most
        half = (total + 1) >> 1  # neither term is negative
        one = 1 << (self._bits - 3)
        quotient = self._wrapped(self._constant(1515870810) + self._mul(half, self._constant(-1010580540)))
        for _ in range(3):
            error = self._wrapped(one - self._mul(half, quotient))
            quotient = self._wrapped(quotient + saturating_shift(self._mul(quotient, error), 2, self._bits))
        return quotient

    def _exp_near_zero(self, x: Array) -> Array:
        """exp(x) on [-1/4, 0)."""
        c = self._constant(1895147668)
        x = self._wrapped(x + (1 << (self._bits - 4)))
        x2 = self._mul(x, x)
        x3 = self._mul(x2, x)
        x4 = self._mul(x2, x2)
        sixths = self._mul(self._wrapped(shifted_right(x4, 2) + x3), self._constant(715827883))
        terms = shifted_right(self._wrapped(sixths + x2), 1)
        total = c + self._mul(self._wrapped(x + terms), c)
        return namespace(x).clip(total, -self._most - 1, self._most) if self._bits == 16 else self._wrapped(total)

    def _mul(self, x: Array, y: Array) -> Array:
        return high_mul(x, y, self._bits)

    def _rescaled(self, x: Array, bits_before: int, wanted: int) -> Array:
        return saturating_shift(x, bits_before - wanted, self._bits)

    def _constant(self, value: int) -> int:
        return value if self._bits == 32 else (value + (1 << 15) - (value < 0)) >> 16

    def _wrapped(self, x: Array) -> Array:
        size = 1 << self._bits
        return ((x + size // 2) & (size - 1)) - size // 2
