"""Factors of matrices in plain jax, with the signs and pivots of LAPACK: one loop over the columns for each.

Each function is written for one matrix and mapped over the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from jfuse.base.errors import LowerError
from jfuse.frontends.jaxprs.spellings import spells

_ALONG_ROWS, _ALONG_COLUMNS = 0, 1


def _mapped(function: Callable[..., Any], batch: int) -> Callable[..., Any]:
    for _ in range(batch):
        function = jax.vmap(function)
    return function


def _column(a: Any, k: Any) -> Any:
    return lax.dynamic_index_in_dim(a, k, _ALONG_COLUMNS, keepdims=False)


def _row(a: Any, k: Any) -> Any:
    return lax.dynamic_index_in_dim(a, k, _ALONG_ROWS, keepdims=False)


@spells("lu")
def _lu(a: Any, **_: Any) -> Any:
    """L below the diagonal and U above it, the row that each changed places with, and the order of rows.

    a: f[..., m, n] -> f[..., m, n], i32[..., min(m, n)], i32[..., m]
    """
    return _mapped(_lu_of_one, a.ndim - 2)(a)


def _lu_of_one(a: Any) -> Any:
    m, n = a.shape
    size = min(m, n)
    rows, columns = jnp.arange(m), jnp.arange(n)

    def step(k: Any, state: Any) -> Any:
        a, pivots, order = state
        place = jnp.argmax(jnp.where(rows >= k, jnp.abs(_column(a, k)), -1.0)).astype(jnp.int32)
        swapped = jnp.where(rows == k, place, jnp.where(rows == place, k, rows))
        a, order = (v.at[swapped].get(mode="promise_in_bounds") for v in (a, order))
        pivots = jnp.where(jnp.arange(size) == k, place, pivots)
        column, row = _column(a, k), _row(a, k)
        pivot = _row(column, k)
        factors = jnp.where(rows > k, column / jnp.where(pivot == 0, jnp.ones_like(pivot), pivot), 0.0)
        a = a - factors[:, None] * jnp.where(columns > k, row, 0.0)
        return jnp.where((rows > k)[:, None] & (columns == k), factors[:, None], a), pivots, order

    return lax.fori_loop(0, size, step, (a, jnp.zeros(size, jnp.int32), rows))


@spells("lu_pivots_to_permutation")
def _order_of(pivots: Any, *, permutation_size: int, **_: Any) -> Any:
    """The order of rows that changing them one after the other gives.   i32[..., k] -> i32[..., permutation_size]"""

    def of_one(pivots: Any) -> Any:
        rows = jnp.arange(permutation_size)

        def step(k: Any, order: Any) -> Any:
            pivot = _row(pivots, k)
            swapped = jnp.where(rows == k, pivot, jnp.where(rows == pivot, k, rows))
            return order.at[swapped].get(mode="promise_in_bounds")

        return lax.fori_loop(0, pivots.shape[0], step, rows)

    return _mapped(of_one, pivots.ndim - 1)(pivots)


@spells("qr")
def _qr(a: Any, *, full_matrices: bool, pivoting: bool = False, **_: Any) -> Any:
    """Householder's factors.   a: f[..., m, n] -> f[..., m, k], f[..., k, n], k = m or the smaller of both"""
    if pivoting:
        raise LowerError("a QR decomposition with pivots", remedy="without pivoting=True")
    return qr_of(a, full_matrices=full_matrices)


def qr_of(a: Any, *, full_matrices: bool) -> Any:
    """As `_qr`, of traced arrays."""
    m, n = a.shape[-2:]
    size = m if full_matrices else min(m, n)
    q, r = _mapped(_qr_of_one, a.ndim - 2)(a)
    return q[..., :size], jnp.triu(r)[..., :size, :]


def _qr_of_one(a: Any) -> Any:
    """Both factors in full.   f[m, n] -> f[m, m], f[m, n]; below the diagonal the second has only rounding errors"""
    m, n = a.shape
    rows = jnp.arange(m)

    def step(k: Any, state: Any) -> Any:
        q, r = state
        below = jnp.where(rows >= k, _column(r, k), 0.0)
        first = _row(below, k)
        rest = jnp.sum(jnp.where(rows > k, jnp.square(below), 0.0))
        length = jnp.sqrt(jnp.square(first) + rest)
        beta = jnp.where(first < 0, length, -length)
        is_done = rest == 0
        one = jnp.ones_like(beta)
        tau = jnp.where(is_done, 0.0, (beta - first) / jnp.where(is_done, one, beta))
        v = jnp.where(rows > k, below / jnp.where(is_done, one, first - beta), (rows == k).astype(a.dtype))
        return q - tau * jnp.outer(q @ v, v), r - tau * jnp.outer(v, v @ r)

    return lax.fori_loop(0, min(m - 1, n), step, (jnp.eye(m, dtype=a.dtype), a))


@spells("householder_product")
def _householder_product(a: Any, taus: Any, **_: Any) -> Any:
    """Reflections multiplied.   a: f[..., m, n], below the diagonal their vectors; taus: f[..., k] -> f[..., m, n]"""

    def of_one(a: Any, taus: Any) -> Any:
        m, n = a.shape
        rows, count = jnp.arange(m), taus.shape[0]

        def step(i: Any, q: Any) -> Any:
            k = count - 1 - i
            v = jnp.where(rows > k, _column(a, k), (rows == k).astype(a.dtype))
            return q - _row(taus, k) * jnp.outer(v, v @ q)

        return lax.fori_loop(0, count, step, jnp.eye(m, n, dtype=a.dtype))

    return _mapped(of_one, taus.ndim - 1)(a, taus)


@spells("tridiagonal_solve")
def _tridiagonal_solve(lower: Any, diagonal: Any, upper: Any, sides: Any, **_: Any) -> Any:
    """Elimination downwards, substitution upwards.   lower, diagonal, upper: f[..., n]; sides: f[..., n, m]"""

    def of_one(lower: Any, diagonal: Any, upper: Any, sides: Any) -> Any:
        def down(before: Any, row: Any) -> Any:
            ratio, side = before
            low, middle, up, right_side = row
            pivot = middle - low * ratio
            after = up / pivot, (right_side - low * side) / pivot
            return after, after

        def upwards(x: Any, row: Any) -> Any:
            ratio, side = row
            x = side - ratio * x
            return x, x

        zero = jnp.zeros_like(sides[0])
        _, reduced = lax.scan(down, (jnp.zeros_like(diagonal[0]), zero), (lower, diagonal, upper, sides))
        return lax.scan(upwards, zero, reduced, reverse=True)[1]

    return _mapped(of_one, diagonal.ndim - 1)(lower, diagonal, upper, sides)
