"""1 / sqrt(x) of integers as a fixed-point number.   Source: quantization_util.cc, GetInvSqrtQuantizedMultiplierExp"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import high_mul, saturating_shift, shifted_right, wide

_HALF_ROOT_OF_TWO = 1518500250


def inverse_root(x: Array) -> tuple[Array, Array]:
    """(m, r) with 1 / sqrt(x) = m * 2^(-31 - r).   x: i64[...] of positive 32-bit integers -> i64[...] twice"""
    value, shift = x, jnp.full_like(x, 11)
    large = value >= 1 << 29  # at most one division by four: 2^31 / 4 is 2^29
    value, shift = jnp.where(large, value // 4, value), jnp.where(large, shift + 1, shift)
    again = value >= 1 << 29
    value, shift = jnp.where(again, value // 4, value), jnp.where(again, shift + 1, shift)
    pairs = (wide(jax.lax.clz(value.astype(np.int32))) - 1) // 2 - 1
    shift, value = shift - pairs, value << (2 * pairs)
    entering = value >> 1
    half = shifted_right(entering, 1)
    root = jnp.full_like(x, 1 << 28)
    for _ in range(5):
        cube = saturating_shift(high_mul(high_mul(root, root), root), 6, 32)
        root = saturating_shift(high_mul(root, 3 << 27) - high_mul(half, cube), 3, 32)
    root = high_mul(root, _HALF_ROOT_OF_TWO)
    root = jnp.where(shift < 0, root << jnp.maximum(-shift, 0), root)
    is_one = x <= 1
    return jnp.where(is_one, (1 << 31) - 1, root), jnp.where(is_one, 0, jnp.maximum(shift, 0))
