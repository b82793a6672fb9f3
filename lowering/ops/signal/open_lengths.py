"""Fourier transforms over axes of open length: products with sines and cosines that are computed at run time."""

from __future__ import annotations

import numpy as np

from jfuse.ir.dims import Dim
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.rule_tools.query import rank
from jfuse.lowering.rule_tools.shape_tensors import counted, size_tensor

Parts = tuple[Array, Array | None]
"""Real and imaginary part; None where that is 0."""


def open_spectrum(x: Parts, length: Dim, bins: Dim, *, inverse: bool) -> Parts:
    """The first bins of a transform of all elements of the last axis.   x: f32[...,length] -> f32[...,bins]"""
    real, imaginary = x
    cos, sin = _waves(length, bins, length, real)
    if inverse:
        count = ops.cast(size_tensor(length, [real]), out_data_type=DType.f32)
        cos, sin = ops.div(cos, count), ops.neg(ops.div(sin, count))
    of_real = _times(real, cos), ops.neg(_times(real, sin))
    if imaginary is None:
        return of_real
    return ops.add(of_real[0], _times(imaginary, sin)), ops.add(of_real[1], _times(imaginary, cos))


def open_real_signal(x: Parts, length: Dim) -> Array:
    """Signals of that length from the first half of their spectra.   x: f32[...,length//2+1] -> f32[...,length]"""
    real, imaginary = x
    bins = length // 2 + 1
    cos, sin = _waves(bins, length, length, real)
    numbers, count = counted(bins, real), size_tensor(length, [real])
    # Every bin but the first stands for its mirror image too, except for the middle one of an even length.
    is_first = ops.equal(numbers, np.int32(0))
    is_middle = ops.equal(ops.mul(numbers, np.int32(2)), count)
    alone = ops.cast(ops.logical_or(is_first, is_middle), out_data_type=DType.f32)
    counts = ops.div(ops.sub(np.float32(2), alone), ops.cast(count, out_data_type=DType.f32))
    signal = _times(ops.mul(real, counts), cos)
    return signal if imaginary is None else ops.sub(signal, _times(ops.mul(imaginary, counts), sin))


def _waves(rows: Dim, columns: Dim, length: Dim, like: Array) -> tuple[Array, Array]:
    """cos and sin of 2 pi i k / length.   f32[rows,columns]

    Angles are reduced to one turn in integers: i k overflows i32 where the matrix itself has 2^31 elements.
    """
    places = ops.mul(ops.expand_dims(counted(rows, like), np.int32(1)), counted(columns, like))
    size = size_tensor(length, [like])
    turns = ops.cast(ops.floor_mod(places, size), out_data_type=DType.f32)
    angles = ops.mul(turns, ops.div(np.float32(2 * np.pi), ops.cast(size, out_data_type=DType.f32)))
    return ops.cos(angles), ops.sin(angles)


def _times(x: Array, matrix: Array) -> Array:
    """The products of the last axis; a vector is a row there."""
    if rank(x) > 1:
        return matrix_product(x, matrix, False, False)
    row = matrix_product(ops.expand_dims(x, np.int32(0)), matrix, False, False)
    return ops.squeeze(row, squeeze_dims=(0,))
