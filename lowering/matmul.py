"""Matrix products: constant right operands become the weights of FULLY_CONNECTED, others BATCH_MATMUL."""

from __future__ import annotations

from jfuse.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rules import lowers


@lowers("MatMul")
def lower_matmul(a: Array, b: Array, *, transpose_a: bool = False, transpose_b: bool = False) -> Array:
    """a @ b.   a: f[m, k] or f[k, m], b: f[k, n] or f[n, k] -> f[m, n]"""
    return matrix_product(a, b, transpose_a, transpose_b)


@lowers("BatchMatMul", "BatchMatMulV2")
def lower_batch_matmul(x: Array, y: Array, *, adj_x: bool = False, adj_y: bool = False) -> Array:
    """x @ y over the last two axes; leading axes broadcast.   x: f[..., m, k], y: f[..., k, n] -> f[..., m, n]"""
    return matrix_product(x, y, adj_x, adj_y)


@lowers("BatchMatMulV3")
def lower_batch_matmul_v3(x: Array, y: Array, *, Tout: DType, adj_x: bool = False, adj_y: bool = False) -> Array:
    """BatchMatMulV2 whose result may be wider than its operands, which TFLite does not have."""
    if not dtype(x) is dtype(y) is Tout:
        raise LowerError(
            "a matrix product of mixed dtypes",
            expected="operands and result of one dtype",
            found=f"{type_of(x)} times {type_of(y)} as {Tout.value}",
            remedy="cast both operands to the result's dtype before the product",
        )
    return matrix_product(x, y, adj_x, adj_y)


def matrix_product(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    """The product of the last two axes, with TFLite's op for weights where y is a constant matrix."""
    if transpose_x or rank(y) != 2 or not is_constant(y) or is_constant(x):
        return ops.batch_matmul(x, y, adj_x=transpose_x, adj_y=transpose_y)
    # FULLY_CONNECTED stores weights [n, k]; the transpose of a constant is a view.
    weights = y if transpose_y else y.T
    return ops.fully_connected(x, weights, keep_num_dims=rank(x) > 2)
