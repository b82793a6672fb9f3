"""Inverses, determinants, solutions and factors of small matrices of known size.

Each step of an elimination is a handful of operators on all matrices at once, so that the size is limited.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, rank, scalar, type_of
from jfuse.lowering.rules import lowers

_LARGEST = 8  # rows: about fifteen operators each
_LAST = np.array([-1], np.int32)


@lowers("MatrixInverse")
def lower_matrix_inverse(x: Array, *, adjoint: bool = False) -> Array:
    """Elimination beside the unit matrix.   x: f32[..., n, n] -> f32[..., n, n]"""
    size = _size(x, "an inverse")
    unit = ops.add(ops.mul(x, scalar(0, x)), np.eye(size, dtype=np.float32))
    return _eliminated(_transposed(x) if adjoint else x, unit).solution()


@lowers("MatrixSolve")
def lower_matrix_solve(matrix: Array, rhs: Array, *, adjoint: bool = False) -> Array:
    """Elimination beside the right sides.   matrix: f32[..., n, n]; rhs: f32[..., n, m] -> f32[..., n, m]"""
    _size(matrix, "a system of equations")
    return _eliminated(_transposed(matrix) if adjoint else matrix, rhs).solution()


@lowers("MatrixDeterminant")
def lower_matrix_determinant(x: Array) -> Array:
    """The product of the pivots, negative where an odd number of rows changed places.   f32[..., n, n] -> f32[...]"""
    _size(x, "a determinant")
    done = _eliminated(x, None)
    return ops.mul(done.sign(), ops.reduce_prod(done.diagonal(), _LAST))


@lowers("LogMatrixDeterminant")
def lower_log_matrix_determinant(x: Array) -> tuple[Array, Array]:
    """The sign of the determinant and the logarithm of its size.   f32[..., n, n] -> f32[...], f32[...]"""
    _size(x, "a determinant")
    done = _eliminated(x, None)
    pivots = done.diagonal()
    sign = ops.mul(done.sign(), ops.reduce_prod(ops.sign(pivots), _LAST))
    return sign, ops.sum_(ops.log(ops.abs_(pivots)), _LAST)


@lowers("MatrixTriangularSolve", "BatchMatrixTriangularSolve")
def lower_matrix_triangular_solve(matrix: Array, rhs: Array, *, lower: bool = True, adjoint: bool = False) -> Array:
    """Substitution, one row after the other.   matrix: f32[..., n, n]; rhs: f32[..., n, m] -> f32[..., n, m]"""
    size = _size(matrix, "a system of equations")
    if adjoint:
        matrix, lower = _transposed(matrix), not lower
    solved: dict[int, Array] = {}
    rest = rhs
    for k in range(size) if lower else reversed(range(size)):
        column = _part(matrix, k, -1)
        solved[k] = ops.div(_part(rest, k, -2), _part(column, k, -2))
        if len(solved) < size:
            rest = ops.sub(rest, ops.mul(column, solved[k]))
    return ops.concatenation(*(solved[k] for k in range(size)), axis=-2) if size > 1 else solved[0]


@lowers("Cholesky")
def lower_cholesky(x: Array) -> Array:
    """The lower triangular factor, one column after the other.   x: f32[..., n, n] -> f32[..., n, n]"""
    size = _size(x, "a Cholesky factor")
    columns: list[Array] = []
    rest = x
    for k in range(size):
        below = (np.arange(size) >= k).astype(np.float32)[:, None]
        column = ops.mul(_part(rest, k, -1), below)
        columns.append(ops.div(column, ops.sqrt(_part(column, k, -2))))
        if k + 1 < size:
            rest = ops.sub(rest, ops.mul(columns[k], _transposed(columns[k])))
    return ops.concatenation(*columns, axis=-1) if size > 1 else columns[0]


@dataclass(frozen=True)
class _Elimination:
    """The right side of [A | B] after elimination has made A a permutation of the unit matrix.

    pivots: f32[..., 1] each; chosen: for each column of A, the row of its pivot, one-hot as bool[..., n].
    """

    right: Array
    pivots: list[Array]
    chosen: list[Array]

    def solution(self) -> Array:
        """The right side with its rows in order: f32[..., n, m]."""
        rows = [_row_of(self.right, one_hot) for one_hot in self.chosen]
        return ops.concatenation(*rows, axis=-2) if len(rows) > 1 else rows[0]

    def diagonal(self) -> Array:
        """The pivots as f32[..., n]."""
        return ops.concatenation(*self.pivots, axis=-1) if len(self.pivots) > 1 else self.pivots[0]

    def sign(self) -> Array:
        """-1 where an odd number of pairs of pivots stand in reverse order, else 1: f32[...]."""
        size = len(self.chosen)
        order = np.arange(size, dtype=np.float32)
        places = [ops.sum_(ops.mul(_as_f32(c), order), _LAST, keep_dims=True) for c in self.chosen]
        pairs = [ops.sign(ops.sub(q, p)) for i, p in enumerate(places) for q in places[i + 1 :]]
        if not pairs:
            return ops.add(ops.squeeze(ops.mul(self.pivots[0], np.float32(0)), squeeze_dims=(-1,)), np.float32(1))
        joined = ops.concatenation(*pairs, axis=-1) if len(pairs) > 1 else pairs[0]
        return ops.reduce_prod(joined, _LAST)


def _eliminated(matrix: Array, right: Array | None) -> _Elimination:
    """Gauss' and Jordan's elimination; each column's pivot is the largest element of the rows without one so far."""
    size = int(matrix.shape[-1])
    both = matrix if right is None else ops.concatenation(matrix, right, axis=-1)
    is_free: Array | None = None
    pivots, chosen = [], []
    for k in range(size):
        column = _part(both, k, -1)
        heights = ops.abs_(ops.squeeze(column, squeeze_dims=(rank(column) - 1,)))
        if is_free is not None:
            heights = ops.select_v2(is_free, heights, scalar(-1, heights))
        place = ops.arg_max(heights, np.int32(rank(heights) - 1), output_type=DType.i32)
        is_pivot = ops.equal(ops.expand_dims(place, np.int32(-1)), np.arange(size, dtype=np.int32))
        row = _row_of(both, is_pivot)
        pivot = _part(row, k, -1)
        pivots.append(ops.squeeze(pivot, squeeze_dims=(rank(pivot) - 2,)))
        chosen.append(is_pivot)
        row = ops.div(row, pivot)
        others = ops.sub(both, ops.mul(column, row))
        both = ops.select_v2(ops.expand_dims(is_pivot, np.int32(-1)), row, others)
        is_other = ops.logical_not(is_pivot)
        is_free = is_other if is_free is None else ops.logical_and(is_free, is_other)
    return _Elimination(both if right is None else _from(both, size), pivots, chosen)


