"""Eigenvalues and singular values of small matrices, by Jacobi's rotations, in plain jax.

Each step of the loop rotates disjoint pairs of columns, all at once, and lets the columns meet in a round robin
(Brent and Luk, 1985): a sweep has one step fewer than there are columns. The number of sweeps is fixed. Measured in
f32, on random, clustered, graded and constant matrices of n = 2 to 32 columns: values err by at most 3e-7 n of the
largest, and so do the entries of A V - V diag(values) and of V^T V - 1.
Signs: the entries of each vector, weighted with 1, 0.6, 0.36, …, add up to 0 or more.
"""

from __future__ import annotations

from math import ceil, log2
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.base.errors import LowerError
from jfuse.frontends.jaxprs.matrix_spellings import qr_of
from jfuse.frontends.jaxprs.spellings import spells
from jfuse.ir.dims import is_known

OF_ANY_SIGN = "of_any_sign"
"""The scope of the operation that gives vectors, as columns, their signs."""


@spells("eigh")
def _eigh(
    a: Any, *, lower: bool = True, sort_eigenvalues: bool = True, subset_by_index: Any = None, **_: Any
) -> tuple[Any, Any]:
    """Eigenvectors as columns, and eigenvalues, the least first.   a: f[..., n, n] -> f[..., n, n], f[..., n]"""
    n = _size(a, "eigenvalues", subset_by_index)
    half = jnp.tril(a) if lower else jnp.triu(a)
    a, scale = _scaled(half + half.mT - a * np.eye(n, dtype=a.dtype))
    size = n + n % 2
    a = jnp.pad(a, [(0, 0)] * (a.ndim - 2) + [(0, size - n)] * 2)
    one, above = (np.eye(size, k=k, dtype=a.dtype) for k in (0, 1))

    def step(_: Any, state: Any) -> Any:
        a, vectors = state
        diagonal = jnp.sum(a * one, -1)
        between = jnp.sum(a * above, -1)[..., ::2]
        turn = _rotation(diagonal[..., ::2], diagonal[..., 1::2], between)
        return turn.mT @ a @ turn, vectors @ turn

    a, vectors = lax.fori_loop(0, _steps(size), step, (a, jnp.broadcast_to(one, a.shape)))
    values, vectors = jnp.sum(a * one, -1)[..., :n], vectors[..., :n, :n]
    if sort_eigenvalues:
        order = jnp.argsort(values, -1)
        values, vectors = _at(values, order), _columns(vectors, order)
    return _signed(vectors, _signs(vectors)), values * scale[..., 0]


@spells("svd")
def _svd(
    a: Any, *, full_matrices: bool, compute_uv: bool = True, subset_by_index: Any = None, **_: Any
) -> tuple[Any, ...]:
    """Singular values, the largest first, and the vectors: U as columns, V as rows.

    a: f[..., m, n] -> f[..., k], f[..., m, k | m], f[..., k | n, n], k the smaller of m and n
    """
    m, n = (_size(v, "singular values", subset_by_index) for v in (a.mT, a))
    if m < n:
        values, *vectors = _svd(a.mT, full_matrices=full_matrices, compute_uv=compute_uv)
        return (values, *(v.mT for v in reversed(vectors)))
    a, scale = _scaled(a)
    size = n + n % 2
    a = jnp.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, size - n)])

    def step(_: Any, state: Any) -> Any:
        a, right = state
        first, second = a[..., ::2], a[..., 1::2]
        turn = _rotation(jnp.sum(first * first, -2), jnp.sum(second * second, -2), jnp.sum(first * second, -2))
        return a @ turn, right @ turn

    square = (*a.shape[:-2], size, size)
    start = a, jnp.broadcast_to(np.eye(size, dtype=a.dtype), square)
    a, right = lax.fori_loop(0, _steps(size), step, start)
    a, right = a[..., :n], right[..., :n, :n]
    values = jnp.sqrt(jnp.sum(a * a, -2))
    order = jnp.argsort(-values, -1)
    values = _at(values, order) * scale[..., 0]
    if not compute_uv:
        return (values,)
    # The columns are orthogonal already: their factor Q has their directions, and others where a column is 0.
    left, factor = qr_of(_columns(a, order), full_matrices=full_matrices)
    left = left * _of_width(jnp.where(jnp.sum(factor[..., :n, :] * np.eye(n, dtype=a.dtype), -1) < 0, -1.0, 1.0), left)
    signs = _signs(left)
    right = _signed(_columns(right, order), signs[..., :n])
    return values, _signed(left, signs), right.mT


