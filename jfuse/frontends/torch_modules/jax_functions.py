"""Operators of PyTorch as functions of jax arrays, with the arguments that their schemas have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy import special
from jax.scipy.linalg import lu_solve

from jfuse.base.errors import LowerError

_NORMS = ("backward", "ortho", "forward")
"""jnp.fft's names for PyTorch's numbers: a forward transform is not scaled, scaled by the root of n, or by n."""


def _placed(x: Any, dim: int, function: Callable[[Any], Any]) -> Any:
    """A function of the last axis, of another one."""
    result = function(jnp.moveaxis(x, dim, -1))
    return jax.tree.map(lambda v: jnp.moveaxis(v, -1, dim), result)


def _r2c(x: Any, dim: Sequence[int], normalization: int, onesided: bool) -> Any:
    if onesided:
        return jnp.fft.rfftn(x, axes=tuple(dim), norm=_NORMS[normalization])
    return jnp.fft.fftn(x, axes=tuple(dim), norm=_NORMS[normalization])


def _c2r(x: Any, dim: Sequence[int], normalization: int, last_dim_size: int) -> Any:
    sizes = [*(x.shape[d] for d in dim[:-1]), last_dim_size]
    return jnp.fft.irfftn(x, s=sizes, axes=tuple(dim), norm=_NORMS[2 - normalization])


def _c2c(x: Any, dim: Sequence[int], normalization: int, forward: bool) -> Any:
    if forward:
        return jnp.fft.fftn(x, axes=tuple(dim), norm=_NORMS[normalization])
    return jnp.fft.ifftn(x, axes=tuple(dim), norm=_NORMS[2 - normalization])


def _as_strided(x: Any, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Any:
    """Elements of a contiguous tensor, row by row, as PyTorch's fresh results are."""
    offsets = np.full(1, storage_offset or 0)
    for count, step in zip(size, stride, strict=True):
        offsets = offsets[..., None] + np.arange(count) * step
    return x.reshape(-1)[offsets[0].astype(np.int32)]


def _masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    x, mask = jnp.broadcast_arrays(x, mask)
    positions = jnp.cumsum(mask.reshape(-1).astype(jnp.int32)).reshape(mask.shape) - 1
    return jnp.where(mask, source.reshape(-1).at[positions].get(mode="clip"), x)


_COMBINES = {"sum": "add", "prod": "multiply", "amax": "max", "amin": "min", "mean": "add"}


def _scatter_reduce(x: Any, dim: int, index: Any, src: Any, reduce: str, include_self: bool = True) -> Any:
    """x with elements of src combined into it at places along an axis."""
    indices = list(jnp.indices(index.shape, sparse=True))
    indices[dim] = index
    at, source = tuple(indices), src[tuple(slice(0, n) for n in index.shape)]
    if include_self and reduce != "mean":
        return getattr(x.at[at], _COMBINES[reduce])(source)
    count = jnp.zeros(x.shape, x.dtype).at[at].add(jnp.ones_like(source))
    start = x if include_self else jnp.where(count > 0, _neutral(reduce, x.dtype), x)
    reduced = getattr(start.at[at], _COMBINES[reduce])(source)
    return reduced / jnp.maximum(count + 1 if include_self else count, 1) if reduce == "mean" else reduced


def _neutral(how: str, dtype: Any) -> Any:
    limits = (-jnp.inf, jnp.inf) if jnp.issubdtype(dtype, jnp.floating) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return jnp.asarray({"prod": 1, "amax": limits[0], "amin": limits[1]}.get(how, 0), dtype)


