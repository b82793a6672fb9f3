"""Histograms in fixed memory: the bins are the leading bits of an f32, so any two histograms add up exactly."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

_MANTISSA = 7  # bits: a bin is as wide as 1/128 to 1/256 of the numbers in it, a step of int8 at the end of its range
_LOW, _HIGH = -32, 32  # exponents; smaller numbers count as 0, larger ones as those of the last bin
_PER_SIGN = (_HIGH - _LOW) << _MANTISSA
_FIRST = ((_LOW + 127) << _MANTISSA) - 1  # the leading bits of all numbers that count as 0 are at most these
_UPPER = 1 if sys.byteorder == "little" else 0  # which half of a number has its leading bits
BINS = 2 * _PER_SIGN + 1
"""How many bins there are: the same number for either sign, and one for 0 between them."""


def bin_of(x: Any) -> Any:
    """The bin of each number, of NumPy or of jax.   x: finite f32[...] -> i32[...] in [0, BINS)"""
    bits = x.view(np.int32) if isinstance(x, np.ndarray) else x.view(jnp.int32)
    xp: Any = np if isinstance(x, np.ndarray) else jnp
    leading = (bits & 0x7FFFFFFF) >> (23 - _MANTISSA)
    place = xp.clip(leading - ((_LOW + 127) << _MANTISSA) + 1, 0, _PER_SIGN)
    return _PER_SIGN + xp.where(bits < 0, -place, place)


@cache
def edges() -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest number of each bin, f64[BINS] each; both are 0 for the bin of 0."""
    steps = np.arange(_PER_SIGN + 1)
    ends = np.exp2(_LOW + (steps >> _MANTISSA)) * (1 + (steps & ((1 << _MANTISSA) - 1)) / (1 << _MANTISSA))
    low = np.concatenate([-ends[:0:-1], [0.0], ends[:-1]])
    high = np.concatenate([-ends[-2::-1], [0.0], ends[1:]])
    return low, high


def counted(x: np.ndarray) -> np.ndarray:
    """How many of the finite numbers lie in each bin.   x: f32[...] -> i64[BINS]"""
    counts = np.zeros(BINS, np.int64)
    count(counts, x[np.isfinite(x)])
    return counts


def count(counts: np.ndarray, x: np.ndarray) -> None:
    """Add finite numbers to the bins.   counts: i64[BINS]; x: f32[...]

    As `bin_of` has it, on the upper halves of the numbers, of which NumPy computes many at once; adding each of them
    where it belongs takes a fifth of the time of a histogram of its own, which `np.bincount` would make.
    """
    upper = np.ascontiguousarray(np.ravel(x).view(np.int16)[_UPPER::2])
    places = (upper & np.int16(0x7FFF)).clip(_FIRST, _FIRST + _PER_SIGN) - np.int16(_FIRST)
    sign = upper >> 15  # -1 or 0: what follows negates, or does nothing
    np.add.at(counts, ((places ^ sign) - sign) + np.int16(_PER_SIGN), 1)
