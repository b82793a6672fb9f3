"""Matrix products: FULLY_CONNECTED and BATCH_MATMUL."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.lax import Precision

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import is_known, same
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed, agreed_where_broadcast
from jfuse.kernels.core.op import Array, namespace, tfl
from jfuse.kernels.math.elementwise import matched
from jfuse.kernels.nn.activation import activate

_WIDE = 4  # times as many results as terms, from which on a term more costs less than a pass over the results


def product(x: Array, y: Array) -> Array:
    """The matrix product, in full precision on every device.   x: f[..., m, k], y: f[..., k, n] -> f[..., m, n]"""
    xp = matched(x, y)
    if xp is jnp:
        # GPUs multiply f32 in a shorter format unless told otherwise.
        return jnp.matmul(x, y, precision=Precision.HIGHEST)
    return xp.matmul(x, y).astype(x.dtype)  # of bfloat16 NumPy gives f32


@tfl("FULLY_CONNECTED", linear="each", clamps=True, product="matrices")
def fully_connected(
    x: Array,
    weights: Array,
    bias: Array | None = None,
    /,
    *,
    fused_activation_function: str = "NONE",
    weights_format: str = "DEFAULT",
    keep_num_dims: bool = False,
    asymmetric_quantize_inputs: bool = False,
    quantized_bias_type: DType = DType.f32,
) -> Array:
    """x times the transposed weights, plus bias.   x: f[..., k] or any shape of rows of k, weights: f[n, k], bias: f[n]

    Result: f[..., n] where keep_num_dims is set, else f[rows, n].   Source: tflite/kernels/fully_connected.cc
    """
    if keep_num_dims:
        agreed(x.shape[-1], weights.shape[1])
    rows = x if keep_num_dims else x.reshape((-1, weights.shape[1]))
    if bias is not None and _bias_is_a_term(rows, weights):
        rows = jnp.concatenate([rows, jnp.ones_like(rows[..., :1])], -1)
        weights, bias = jnp.concatenate([weights, bias[:, None]], 1), None
    result = product(rows, weights.T)
    return activate(result if bias is None else result + bias, fused_activation_function)


def _bias_is_a_term(rows: Array, weights: Array) -> bool:
    """Whether the bias is better taken for weights of a term that is always 1 than added to all results.

    XLA adds it in a pass of its own over the results of many rows, as of a sequence ahead of a loop: measured with
    jaxlib 0.10.2 on two cores, the product and the loop of a GRU of 128 units together took 1.15 times as long.
    """
    outputs, inputs = weights.shape
    is_wide = is_known(outputs) and is_known(inputs) and outputs >= _WIDE * inputs
    return is_wide and rows.ndim > 2 and same(rows.shape[0], 1) is False and isinstance(rows, jax.core.Tracer)


@tfl("BATCH_MATMUL", linear="each", product="matrices")
def batch_matmul(
    x: Array, y: Array, /, *, adj_x: bool = False, adj_y: bool = False, asymmetric_quantize_inputs: bool = False
) -> Array:
    """The product of the last two axes, leading axes broadcast; adj_ transposes an operand's last two axes.

    x: f[..., m, k], y: f[..., k, n] -> f[..., m, n]   Source: tflite/kernels/batch_matmul.cc
    """
    left, right = x.swapaxes(-1, -2) if adj_x else x, y.swapaxes(-1, -2) if adj_y else y
    agreed(left.shape[-1], right.shape[-2])
    agreed_where_broadcast(left.shape[:-2], right.shape[:-2])
    return product(left, right)


# Diagonals of matrices: MATRIX_DIAG and MATRIX_SET_DIAG.


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
