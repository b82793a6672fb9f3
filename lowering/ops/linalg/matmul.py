"""Matrix products, and Einsum: constant right operands become the weights of FULLY_CONNECTED, others BATCH_MATMUL.

Integers, for which the runtime has no product, are multiplied and summed up.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from functools import reduce

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Shape, product, same
from jfuse.ir.graph import Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.linalg.matrix import diagonal_of, lower_matrix_diag
from jfuse.lowering.ops.math.complex_numbers import lower_conj
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped, zeros
from jfuse.lowering.rules import lowers


@lowers("MatMul")
def lower_matmul(
    a: Array,
    b: Array,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    grad_a: bool = False,
    grad_b: bool = False,
) -> Array:
    """a @ b.   a: n[m, k] or n[k, m], b: n[k, n] or n[n, k] -> n[m, n]

    grad_a, grad_b: whether an operand is a gradient, which changes no value.   Source: tensorflow/core/ops/math_ops.cc
    """
    return matrix_product(a, b, transpose_a, transpose_b)


@lowers("BatchMatMul", "BatchMatMulV2")
def lower_batch_matmul(
    x: Array, y: Array, *, adj_x: bool = False, adj_y: bool = False, grad_x: bool = False, grad_y: bool = False
) -> Array:
    """x @ y over the last two axes; leading axes broadcast.   x: n[..., m, k], y: n[..., k, n] -> n[..., m, n]

    grad_x, grad_y: as those of MatMul.
    """
    return matrix_product(_conjugated(x, adj_x), _conjugated(y, adj_y), adj_x, adj_y)


def _conjugated(x: Array, adjoint: bool) -> Array:
    """x as BATCH_MATMUL, which only transposes, has to get it for TensorFlow's adjoint."""
    return lower_conj(x) if adjoint and dtype(x) is DType.c64 else x


@lowers("BatchMatMulV3")
def lower_batch_matmul_v3(x: Array, y: Array, *, Tout: DType, adj_x: bool = False, adj_y: bool = False) -> Array:
    """BatchMatMulV2 of operands cast to the result's dtype, which is to hold all of their values."""
    if not all(np.can_cast(dtype(v).numpy, Tout.numpy, "safe") for v in (x, y)):
        raise LowerError(
            "a matrix product narrower than its operands",
            expected="a result that holds every value of the operands",
            found=f"{type_of(x)} times {type_of(y)} as {Tout.value}",
            remedy="cast both operands to the result's dtype before the product",
        )
    if Tout.is_integer and is_constant(y) and rank(y) == 2 and all(dtype(v).numpy.itemsize == 1 for v in (x, y)):
        return _of_bytes(_transposed(x, adj_x), _transposed(y, adj_y), Tout)
    wide_x, wide_y = (v if dtype(v) is Tout else ops.cast(v, out_data_type=Tout) for v in (x, y))
    return matrix_product(wide_x, wide_y, adj_x, adj_y)


