"""Fourier transforms and small matrices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast
from jfuse.lowering.rule_tools.query import dtype, rank
from jfuse.lowering.rules import DEFAULT, lowers_jax

_TRANSFORMS = {
    ("RFFT", 1): "RFFT",
    ("IRFFT", 1): "IRFFT",
    ("FFT", 1): "FFT",
    ("IFFT", 1): "IFFT",
    ("RFFT", 2): "RFFT2D",
    ("IRFFT", 2): "IRFFT2D",
    ("FFT", 2): "FFT2D",
    ("IFFT", 2): "IFFT2D",
}


@lowers_jax("fft")
def lower_fft(x: Array, *, fft_type: Any, fft_lengths: Sequence[int]) -> Array:
    """The Fourier transform over the last axis or the last two, as TensorFlow's of the same name."""
    kind = getattr(fft_type, "name", str(fft_type))
    name = _TRANSFORMS.get((kind, len(fft_lengths)))
    if name is None:
        raise LowerError("a Fourier transform over more than two axes", found=f"{kind} of {tuple(fft_lengths)}")
    if "R" in kind:
        return DEFAULT.lowers[name](x, np.array(fft_lengths, np.int32))
    return DEFAULT.lowers[name](x)


@lowers_jax("cholesky")
def lower_cholesky(x: Array, *, symmetrize_input: bool = True) -> Array:
    """The lower triangular factor."""
    return DEFAULT.lowers["Cholesky"](x)


@lowers_jax("triangular_solve")
def lower_triangular_solve(
    a: Array, b: Array, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool, unit_diagonal: bool
) -> Array:
    """The x with a x = b, or x a = b.   unit_diagonal: what stands on the diagonal of a counts as 1"""
    if conjugate_a and dtype(a) is DType.c64:
        raise LowerError("a conjugated triangular system", remedy="conjugate the matrix before")
    if unit_diagonal:
        a = ops.matrix_set_diag(a, broadcast(np.ones([1] * (rank(a) - 1), np.float32), tuple(a.shape[:-1])))
    if left_side:
        return DEFAULT.lowers["MatrixTriangularSolve"](a, b, lower=lower, adjoint=transpose_a)
    swapped = DEFAULT.lowers["MatrixTriangularSolve"](a, _turned(b), lower=lower, adjoint=not transpose_a)
    return _turned(swapped)


def _turned(x: Array) -> Array:
    axes = list(range(len(x.shape)))
    axes[-2:] = axes[-2:][::-1]
    return DEFAULT.lowers["Transpose"](x, np.array(axes, np.int32))
