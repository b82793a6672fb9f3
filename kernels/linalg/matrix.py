"""Diagonals of matrices: MATRIX_DIAG and MATRIX_SET_DIAG."""

from __future__ import annotations

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import TensorType
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, namespace, tfl


@tfl("MATRIX_DIAG", linear="joint")
def matrix_diag(diagonal: Array, /) -> Array:
    """Square matrices with the diagonal given and zeros elsewhere.

    diagonal: n[..., k] -> n[..., k, k]   Source: tflite/kernels/matrix_diag.cc
    """
    xp = namespace(diagonal)
    line = xp.arange(diagonal.shape[-1])
    return xp.where(line[:, None] == line, diagonal[..., None, :], xp.zeros((), diagonal.dtype))


@tfl("MATRIX_SET_DIAG", linear="joint")
def matrix_set_diag(x: Array, diagonal: Array, /) -> Array:
    """x with another main diagonal.

    x: n[..., m, n]; diagonal: n[..., min(m, n)]   Source: tflite/kernels/matrix_set_diag.cc
    """
    xp = namespace(x, diagonal)
    row, column = xp.arange(x.shape[-2])[:, None], xp.arange(x.shape[-1])
    return xp.where(row == column, xp.take(diagonal, xp.minimum(row, column), axis=-1), x)


@matrix_set_diag.types
def _matrix_set_diag_type(x: TensorType, diagonal: TensorType) -> TensorType:
    if x.rank != diagonal.rank + 1 or x.dtype is not diagonal.dtype:
        raise TypeMismatch("matrices and diagonals that do not fit", found=f"{x}, {diagonal}")
    for d, e in zip(x.shape[:-2], diagonal.shape[:-1], strict=True):
        agreed(d, e)
    return TensorType(x.shape, x.dtype)
