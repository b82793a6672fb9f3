"""Histograms in fixed memory: the bins are the leading bits of an f32, so any two histograms add up exactly."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

_MANTISSA = 7  # bits: a bin is as wide as 1/128 to 1/256 of the numbers in it, a step of int8 at the end of its range
_LOW, _HIGH = -32, 32  # exponents; smaller numbers count as 0, larger ones as those of the last bin
_PER_SIGN = (_HIGH - _LOW) << _MANTISSA
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
    return np.bincount(bin_of(x[np.isfinite(x)]), minlength=BINS)
