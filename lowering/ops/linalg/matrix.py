"""Diagonals and bands of matrices.

What MATRIX_DIAG and MATRIX_SET_DIAG cannot say is a GATHER from the elements by places that are known.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from jax.core import max_dim, min_dim

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, product, same
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import is_constant, rank, scalar, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_tensor
from jfuse.lowering.rules import lowers

_OUTSIDE = -1  # of the places of a diagonal: where padding stands


@lowers("MatrixBandPart")
def lower_matrix_band_part(x: Array, num_lower: Array, num_upper: Array) -> Array:
    """SELECT_V2 by a mask, which is a constant where sizes and band are."""
    lower, upper = as_i32(num_lower), as_i32(num_upper)
    row, column = ops.expand_dims(counted(x.shape[-2], x), np.int32(1)), counted(x.shape[-1], x)
    inside = [
        _within(limit, minuend, subtrahend)
        for limit, minuend, subtrahend in ((lower, row, column), (upper, column, row))
        if not (is_constant(limit) and limit < 0)
    ]
    if not inside or all(is_constant(mask) and mask.all() for mask in inside):
        return x
    return ops.select_v2(inside[0] if len(inside) == 1 else ops.logical_and(*inside), x, scalar(0, x))


def _within(limit: Array, minuend: Array, subtrahend: Array) -> Array:
    """Where a difference of places is at most the limit, everywhere where that is negative."""
    if is_constant(limit) and limit == 0:
        return ops.less_equal(minuend, subtrahend)
    near = ops.less_equal(ops.sub(minuend, subtrahend), limit)
    return near if is_constant(limit) else ops.logical_or(near, ops.less(limit, np.int32(0)))


@lowers("MatrixDiag", "BatchMatrixDiag")
def lower_matrix_diag(diagonal: Array) -> Array:
    """MATRIX_DIAG."""
    return ops.matrix_diag(diagonal)


@lowers("Diag")
def lower_diag(diagonal: Array) -> Array:
    """MATRIX_DIAG of all elements in a row.   diagonal: n[*shape] -> n[*shape, *shape]"""
    matrix = lower_matrix_diag(shaped(diagonal, (product(diagonal.shape),)))
    return shaped(matrix, (*diagonal.shape, *diagonal.shape), diagonal)


@lowers("DiagPart")
def lower_diag_part(x: Array) -> Array:
    """The diagonal of a tensor n[*shape, *shape], as n[*shape]."""
    shape = x.shape[: rank(x) // 2]
    size = product(shape)
    return shaped(diagonal_of(shaped(x, (size, size))), shape, x)


@lowers("MatrixDiagPart", "BatchMatrixDiagPart")
def lower_matrix_diag_part(x: Array) -> Array:
    """The main diagonal."""
    return diagonal_of(x)


def diagonal_of(x: Array) -> Array:
    """Every (columns + 1)-th element of the rows in a line: a strided slice.   x: n[..., m, n] -> n[..., min(m, n)]"""
    if not (is_known(x.shape[-2]) and is_known(x.shape[-1])):
        return _open_diagonal(x, 0)
    rows, columns = _sizes(x)
    flat = shaped(x, (*x.shape[:-2], rows * columns), x)
    return _every(flat, min(rows, columns) * (columns + 1), columns + 1)


def _open_diagonal(x: Array, k: int) -> Array:
    """Diagonal k of matrices of open sizes: GATHER of places that are computed.   x: n[..., m, n] -> n[..., length]

    Diagonals outside of the matrix, which TensorFlow refuses, are empty.
    """
    rows, columns = x.shape[-2:]
    height, width = rows + min(k, 0), columns - max(k, 0)
    length = height if same(height, width) else min_dim(height, width)
    flat = shaped(x, (*x.shape[:-2], rows * columns), x)
    steps = ops.mul(counted(max_dim(0, length), x), ops.add(size_tensor(columns, [x]), np.int32(1)))
    start = np.int32(k) if k >= 0 else ops.mul(size_tensor(columns, [x]), np.int32(-k))
    return ops.gather(flat, steps if k == 0 else ops.add(steps, start), axis=rank(flat) - 1)


def _every(flat: Array, end: int, stride: int) -> Array:
    n = rank(flat) - 1
    begins, ends = np.zeros(n + 1, np.int32), np.asarray([0] * n + [end], np.int32)
    strides = np.asarray([1] * n + [stride], np.int32)
    mask = (1 << n) - 1
    return ops.strided_slice(flat, begins, ends, strides, begin_mask=mask, end_mask=mask)


def _sizes(x: Array) -> tuple[int, int]:
    rows, columns = x.shape[-2:]
    if not (is_known(rows) and is_known(columns)):
        raise LowerError("a diagonal of matrices whose sizes are open", found=str(type_of(x)))
    return int(rows), int(columns)


@lowers("MatrixDiagPartV2")
def lower_matrix_diag_part_v2(x: Array, k: Array, padding_value: Array) -> Array:
    """As MatrixDiagPartV3, diagonals from the left."""
    return lower_matrix_diag_part_v3(x, k, padding_value, align="LEFT_LEFT")


@lowers("MatrixDiagPartV3")
def lower_matrix_diag_part_v3(x: Array, k: Array, padding_value: Array, *, align: str = "RIGHT_LEFT") -> Array:
    """The diagonals k, one or from the first of two to the second, as rows from the uppermost on.

    x: n[..., m, n] -> n[..., longest], or n[..., diagonals, longest] for a band
    """
    first, last = _band(k)
    if first == last == 0:
        return diagonal_of(x)
    if first == last and not (is_known(x.shape[-2]) and is_known(x.shape[-1])):
        return _open_diagonal(x, first)
    rows, columns = _sizes(x)
    places = _places(first, last, rows, columns, align)
    if first == last:
        (places,) = places
    flat = shaped(x, (*x.shape[:-2], rows * columns), x)
    return _picked(flat, places, padding_value)


def _band(k: Array) -> tuple[int, int]:
    value = static(k, "k")
    bounds = value if isinstance(value, tuple) else (value,)
    return bounds[0], bounds[-1]


def _places(first: int, last: int, rows: int, columns: int, align: str) -> np.ndarray:
    """Where in a matrix, its rows in a line, the elements of diagonals stand: i[diagonals, longest].

    align: which side the diagonals above the main one keep to, and those below and itself, as in `RIGHT_LEFT`.
    """
    lengths = {d: min(rows + min(d, 0), columns - max(d, 0)) for d in range(last, first - 1, -1)}
    longest = max(lengths.values())
    upper, lower = align.split("_")
    places = np.full((len(lengths), longest), _OUTSIDE)
    for row, (d, length) in enumerate(lengths.items()):
        side = upper if d > 0 else lower if d < 0 else "LEFT"
        start = longest - length if side == "RIGHT" else 0
        steps = np.arange(length)
        places[row, start : start + length] = (steps - min(d, 0)) * columns + steps + max(d, 0)
    return places


def _picked(flat: Array, places: np.ndarray, padding_value: Array) -> Array:
    """Elements of the last axis by place, the padding value at those outside."""
    if (places == _OUTSIDE).any():
        size = int(flat.shape[-1])
        places = np.where(places == _OUTSIDE, size, places)
        amounts = np.zeros((rank(flat), 2), np.int32)
        amounts[-1, 1] = 1
        is_zero = is_constant(padding_value) and not np.any(padding_value)
        flat = ops.pad(flat, amounts) if is_zero else ops.padv2(flat, amounts, padding_value)
    return ops.gather(flat, places.astype(np.int32), axis=rank(flat) - 1)


@lowers("MatrixDiagV2")
def lower_matrix_diag_v2(diagonal: Array, k: Array, num_rows: Array, num_cols: Array, padding_value: Array) -> Array:
    """As MatrixDiagV3, diagonals from the left."""
    return lower_matrix_diag_v3(diagonal, k, num_rows, num_cols, padding_value, align="LEFT_LEFT")


@lowers("MatrixDiagV3")
def lower_matrix_diag_v3(
    diagonal: Array,
    k: Array,
    num_rows: Array,
    num_cols: Array,
    padding_value: Array,
    *,
    align: str = "RIGHT_LEFT",
) -> Array:
    """Matrices with these diagonals; MATRIX_DIAG where it is the main one, of square matrices with zeros elsewhere.

    diagonal: n[..., longest], or n[..., diagonals, longest] for a band -> n[..., rows, columns]
    """
    first, last = _band(k)
    sizes_ = [static(v, name) for v, name in ((num_rows, "num_rows"), (num_cols, "num_cols"))]
    size = diagonal.shape[-1]
    fits = all(v == -1 or same(v, size) is True for v in sizes_)
    if first == last == 0 and fits and is_constant(padding_value) and not np.any(padding_value):
        return lower_matrix_diag(diagonal)
    if first == last and all(v == -1 for v in sizes_) and is_constant(padding_value) and not np.any(padding_value):
        square = lower_matrix_diag(diagonal)
        amounts = np.zeros((rank(square), 2), np.int32)
        amounts[-2:] = [[0, first], [first, 0]] if first > 0 else [[-first, 0], [0, -first]]
        return ops.pad(square, amounts)
    if not is_known(size):
        raise LowerError("a matrix of diagonals whose sizes are open", found=str(type_of(diagonal)))
    rows, columns = _matrix_sizes(sizes_, int(size), first, last)
    flat = diagonal if first == last else shaped(diagonal, (*diagonal.shape[:-2], product(diagonal.shape[-2:])))
    return _picked(flat, _inverse(_places(first, last, rows, columns, align), rows, columns), padding_value)


def _matrix_sizes(sizes_: Sequence[int], size: int, first: int, last: int) -> tuple[int, int]:
    """Complete the sizes of a matrix as TensorFlow does, where neither, one or both are given."""
    rows, columns = sizes_
    least_rows, least_columns = size - min(last, 0), size + max(first, 0)
    if rows == columns == -1:
        return max(least_rows, least_columns), max(least_rows, least_columns)
    return (least_rows if rows == -1 else rows), (least_columns if columns == -1 else columns)


def _inverse(places: np.ndarray, rows: int, columns: int) -> np.ndarray:
    """For each element of a matrix, where among the diagonals it stands: i[rows, columns]."""
    index_of = np.full(rows * columns, _OUTSIDE)
    inside = places.ravel() != _OUTSIDE
    index_of[places.ravel()[inside]] = np.arange(places.size)[inside]
    return index_of.reshape(rows, columns)


@lowers("MatrixSetDiag", "BatchMatrixSetDiag")
def lower_matrix_set_diag(x: Array, diagonal: Array) -> Array:
    """MATRIX_SET_DIAG."""
    return lower_matrix_set_diag_v3(x, diagonal, np.int32(0))


@lowers("MatrixSetDiagV2")
def lower_matrix_set_diag_v2(x: Array, diagonal: Array, k: Array) -> Array:
    """As MatrixSetDiagV3, diagonals from the left."""
    return lower_matrix_set_diag_v3(x, diagonal, k, align="LEFT_LEFT")


@lowers("MatrixSetDiagV3")
def lower_matrix_set_diag_v3(x: Array, diagonal: Array, k: Array, *, align: str = "RIGHT_LEFT") -> Array:
    """MATRIX_SET_DIAG of the main diagonal, else GATHER from the elements of matrices and diagonals together.

    x: n[..., m, n]; diagonal: n[..., longest], or n[..., diagonals, longest] for a band
    """
    first, last = _band(k)
    if first == last == 0:
        return ops.matrix_set_diag(x, diagonal)
    rows, columns = _sizes(x)
    places = _places(first, last, rows, columns, align)
    batch = x.shape[:-2]
    both = ops.concatenation(
        shaped(x, (*batch, rows * columns)), shaped(diagonal, (*batch, places.size), x), axis=len(batch)
    )
    new = _inverse(places, rows, columns)
    positions = np.arange(rows * columns).reshape(rows, columns)
    return ops.gather(
        both, np.where(new == _OUTSIDE, positions, rows * columns + new).astype(np.int32), axis=len(batch)
    )
