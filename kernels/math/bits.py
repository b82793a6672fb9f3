"""Ops on the bits of integers, and one type's bits read as another's."""

from __future__ import annotations

import jax
import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels.core.op import Amount, Array, namespace, tfl
from jfuse.kernels.math.elementwise import binary, matched

bitwise_xor = binary("BITWISE_XOR", "bitwise_xor", "The bits that x and y differ in")


@tfl("STABLEHLO_AND", elementwise=True)
def stablehlo_and(x: Array, y: Array, /) -> Array:
    """The bits that x and y share.   x, y: i[...]|bool[...], of one shape -> the same type

    Source: tflite/kernels/stablehlo_elementwise.cc
    """
    return matched(x, y).bitwise_and(x, y)


@tfl("RIGHT_SHIFT", elementwise=True)
def right_shift(x: Array, y: Amount, /) -> Array:
    """x * 2**-y rounded down; y below 0 counts as 0, beyond the width as the width - 1.   x, y: i[...] -> i[...]

    Source: tflite/kernels/right_shift.cc
    """
    xp = matched(x, y)
    width = 8 * x.dtype.itemsize
    return xp.right_shift(x, xp.clip(y, 0, width - 1))


@tfl("BITCAST")
def bitcast(x: Array, /, *, out_data_type: DType) -> Array:
    """The bits of x read as another dtype: a last axis is added where that is narrower, and taken where it is wider.

    x: number[...] or number[..., n], n elements of x to one of the result -> number[..., n] or number[...]

    Source: tflite/kernels/bitcast.cc
    """
    if namespace(x) is not np:
        return jax.lax.bitcast_convert_type(x, out_data_type.numpy)
    wanted = np.dtype(out_data_type.numpy)
    if wanted.itemsize == x.dtype.itemsize:
        return x.view(wanted)
    last = x if wanted.itemsize > x.dtype.itemsize else x[..., None]
    values = np.ascontiguousarray(last).view(wanted)
    return values[..., 0] if wanted.itemsize > x.dtype.itemsize else values
