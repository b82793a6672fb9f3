"""Sums of products of integers, computed in floats that hold them exactly: XLA is slow at products of bytes.

A sum of k products of numbers below 2^a and 2^b is below k * 2^(a+b): as long as that is at most 2^24 (f32) or 2^53
(f64), no partial sum is rounded, in whatever order it is made.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

_F32 = 2**24


def float_of(terms: Any, *magnitudes: int) -> type[np.floating[Any]]:
    """The type in which so many products of numbers of these magnitudes add up exactly.

    terms: an int, or an open size, for which f64 is taken.
    """
    product = 1
    for magnitude in magnitudes:
        product *= magnitude
    return np.float32 if isinstance(terms, int) and terms * product <= _F32 else np.float64


def as_float(x: Any, dtype: type[np.floating[Any]]) -> Any:
    """Integers in a float dtype, which the caller takes wide enough to hold each of them."""
    return x.astype(dtype)


def as_integers(total: Any, dtype: type[np.signedinteger[Any]] = np.int32) -> Any:
    """Floats that are integers as such."""
    return jnp.asarray(total).astype(dtype)