def _size(a: Any, what: str, subset_by_index: Any) -> int:
    """The number of columns; raises LowerError where these functions do not apply."""
    if subset_by_index is not None or not is_known(a.shape[-1]) or jnp.iscomplexobj(a) or a.shape[-1] == 0:
        raise LowerError(
            f"{what} of matrices of this type",
            expected="real numbers, fixed sizes, and all values asked for",
            found=str(a.aval),
            remedy="fix the size of the matrices",
        )
    return int(a.shape[-1])


def _scaled(a: Any) -> tuple[Any, Any]:
    """Matrices with entries up to 1, whose squares neither overflow nor vanish, and their factors, f[..., 1, 1]."""
    largest = jnp.max(jnp.abs(a), (-2, -1), keepdims=True)
    scale = jnp.where(largest == 0, 1.0, largest)
    return a / scale, scale


def _steps(size: int) -> int:
    return (6 + ceil(log2(size))) * (size - 1)


def _rotation(first: Any, second: Any, between: Any) -> Any:
    """The rotation that makes pairs orthogonal, and then moves all but one column by a place.

    first, second: the products of each pair with itself, `between` with each other: f[..., n/2] -> f[..., n, n].
    The angle is the smaller one, up to 45 degrees.
    """
    change = second - first
    root = jnp.abs(change) + jnp.sqrt(change * change + 4 * between * between)
    tangent = 2 * jnp.where(change < 0, -between, between) / jnp.where(root == 0, 1.0, root)
    cosine = lax.rsqrt(1 + tangent * tangent)
    size = 2 * first.shape[-1]
    ring = [*range(0, size, 2), *range(size - 1, 0, -2)]  # the columns as they sit around a table
    moved = np.zeros((size, size), first.dtype)
    moved[ring, [ring[0], *ring[2:], *ring[1:2]]] = 1
    swapped = moved[np.arange(size) ^ 1] * np.where(np.arange(size) % 2, -1, 1)[:, None].astype(first.dtype)
    kept, mixed = (jnp.repeat(v, 2, -1, total_repeat_length=size)[..., None] for v in (cosine, tangent * cosine))
    return kept * moved + mixed * swapped


def _at(values: Any, order: Any) -> Any:
    return jnp.take_along_axis(values, order, -1, mode="promise_in_bounds")


def _columns(matrix: Any, order: Any) -> Any:
    """The columns in order, by a product with one-hot rows."""
    return matrix @ (jnp.arange(matrix.shape[-1])[:, None] == order[..., None, :]).astype(matrix.dtype)


def _signs(vectors: Any) -> Any:
    weights = (0.6 ** np.arange(vectors.shape[-2])).astype(vectors.dtype)
    return jnp.where(jnp.sum(vectors * weights[:, None], -2) < 0, -1.0, 1.0)


def _of_width(signs: Any, matrix: Any) -> Any:
    """One sign for each column, 1 for those beyond.   signs: f[..., n] -> f[..., 1, columns]"""
    more = matrix.shape[-1] - signs.shape[-1]
    return jnp.pad(signs, [(0, 0)] * (signs.ndim - 1) + [(0, more)], constant_values=1.0)[..., None, :]


def _signed(vectors: Any, signs: Any) -> Any:
    with jax.named_scope(OF_ANY_SIGN):
        return vectors * signs[..., None, :]
