"""Spectra and complex numbers: RFFT2D, REAL, IMAG and COMPLEX_ABS."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, Static, namespace, tfl

_COMPLEX = {DType.f32: DType.c64, DType.f64: DType.c128}


@tfl("RFFT2D", linear="first")
def rfft2d(x: Array, fft_length: Static, /) -> Array:
    """The spectra of the last two axes, cut or filled up with zeros to fft_length, without the mirrored half.

    x: f[...,h,w]; fft_length: i32[2], powers of 2 -> c[...,fft_length[0],fft_length[1]//2+1]. Computed in double
    precision, as the runtime does.
    Source: tflite/kernels/rfft2d.cc
    """
    xp = namespace(x)
    return xp.fft.rfft2(x.astype(np.float64), s=fft_length).astype(_COMPLEX[DType.of(x.dtype)].numpy)


@rfft2d.types
def _rfft2d_type(x: TensorType, fft_length: Any) -> TensorType:
    height, width = fft_length
    # The runtime reads beyond its buffers for a width of 1.
    if x.rank < 2 or x.dtype not in _COMPLEX or width == 1 or any(n < 1 or n & (n - 1) for n in fft_length):
        raise TypeMismatch(
            "RFFT2D takes floats of rank 2 or more and lengths that are powers of 2, the width 2 or more",
            found=f"{x}, {fft_length}",
        )
    return TensorType((*x.shape[:-2], height, width // 2 + 1), _COMPLEX[x.dtype])


@tfl("REAL", elementwise=True, linear="joint")
def real(x: Array, /) -> Array:
    """The real part.   x: c[...] -> f[...]   Source: tflite/kernels/complex_support.cc"""
    return namespace(x).real(x)


@tfl("IMAG", elementwise=True, linear="joint")
def imag(x: Array, /) -> Array:
    """The imaginary part.   x: c[...] -> f[...]   Source: tflite/kernels/complex_support.cc"""
    return namespace(x).imag(x)


@tfl("COMPLEX_ABS", elementwise=True)
def complex_abs(x: Array, /) -> Array:
    """The distance from 0, where neither a square overflows nor vanishes.   x: c[...] -> f[...]

    Source: tflite/kernels/complex_support.cc
    """
    return namespace(x).abs(x)
