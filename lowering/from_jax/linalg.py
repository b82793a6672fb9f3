"""Fourier transforms and small matrices."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import as_dtype, broadcast
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


# dot_general, by the rule for Einsum.

Axes = Sequence[int]


@lowers_jax("dot_general")
def lower_dot_general(
    x: Array,
    y: Array,
    *,
    dimension_numbers: tuple[tuple[Axes, Axes], tuple[Axes, Axes]],
    preferred_element_type: Any = None,
) -> Array:
    """Products summed over the contracting axes; the result has the batch axes, the rest of x, the rest of y."""
    (x_sum, y_sum), (x_batch, y_batch) = dimension_numbers
    names = iter(ascii_letters)
    x_labels = [next(names) for _ in range(rank(x))]
    y_labels = [""] * rank(y)
    for i, j in (*zip(x_sum, y_sum, strict=True), *zip(x_batch, y_batch, strict=True)):
        y_labels[j] = x_labels[i]
    y_labels = [label or next(names) for label in y_labels]
    result = [x_labels[i] for i in x_batch]
    result += [label for i, label in enumerate(x_labels) if i not in (*x_sum, *x_batch)]
    result += [label for j, label in enumerate(y_labels) if j not in (*y_sum, *y_batch)]
    equation = f"{''.join(x_labels)},{''.join(y_labels)}->{''.join(result)}"
    result_type = None if preferred_element_type is None else DType.of(np.dtype(preferred_element_type))
    # jax leaves a product of a real and a complex operand to the type that it asks for; wider sums do not overflow.
    if dtype(x) is not dtype(y) or (result_type is not None and result_type.numpy.itemsize > dtype(x).numpy.itemsize):
        common = result_type or DType.of(np.result_type(dtype(x).numpy, dtype(y).numpy))
        x, y = as_dtype(x, common), as_dtype(y, common)
    product = DEFAULT.lowers["Einsum"](x, y, equation=equation)
    return product if result_type is None else as_dtype(product, result_type)