def _searchsorted(
    rows: Any, values: Any, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    """How many elements of each sorted row stand before each value."""
    if sorter is not None:
        rows = jnp.take_along_axis(rows, sorter, -1)
    rows = rows if rows.ndim == 1 else rows[..., None, :]
    before = jnp.less_equal if right or side == "right" else jnp.less
    return jnp.sum(before(rows, jnp.asarray(values)[..., None]), -1, dtype=jnp.int32)


def _kth(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    order = jnp.argsort(x, axis=dim)
    index = lax.index_in_dim(order, k - 1, axis=dim)
    pair = (jnp.take_along_axis(x, index, dim), index)
    return pair if keepdim else tuple(jnp.squeeze(v, dim) for v in pair)


def _histc(x: Any, bins: int = 100, min: float = 0, max: float = 0) -> Any:  # noqa: A002 - the schema's names
    if min == max:
        raise LowerError("a histogram whose limits are those of its values", remedy="give min and max")
    x = x.reshape(-1)
    bin_of = jnp.minimum(jnp.floor((x - min) * (bins / (max - min))), bins - 1)
    inside = (x >= min) & (x <= max)
    return jnp.sum((bin_of[:, None] == jnp.arange(bins)) & inside[:, None], 0).astype(x.dtype)


def _pdist(x: Any, p: float = 2.0) -> Any:
    first, second = np.triu_indices(x.shape[0], 1)
    change = jnp.abs(x[first] - x[second])
    if p == 0:
        return jnp.sum(change != 0, -1).astype(x.dtype)
    return jnp.max(change, -1) if np.isinf(p) else jnp.sum(change**p, -1) ** (1 / p)


def _roi_pool(x: Any, rois: Any, scale: float, height: int, width: int) -> Any:
    """The largest elements of parts of regions, 0 where a part has none.   x: f[n, c, h, w]; rois: f[k, 5]"""

    def parts(first: Any, last: Any, count: int, size: int) -> Any:
        """Which rows or columns each part has: bool[k, count, size]"""
        first, last = (jnp.floor(jnp.abs(v * scale) + 0.5) * jnp.sign(v) for v in (first, last))
        each = (jnp.maximum(last - first + 1, 1) / count)[:, None]
        numbers = jnp.arange(count, dtype=x.dtype)
        begin, end = jnp.floor(numbers * each), jnp.ceil((numbers + 1) * each)
        begin, end = (jnp.clip(v + first[:, None], 0, size)[..., None] for v in (begin, end))
        places = jnp.arange(size, dtype=x.dtype)
        return (places >= begin) & (places < end)

    rows = parts(rois[:, 2], rois[:, 4], height, x.shape[2])
    columns = parts(rois[:, 1], rois[:, 3], width, x.shape[3])
    maps = x.at[rois[:, 0].astype(jnp.int32)].get(mode="promise_in_bounds")
    lines = jnp.max(jnp.where(rows[:, None, :, :, None], maps[:, :, None], -jnp.inf), 3)
    largest = jnp.max(jnp.where(columns[:, None, None], lines[:, :, :, None], -jnp.inf), 4)
    return jnp.where(largest == -jnp.inf, 0.0, largest), None


def _svd(a: Any, full_matrices: bool = False, compute_uv: bool = True, driver: Any = None) -> Any:
    if not compute_uv:
        return None, jnp.linalg.svd(a, compute_uv=False), None
    return jnp.linalg.svd(a, full_matrices)


def _eigh(a: Any, uplo: str = "L", compute_v: bool = True) -> Any:
    vectors, values = lax.linalg.eigh(a, lower=uplo == "L", symmetrize_input=False)
    return values, vectors if compute_v else None


def _pinv(a: Any, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    """The pseudoinverse, without singular values up to the larger of atol and rtol times the largest one."""
    a = jnp.tril(a) + jnp.tril(a, -1).mT if hermitian else a
    left, values, right = jnp.linalg.svd(a, full_matrices=False)
    if rtol is None:
        rtol = float(np.finfo(a.dtype).eps) * max(a.shape[-2:])
        rtol = rtol if atol is None else jnp.where(atol > 0, 0.0, rtol)
    cutoff = rtol * jnp.max(values, -1)
    kept = values > (cutoff if atol is None else jnp.maximum(atol, cutoff))[..., None]
    return (right.mT * jnp.where(kept, 1 / jnp.where(kept, values, 1), 0)[..., None, :]) @ left.mT


def _lstsq(a: Any, b: Any, rcond: float | None = None, driver: str | None = None) -> Any:
    """The shortest of the best solutions; residuals, rank and singular values have no spelling."""
    is_vector = b.ndim == a.ndim - 1
    solution = _pinv(a, rtol=rcond) @ (b[..., None] if is_vector else b)
    return solution[..., 0] if is_vector else solution, None, None, None


def _lu_factor(a: Any, pivot: bool = True, check_errors: bool = False) -> Any:
    factors, pivots, _ = lax.linalg.lu(a)
    return factors, pivots + 1, None


def _lu(a: Any, pivot: bool = True) -> Any:
    factors, _, order = lax.linalg.lu(a)
    return _lu_parts(factors, order)


def _lu_unpack(factors: Any, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    return _lu_parts(factors, lax.linalg.lu_pivots_to_permutation(pivots - 1, factors.shape[-2]))


def _lu_parts(factors: Any, order: Any) -> Any:
    """The permutation of rows, and both triangles.   factors: f[..., m, n]; order: i32[..., m]"""
    m, size = factors.shape[-2], min(factors.shape[-2:])
    lower = jnp.tril(factors, -1)[..., :size] + np.eye(m, size, dtype=factors.dtype)
    permutation = (order[..., None, :] == np.arange(m)[:, None]).astype(factors.dtype)
    return permutation, lower, jnp.triu(factors)[..., :size, :]


def _lu_solve(factors: Any, pivots: Any, b: Any, left: bool = True, adjoint: bool = False) -> Any:
    pair = (factors, pivots - 1)
    if left:
        return lu_solve(pair, b, trans=int(adjoint))
    return lu_solve(pair, b.mT, trans=int(not adjoint)).mT


def _inv_ex(a: Any, check_errors: bool = False) -> Any:
    """The inverse, and the number of the first pivot that is 0, or 0."""
    factors, pivots, _ = lax.linalg.lu(a)
    is_zero = jnp.diagonal(factors, axis1=-2, axis2=-1) == 0
    info = jnp.where(jnp.any(is_zero, -1), jnp.argmax(is_zero, -1) + 1, 0)
    one = jnp.broadcast_to(jnp.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return lu_solve((factors, pivots), one), info.astype(jnp.int32)


def _qr(a: Any, mode: str = "reduced") -> Any:
    factors = jnp.linalg.qr(a, mode=mode)
    return (jnp.zeros(0, a.dtype), factors) if mode == "r" else factors


def _solve(a: Any, b: Any, left: bool = True) -> Any:
    is_vector = b.ndim == a.ndim - 1
    b = b[..., None] if is_vector else b
    solution = jnp.linalg.solve(a, b) if left else jnp.linalg.solve(a.mT, b.mT).mT
    return solution[..., 0] if is_vector else solution


def _solve_ex(a: Any, b: Any, left: bool = True, check_errors: bool = False) -> Any:
    return _solve(a, b, left), None, None, None


def _cholesky(a: Any, upper: bool = False) -> Any:
    factor = jnp.linalg.cholesky(a)
    return factor.mT if upper else factor


def _cholesky_solve(b: Any, factor: Any, upper: bool = False) -> Any:
    lower = factor.mT if upper else factor
    lower = jnp.broadcast_to(lower, (*b.shape[:-2], *lower.shape[-2:]))
    half = lax.linalg.triangular_solve(lower, b, left_side=True, lower=True)
    return lax.linalg.triangular_solve(lower, half, left_side=True, lower=True, transpose_a=True)


def _cholesky_inverse(factor: Any, upper: bool = False) -> Any:
    return _cholesky_solve(jnp.broadcast_to(jnp.eye(factor.shape[-1], dtype=factor.dtype), factor.shape), factor, upper)


def _triangular_solve(b: Any, a: Any, upper: bool = True, transpose: bool = False, unitriangular: bool = False) -> Any:
    solution = lax.linalg.triangular_solve(
        a, b, left_side=True, lower=not upper, transpose_a=transpose, unit_diagonal=unitriangular
    )
    return solution, a


def _solve_triangular(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
    return lax.linalg.triangular_solve(a, b, left_side=left, lower=not upper, unit_diagonal=unitriangular)


def _gcd(x: Any, y: Any) -> Any:
    """Euclid's remainders, in as many steps as the slowest pair takes; no divisor is 0."""

    def step(pair: Any) -> Any:
        x, y = pair
        return jnp.where(y == 0, x, y), jnp.where(y == 0, 0, lax.rem(x, jnp.where(y == 0, 1, y)))

    pair = tuple(map(jnp.abs, jnp.broadcast_arrays(x, y)))
    return lax.while_loop(lambda pair: jnp.any(pair[1] != 0), step, pair)[0]


def _lcm(x: Any, y: Any) -> Any:
    return jnp.abs(lax.div(x, jnp.maximum(_gcd(x, y), 1)) * y)


def _addbmm(x: Any, first: Any, second: Any, beta: float = 1, alpha: float = 1) -> Any:
    return beta * x + alpha * jnp.sum(first @ second, 0)


def _ratio_of_gammas(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda a, x: function(*jnp.broadcast_arrays(a, x))


def function_for(name: str) -> Callable[..., Any] | None:
    """The function of jax arrays for an operator and its overload (aten.min.dim), or for all its overloads."""
    return FUNCTIONS.get(name) or FUNCTIONS.get(name.rpartition(".")[0])


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "aten._fft_c2c": _c2c,
    "aten._fft_c2r": _c2r,
    "aten._fft_r2c": _r2c,
    "aten._linalg_det": lambda a: (jnp.linalg.det(a), None, None),
    "aten._linalg_slogdet": lambda a: (*jnp.linalg.slogdet(a), None, None),
    "aten._linalg_eigh": _eigh,
    "aten._linalg_solve_ex": _solve_ex,
    "aten._linalg_svd": _svd,
    "aten._pdist_forward": _pdist,
    "aten.addbmm": _addbmm,
    "aten.angle": jnp.angle,
    "aten.as_strided": _as_strided,
    "aten.cholesky_inverse": _cholesky_inverse,
    "aten.cholesky_solve": _cholesky_solve,
    "aten.copysign": jnp.copysign,
    "aten.diagonal": lambda x, offset=0, dim1=0, dim2=1: jnp.diagonal(x, offset, dim1, dim2),
    "aten.fmax": jnp.fmax,
    "aten.fmin": jnp.fmin,
    "aten.gcd": _gcd,
    "aten.histc": _histc,
    "aten.hypot": jnp.hypot,
    "aten.i0": special.i0,
    "aten.igamma": _ratio_of_gammas(lax.igamma),
    "aten.igammac": _ratio_of_gammas(lax.igammac),
    "aten.kthvalue": _kth,
    "aten.lcm": _lcm,
    "aten.inverse": jnp.linalg.inv,
    "aten.linalg_cholesky": _cholesky,
    "aten.linalg_cholesky_ex": lambda a, upper=False, check_errors=False: (_cholesky(a, upper), None),
    "aten.linalg_householder_product": lax.linalg.householder_product,
    "aten.linalg_inv": jnp.linalg.inv,
    "aten.linalg_inv_ex": _inv_ex,
    "aten.linalg_lstsq": _lstsq,
    "aten.linalg_lu": _lu,
    "aten.linalg_lu_factor": _lu_factor,
    "aten.linalg_lu_factor_ex": _lu_factor,
    "aten.linalg_lu_solve": _lu_solve,
    "aten.linalg_matrix_exp": jax.scipy.linalg.expm,
    "aten.linalg_pinv": _pinv,
    "aten.linalg_pinv.default": lambda a, rcond, hermitian=False: _pinv(a, None, rcond, hermitian),
    "aten.linalg_pinv.rcond_tensor": lambda a, rcond, hermitian=False: _pinv(a, None, rcond, hermitian),
    "aten.linalg_qr": _qr,
    "aten.linalg_solve": _solve,
    "aten.linalg_solve_triangular": _solve_triangular,
    "aten.lu_unpack": _lu_unpack,
    "aten.logcumsumexp": lambda x, dim: lax.cumlogsumexp(x, dim % x.ndim),
    "aten.masked_scatter": _masked_scatter,
    "aten.nextafter": jnp.nextafter,
    "aten.polar": lambda size, angle: lax.complex(size * jnp.cos(angle), size * jnp.sin(angle)),
    "aten.polygamma": lambda n, x: special.polygamma(n, x),
    "aten.scatter_reduce": _scatter_reduce,
    "aten.searchsorted": _searchsorted,
    "aten.signbit": jnp.signbit,
    "aten.special_i0e": special.i0e,
    "aten.special_i1": special.i1,
    "aten.special_i1e": special.i1e,
    "aten.special_log_ndtr": special.log_ndtr,
    "aten.special_ndtri": special.ndtri,
    "aten.special_zeta": special.zeta,
    "aten.triangular_solve": _triangular_solve,
    "torchvision.roi_pool": _roi_pool,
}
