"""Sums of products of integers: of bytes as such on CPUs, elsewhere in floats that hold them exactly.

On x86 XLA has kernels for products of bytes that add up to 32 bits: measured with jaxlib 0.10.2, a 3x3 convolution over
32 channels takes 1/4 of its time in f32. GPUs have none for every shape, so floats serve there: a sum of k products of
numbers below 2^a and 2^b is below k * 2^(a+b), and as long as that is at most 2^24 (f32) or 2^53 (f64), no partial sum
is rounded, in whatever order it is made.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.kernels.core.op import Array

_F32 = 2**24


def float_of(terms: Any, *magnitudes: int) -> type[np.floating[Any]]:
    """The type in which so many products of numbers of these magnitudes add up exactly.

    terms: an int, or an open size, for which f64 is taken.
    """
    product = 1
    for magnitude in magnitudes:
        product *= magnitude
    return np.float32 if isinstance(terms, int) and terms * product <= _F32 else np.float64


def in_bytes_or_floats(
    x: Array, in_bytes: Callable[[Array], Array], in_floats: Callable[[Array, Any], Array], terms: Any
) -> Array:
    """`in_bytes` of x on CPUs, elsewhere `in_floats` of it in the type that it is given as well.   x: i8[...] -> i32

    terms: of a sum of products of bytes. Weights stand in the functions: XLA's kernels want them to be constants.
    """
    dtype = float_of(terms, 128, 128)

    def of_floats(x: Array) -> Array:
        return in_floats(x.astype(dtype), dtype).astype(np.int32)

    return lax.platform_dependent(jnp.asarray(x), cpu=in_bytes, default=of_floats)


def in_two_bytes(x: Array, sums: Callable[[Array], Array], weights: Array) -> Array:
    """Sums of products of numbers of 16 bits: those of their upper and of their lower bytes.   x: i16[...] -> i64

    sums: of i8[...], zeros around it. weights: what the weights add up to that meet x.
    """
    x = jnp.asarray(x)
    lower = ((x & 255) - 128).astype(np.int8)
    parts = sums((x >> 8).astype(np.int8)), sums(lower) + 128 * weights
    return 256 * parts[0].astype(np.int64) + parts[1].astype(np.int64)


def integer_products(rows: Array, weights: Array) -> Array:
    """rows times the transposed weights.   rows: i8[...,k], weights: i8[n,k] -> i32[...,n]"""

    def in_floats(rows: Array, dtype: Any) -> Array:
        return jnp.matmul(rows, weights.astype(dtype).T, precision=lax.Precision.HIGHEST)

    return in_bytes_or_floats(rows, lambda rows: byte_products(rows, weights), in_floats, weights.shape[1])


def byte_products(rows: Array, weights: Array) -> Array:
    """As `integer_products`, in bytes."""
    over = (((rows.ndim - 1,), (1,)), ((), ()))
    products: jax.Array = lax.dot_general(rows, jnp.asarray(weights), over, preferred_element_type=jnp.int32)
    return products