def matrix_product(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    """The product of the last two axes, with TFLite's op for weights where y is a constant matrix."""
    if is_constant(x) and is_constant(y):
        return ops.batch_matmul(x, y, adj_x=transpose_x, adj_y=transpose_y)
    if 0 in x.shape or 0 in y.shape:  # XNNPACK fails on products without elements, or sums of none (LiteRT 2.3.0)
        return zeros(_result_shape(x, y, transpose_x, transpose_y), dtype(x), [x, y])
    if dtype(x).is_integer:
        return _of_integers(_transposed(x, transpose_x), _transposed(y, transpose_y))
    if not transpose_x and rank(y) == 2 and is_constant(y):
        x = _in_rows_of(x, y.shape[1 if transpose_y else 0])  # FULLY_CONNECTED takes rows of any other number as well
        # FULLY_CONNECTED stores weights [n, k]; the transpose of a constant is a view.
        return ops.fully_connected(x, y if transpose_y else y.T, keep_num_dims=rank(x) > 2)
    if max(rank(x), rank(y)) > _MOST_AXES:
        return _with_merged_batch(x, y, transpose_x, transpose_y)
    return ops.batch_matmul(x, y, adj_x=transpose_x, adj_y=transpose_y)


def _in_rows_of(x: Array, size: int) -> Array:
    """x, with rows that have this size: what no symbol can be for that fails at run time, as in TensorFlow."""
    agreed(x.shape[-1], size)
    row_size = active_trace().resolve(type_of(x)).shape[-1] if isinstance(x, Var) else x.shape[-1]
    return x if same(row_size, size) else shaped(x, (*x.shape[:-1], size))


_MOST_AXES = 5  # of BATCH_MATMUL


def _result_shape(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Shape:
    return (*_batch(x, y), x.shape[-1 if transpose_x else -2], y.shape[-2 if transpose_y else -1])


def _batch(x: Array, y: Array) -> Shape:
    """The leading axes of a product."""
    shapes = [tuple(v.shape[:-2]) for v in (x, y)]
    longest = max(map(len, shapes))
    aligned = zip(*((1,) * (longest - len(s)) + s for s in shapes), strict=True)
    return tuple(e if same(d, 1) else d for d, e in aligned)


def _transposed(x: Array, transpose: bool) -> Array:
    n = rank(x)
    return ops.transpose(x, np.array([*range(n - 2), n - 1, n - 2], np.int32)) if transpose else x


def _of_integers(x: Array, y: Array) -> Array:
    """Every product of a row and a column, summed up: the kernels of matrix products take floats only."""
    rows, columns = ops.expand_dims(x, np.int32(-1)), ops.expand_dims(y, np.int32(-3))
    products = ops.mul(rows, columns)
    return ops.sum_(products, np.array([rank(products) - 2], np.int32))


def _of_bytes(x: Array, y: Array, wide: DType) -> Array:
    """The product with a matrix of integers of 8 bits, exactly: floats hold sums of so many products."""
    parts = []
    for first in range(0, y.shape[0], _MOST_PRODUCTS):
        rows = y[first : first + _MOST_PRODUCTS]
        columns = x if len(rows) == y.shape[0] else _columns(x, first, len(rows))
        total = matrix_product(ops.cast(columns, out_data_type=DType.f32), rows.astype(np.float32), False, False)
        parts.append(ops.cast(total, out_data_type=wide))
    return reduce(ops.add, parts) if parts else matrix_product(ops.cast(x, out_data_type=wide), y, False, False)


_MOST_PRODUCTS = 2**24 // 255**2


def _columns(x: Array, first: int, count: int) -> Array:
    begin, end = np.zeros(rank(x), np.int32), np.zeros(rank(x), np.int32)
    begin[-1], end[-1] = first, first + count
    mask = 2 ** (rank(x) - 1) - 1
    return ops.strided_slice(x, begin, end, np.ones(rank(x), np.int32), begin_mask=mask, end_mask=mask)


def _with_merged_batch(x: Array, y: Array, transpose_x: bool, transpose_y: bool) -> Array:
    batch = _batch(x, y)
    count = product(batch)
    merged = []
    for v in (x, y):
        shape = (*batch, *v.shape[-2:])
        wide = v if tuple(v.shape) == shape else ops.broadcast_to(v, shape_tensor(shape, [x, y]))
        merged.append(shaped(wide, (count, *v.shape[-2:]), x, y))
    result = ops.batch_matmul(*merged, adj_x=transpose_x, adj_y=transpose_y)
    return shaped(result, _result_shape(x, y, transpose_x, transpose_y), x, y)


# Einsum: diagonals, then products of two operands at a time, each a matrix product or one of elements.


@lowers("Einsum", "XlaEinsum")
def lower_einsum(*operands: Array, equation: str) -> Array:
    """The products of elements that agree in their labels, summed over the labels that the result lacks.

    equation: `abc,cd->abd`; `...` stands for leading axes, which broadcast. Several operands from left to right.
    """
    labels, result_labels = parse_equation(equation, [rank(x) for x in operands])
    terms = [_distinct(x, own) for x, own in zip(operands, labels, strict=True)]
    while len(terms) > 1:
        (x, x_labels), (y, y_labels), *others = terms
        needed = result_labels + "".join(own for _, own in others)
        x, x_labels = _summed(x, x_labels, needed + y_labels)
        y, y_labels = _summed(y, y_labels, needed + x_labels)
        if is_constant(x) and not is_constant(y):
            x, x_labels, y, y_labels = y, y_labels, x, x_labels  # weights stand on the right
        terms = [_product(x, x_labels, y, y_labels, needed), *others]
    x, own = _summed(*terms[0], result_labels)
    return _repeated(x, own, result_labels)


def parse_equation(equation: str, ranks: Sequence[int]) -> tuple[list[str], str]:
    """The labels of each operand and of the result, one letter for each axis, dots replaced by letters of their own."""
    left, _, right = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    hidden = [r - len(t.replace("...", "")) if "..." in t else 0 for t, r in zip(terms, ranks, strict=True)]
    dots = "".join(free[: max(hidden)])
    labels = [t.replace("...", dots[len(dots) - n :]) for t, n in zip(terms, hidden, strict=True)]
    return labels, right.replace("...", dots)


def _distinct(x: Array, labels: str) -> tuple[Array, str]:
    """An operand with the diagonal of axes that share a label."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            rest = [i for i in range(len(labels)) if i not in (first, second)]
            x = diagonal_of(ops.transpose(x, np.array([*rest, first, second], np.int32)))
            labels = "".join(labels[i] for i in rest) + label
    return x, labels


def _repeated(x: Array, labels: str, result_labels: str) -> Array:
    """x in the order of the result, on a diagonal where that repeats a label."""
    for label in dict.fromkeys(result_labels):
        for _ in range(result_labels.count(label) - 1):
            x = _ordered(x, labels, labels.replace(label, "") + label)
            x, labels = lower_matrix_diag(x), labels.replace(label, "") + label
            copy = next(c for c in string.ascii_letters if c not in labels + result_labels)
            labels, result_labels = labels + copy, result_labels.replace(label, copy, 1)
    return _ordered(x, labels, result_labels)


def _summed(x: Array, own: str, needed: str) -> tuple[Array, str]:
    """An operand without the axes that nothing else has."""
    alone = [c for c in own if c not in needed]
    if not alone:
        return x, own
    return ops.sum_(x, [own.index(c) for c in alone], keep_dims=False), "".join(c for c in own if c not in alone)


def _product(x: Array, x_labels: str, y: Array, y_labels: str, needed: str) -> tuple[Array, str]:
    shared = [c for c in x_labels if c in y_labels]
    batch = "".join(c for c in shared if c in needed)
    inner = "".join(c for c in shared if c not in needed)
    if not inner:
        order = "".join(dict.fromkeys(c for c in needed if c in x_labels + y_labels))
        return ops.mul(_aligned(x, x_labels, order), _aligned(y, y_labels, order)), order
    rows = "".join(c for c in x_labels if c not in shared)
    columns = "".join(c for c in y_labels if c not in shared)
    # A constant matrix takes any number of row axes; other operands have one axis each for rows and columns.
    keep_rows = rows and not batch and is_constant(y) and not is_constant(x)
    left, flip_left = _grouped(x, x_labels, batch, tuple(rows) if keep_rows else (rows,), inner)
    right, flip_right = _grouped(y, y_labels, batch, (inner,), columns)
    result = matrix_product(left, right, flip_left, flip_right)
    shape = (
        *result.shape[: len(batch)],
        *(x.shape[x_labels.index(c)] for c in rows),
        *(y.shape[y_labels.index(c)] for c in columns),
    )
    return shaped(result, shape, x, y), batch + rows + columns


def _aligned(x: Array, labels: str, order: str) -> Array:
    """x with an axis of size 1 for each label of the order that it lacks; leading ones are left to broadcasting."""
    x = _ordered(x, labels, "".join(c for c in order if c in labels))
    first = min((order.index(c) for c in labels), default=len(order))
    for i, label in enumerate(order[first:]):
        if label not in labels:
            x = ops.expand_dims(x, np.int32(i))
    return x


def _grouped(x: Array, labels: str, batch: str, first: Sequence[str], second: str) -> tuple[Array, bool]:
    """x as matrices: batch axes, then those of each group merged into one. Whether `second` comes before `first`.

    That way round where it saves a transpose of what is computed.
    """
    flip = not is_constant(x) and len(first) == 1 and labels == batch + second + first[0] != batch + first[0] + second
    groups = (*batch, second, *first) if flip else (*batch, *first, second)
    ordered = _ordered(x, labels, "".join(groups))
    return shaped(ordered, tuple(product(tuple(x.shape[labels.index(c)] for c in g)) for g in groups), x), flip


def _ordered(x: Array, labels: str, result_labels: str) -> Array:
    return x if labels == result_labels else ops.transpose(x, [labels.index(c) for c in result_labels])
