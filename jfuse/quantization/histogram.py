"""Histograms in fixed memory: the bins are the leading bits of an f32, so any two histograms add up exactly."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.running.litert_worker.tallies import BINS, LOW, MANTISSA, PER_SIGN, Histogram, bin_of_bits

__all__ = ["BINS", "Histogram", "bin_of", "counted", "edges"]


def bin_of(x: Any) -> Any:
    """The bin of each number, of NumPy or of jax.   x: finite f32[...] -> i32[...] in [0, BINS)"""
    return bin_of_bits(x.view(np.int32)) if isinstance(x, np.ndarray) else bin_of_bits(x.view(jnp.int32), jnp)


@cache
def edges() -> tuple[np.ndarray, np.ndarray]:
    """The least and the greatest number of each bin, f64[BINS] each; both are 0 for the bin of 0."""
    steps = np.arange(PER_SIGN + 1)
    ends = np.exp2(LOW + (steps >> MANTISSA)) * (1 + (steps & ((1 << MANTISSA) - 1)) / (1 << MANTISSA))
    low = np.concatenate([-ends[:0:-1], [0.0], ends[:-1]])
    high = np.concatenate([-ends[-2::-1], [0.0], ends[1:]])
    return low, high


def counted(x: np.ndarray) -> np.ndarray:
    """How many of the finite numbers lie in each bin.   x: f32[...] -> i64[BINS]"""
    histogram = Histogram()
    histogram.add(x[np.isfinite(x)])
    return histogram.counts()