def _row_of(x: Array, one_hot: Array) -> Array:
    """The one row that is marked.   x: f32[..., n, m]; one_hot: bool[..., n] -> f32[..., 1, m]"""
    marks = ops.expand_dims(one_hot, np.int32(-1))
    return ops.sum_(ops.select_v2(marks, x, scalar(0, x)), np.array([rank(x) - 2], np.int32), keep_dims=True)


def _as_f32(x: Array) -> Array:
    return ops.cast(x, out_data_type=DType.f32)


def _part(x: Array, k: int, axis: int) -> Array:
    """x[k:k+1] along one of the last two axes."""
    axis += rank(x)
    begin, end = np.zeros(rank(x), np.int32), np.zeros(rank(x), np.int32)
    begin[axis], end[axis] = k, k + 1
    mask = ((1 << rank(x)) - 1) & ~(1 << axis)
    return ops.strided_slice(x, begin, end, np.ones(rank(x), np.int32), begin_mask=mask, end_mask=mask)


def _from(x: Array, k: int) -> Array:
    """The columns from k on."""
    begin = np.zeros(rank(x), np.int32)
    begin[-1] = k
    every = (1 << rank(x)) - 1
    return ops.strided_slice(
        x, begin, begin, np.ones(rank(x), np.int32), begin_mask=every & ~(1 << (rank(x) - 1)), end_mask=every
    )


def _transposed(x: Array) -> Array:
    n = rank(x)
    return ops.transpose(x, np.array([*range(n - 2), n - 1, n - 2], np.int32))


def _size(x: Array, what: str) -> int:
    rows, columns = x.shape[-2:]
    fits = is_known(rows) and 1 <= rows <= _LARGEST and same(rows, columns) is True
    if dtype(x) is not DType.f32 or not fits:
        raise LowerError(
            f"{what} of {type_of(x)} in TFLite's operators",
            expected=f"square f32 matrices of up to {_LARGEST} rows",
            found=str(type_of(x)),
            remedy="where it does not depend on inputs, compute it once and keep the result in a variable or constant",
        )
    return int(rows)
