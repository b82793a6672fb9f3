"""Functions of jax arrays, with what they take: each uses a few primitives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

B, T = jax.export.symbolic_shape("B,T")
Row = tuple[str, Callable[..., Any], tuple[Any, ...]]


def f32(*shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)


def i32(*shape: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.int32)


X, IDS = f32(B, 4, 6), i32(B, 3)
FILTERS: Any = np.random.default_rng(5).normal(size=(3, 3, 6, 8)).astype(np.float32)
W: Any = np.random.default_rng(6).normal(size=(6, 6)).astype(np.float32)
BYTES = np.round(3 * W).astype(np.int8)
SEED: Any = jax.random.key(3)
POLYNOMIAL: Any = getattr(lax, "polynomial", None)  # of jax 0.12
TABLE: Any = np.arange(40, dtype=np.float32).reshape(8, 5)

ELEMENTWISE: tuple[Row, ...] = (
    ("arithmetic", lambda x: (x + 1) * x - x / (2 + jnp.abs(x)) + jnp.sign(x) * -x, (X,)),
    ("powers", lambda x: x**3 + jnp.abs(x) ** 0.5 + x**-2 + jnp.exp2(x) + jnp.cbrt(x), (X,)),
    ("exponentials", lambda x: jnp.exp(x) + jnp.expm1(x) + jnp.log(jnp.abs(x) + 1) + jnp.log1p(jnp.abs(x)), (X,)),
    ("roots", lambda x: jnp.sqrt(jnp.abs(x)) + lax.rsqrt(jnp.abs(x) + 1) + jnp.square(x), (X,)),
    ("circular", lambda x: jnp.sin(x) + jnp.cos(x) + jnp.arctan(x) + jnp.arctan2(x, x + 3), (X,)),
    ("hyperbolic", lambda x: jnp.tanh(x) + jnp.sinh(x) + jnp.arcsinh(x) + jax.nn.sigmoid(x), (X,)),
    ("error functions", lambda x: lax.erf(x) + lax.erfc(x) + lax.erf_inv(jnp.tanh(x)), (X,)),
    (
        "more circular",
        lambda x: jnp.tan(x / 3) + lax.asin(lax.sin(x)) + lax.acos(lax.cos(x)) + lax.acosh(2 + x * x),
        (X,),
    ),
    ("more hyperbolic", lambda x: lax.atanh(lax.tanh(x)) + lax.cosh(x) + lax.lgamma(x * x + 0.1), (X,)),
    ("special", lambda x: lax.digamma(x * x + 1) + lax.bessel_i0e(x) + lax.bessel_i1e(x), (X,)),
    ("complex", lambda x: lax.imag(lax.conj(lax.complex(x, x + 1)) * lax.complex(x, x)) + lax.complex(x, x).real, (X,)),
    ("shifts", lambda i: (i << 2) + ((i - 2) >> 1) + lax.le(i, 1) + lax.shift_left(i, i), (IDS,)),
    (
        "less precision",
        lambda x: (
            lax.reduce_precision(lax.round(x), 5, 10)  # exact in any of them: XLA rounds or leaves it, by version
            + lax.reduce_precision(jax.device_put(lax.round(x)), 8, 7)
            + lax.eq_to_p.bind(x, x * 1)
        ),
        (X,),
    ),
    *(
        (
            ("polynomials", lambda x: POLYNOMIAL(x, [1.0, -2.0, 0.5]) + POLYNOMIAL(x / 4, [1.0] * 12), (X,)),
            ("total order", lambda x: lax.lt_to_p.bind(x, x * 2) + 2 * lax.le_to_p.bind(x, x * 2), (X,)),
        )
        if POLYNOMIAL is not None
        else ()
    ),
    ("barriers", lambda x: lax.optimization_barrier((x, x + 1))[1], (X,)),
    ("rounding", lambda x: jnp.floor(x) + jnp.ceil(x) + jnp.round(x) + jnp.trunc(x), (X,)),
    ("comparisons", lambda x: jnp.where((x > 0) & ~(x >= 1) | (x == -1), x, -x) + (x < 0) + (x != 2), (X,)),
    ("clips", lambda x: jnp.clip(x, -0.5, 0.5) + jnp.maximum(x, 0.1) + jnp.minimum(x, -0.1), (X,)),
    ("activations", lambda x: jax.nn.gelu(x) + jax.nn.relu(x) + jax.nn.silu(x) + jax.nn.softplus(x), (X,)),
    ("integers", lambda i: i // 2 + i % 3 + lax.div(i, 2) + lax.rem(i, 2) + (i ^ 1) + (i & 1) + (i | 4), (IDS,)),
    (
        "divided by 0",
        lambda i: (lax.div(i + 1, i), lax.rem(i + 1, i), lax.rem(i.astype(jnp.uint32), jnp.uint32(0))),
        (IDS,),
    ),
    (
        "unsigned",
        lambda i: (lax.rem(i.astype(jnp.uint32) - 2, jnp.uint32(7)), jnp.sort(i.astype(jnp.uint32) - 1)),
        (IDS,),
    ),
    ("casts", lambda x: (x * 3).astype(jnp.int32) + (x != 0).astype(jnp.int32) + x.astype(bool), (X,)),
    ("finite", lambda x: jnp.isfinite(x).astype(jnp.float32) + jnp.nan_to_num(x), (X,)),
    ("select_n", lambda x, i: lax.select_n(jnp.broadcast_to(i[:, :1, None] % 3, x.shape), x, -x, x * 2), (X, IDS)),
)
SHAPES: tuple[Row, ...] = (
    ("reshape by open sizes", lambda x: x.reshape(x.shape[0], -1) + x.shape[0], (X,)),
    ("broadcast", lambda x: jnp.broadcast_to(x[:, :1], x.shape) + jnp.ones((x.shape[0], 1, 6)), (X,)),
    ("transpose and squeeze", lambda x: jnp.squeeze(x[:, :1].transpose(2, 1, 0), 1), (X,)),
    ("slices", lambda x: x[:, 1:3, ::2] + x[:, -1:, 1::2], (X,)),
    ("strides over open sizes", lambda x: x.reshape(-1, 4)[::2, 1:3], (X,)),
    ("joins", lambda x: jnp.concatenate([x, jnp.zeros((x.shape[0], 1, 6)), x[:, ::-1]], 1), (X,)),
    ("pads", lambda x: lax.pad(x, 2.0, ((0, 0, 0), (1, -1, 0), (0, 1, 1))), (X,)),
    ("flips and rolls", lambda x: jnp.flip(x, 1) + jnp.roll(x, 1, axis=2) + jnp.tile(x[:, :1], (1, 4, 1)), (X,)),
    ("split", lambda x: jnp.split(x, [1, 4], axis=2), (X,)),
    ("stacks", lambda x: (jnp.stack([x, -x], 2), *jnp.unstack(x, axis=1), *jnp.unstack(x[:, :1], axis=1)), (X,)),
    ("iota", lambda x: x * jnp.arange(6) + jnp.arange(x.shape[0])[:, None, None], (X,)),
    ("one hot", lambda x: jax.nn.one_hot(jnp.argmax(x, -1), 6), (X,)),
    ("dict results", lambda x: {"b": x + 1, "a": (x * 2, x)}, (X,)),
)
REDUCTIONS: tuple[Row, ...] = (
    ("sums", lambda x: x.sum(0) + x.mean((0, 1)) + jnp.var(x, 0) + x.prod(0), (X,)),
    ("extremes", lambda x: x.max(-1) + x.min(-1) + jnp.argmax(x, -1) + jnp.argmin(x, -1), (X,)),
    ("booleans", lambda x: (x > 0).all(-1).astype(jnp.int32) + (x > 1).any(-1), (X,)),
    ("softmax", lambda x: jax.nn.softmax(x @ W) + jax.nn.log_softmax(x) + jax.nn.softmax(x, 1), (X,)),
    ("running", lambda x: jnp.cumsum(x, 1) + lax.cummax(x, 1) + lax.cummin(x, 2, reverse=True), (X,)),
    ("running products", lambda x: lax.cumprod(x, 2) + lax.cumlogsumexp(x, 2), (X,)),
    ("sorts", lambda x: (jnp.sort(x, 1), jnp.argsort(x, 2), lax.top_k(x, 3)), (X,)),
    ("nearly the greatest", lambda x: (*lax.approx_max_k(x, 3), *lax.approx_min_k(x, 2)), (X,)),
    ("places among others", lambda x: jnp.searchsorted(jnp.arange(-2.0, 2.0), x), (X,)),
    ("key and value", lambda x: lax.sort((x, x * 2), dimension=1, num_keys=1), (X,)),
    ("several keys", lambda x, i: lax.sort((i, x[:, :3, 0] > 0, x[:, :3, 1]), num_keys=2, dimension=0), (X, IDS)),
    ("norms", lambda x: jnp.linalg.norm(x, axis=-1) + jax.scipy.special.logsumexp(x, -1), (X,)),
    ("pools", lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID"), (X,)),
    ("padded pools", lambda x: lax.reduce_window(x, 0.0, lax.add, (1, 3, 3), (1, 1, 2), "SAME"), (X,)),
    ("least in windows", lambda x: lax.reduce_window(x, jnp.inf, lax.min, (1, 2, 1), (1, 1, 1), "SAME"), (X,)),
)


def eight_bits(x: Any) -> Any:
    return jnp.round(x * 40).astype(jnp.int8)


def in_32_bits(x: Any) -> Any:
    """A convolution of numbers of 8 bits."""
    return lax.conv_general_dilated(
        eight_bits(x),
        BYTES[None] * np.int8(9),
        (1,),
        "SAME",
        dimension_numbers=("NWC", "WIO", "NWC"),
        preferred_element_type=jnp.int32,
    )


def in_batch_groups(x: Any, groups: int, filters: Any, **how: Any) -> Any:
    """A convolution whose batch is in groups, each with filters of its own."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, filters, batch_group_count=groups, dimension_numbers=numbers, **how)


PRODUCTS: tuple[Row, ...] = (
    ("mixed matmul", lambda x: ((x @ (W + 1j * W[::-1])).real, (x @ (1j * W)).imag, x @ BYTES), (X,)),
    (
        "sums of 32 bits",
        lambda x: (lax.dot(eight_bits(x[:, 0]), BYTES, preferred_element_type=jnp.int32), in_32_bits(x)),
        (X,),
    ),
    ("complex of many numbers", lambda x: (x @ np.tile(W - 1j * W[::-1], 9) + np.complex64(2 - 3j)).imag, (X,)),
    ("matmul", lambda x: x @ W + jnp.einsum("bij,jk->bik", x, W), (X,)),
    ("batched", lambda x: jnp.einsum("bij,bkj->bik", x, x), (X,)),
    ("outer", lambda x: jnp.einsum("bij,bkl->bijkl", x[:, :2], x[:, :3]), (X,)),
    ("vmap", lambda x: jax.vmap(lambda r: r @ r.T)(x), (X,)),
    ("contraction over two", lambda x: jnp.tensordot(x, np.ones((4, 6, 2), np.float32), ((1, 2), (0, 1))), (X,)),
)


def grouped(x: Any, filters: Any) -> Any:
    """A convolution in two groups of channels."""
    numbers = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, filters, (1, 1), "SAME", feature_group_count=2, dimension_numbers=numbers)


CONVOLUTIONS: tuple[Row, ...] = (
    (
        "batch groups",
        lambda x: in_batch_groups(x, 2, FILTERS, window_strides=(1, 1), padding="SAME"),
        (f32(4, 5, 5, 6),),
    ),
    (
        "as many groups as images",
        lambda x: in_batch_groups(x, 4, FILTERS, window_strides=(2, 1), padding="VALID", rhs_dilation=(1, 2)),
        (f32(4, 6, 7, 6),),
    ),
    (
        "gradient of groups",
        lambda x: jax.grad(lambda w: (grouped(x, w) ** 2).sum())(FILTERS[:, :, :3]),
        (f32(2, 5, 5, 6),),
    ),
    (
        "NHWC",
        lambda x: lax.conv(x.transpose(0, 3, 1, 2), FILTERS.transpose(3, 2, 0, 1), (1, 1), "SAME"),
        (f32(B, 5, 7, 6),),
    ),
    (
        "NCHW strides",
        lambda x: lax.conv_general_dilated(x, FILTERS.transpose(3, 2, 0, 1), (2, 2), [(1, 1), (0, 1)]),
        (f32(B, 6, 8, 9),),
    ),
    (
        "dilated",
        lambda x: lax.conv_general_dilated(
            x, FILTERS, (1, 1), "SAME", rhs_dilation=(2, 2), dimension_numbers=("NHWC", "HWIO", "NHWC")
        ),
        (f32(B, 8, 8, 6),),
    ),
    (
        "groups",
        lambda x: lax.conv_general_dilated(
            x,
            FILTERS[:, :, :2],
            (1, 1),
            "VALID",
            feature_group_count=2,
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        (f32(2, 5, 5, 4),),
    ),
    (
        "depthwise over time",
        lambda x: lax.conv_general_dilated(
            x,
            FILTERS[0, :, :1, :6].repeat(2, -1),
            (1,),
            "SAME",
            feature_group_count=6,
            dimension_numbers=("NWC", "WIO", "NWC"),
        ),
        (f32(B, 7, 6),),
    ),
    (
        "transposed",
        lambda x: lax.conv_transpose(x, FILTERS, (2, 2), "SAME") + lax.conv_transpose(x, FILTERS, (2, 2), "SAME"),
        (f32(B, 4, 5, 6),),
    ),
    ("transposed VALID", lambda x: lax.conv_transpose(x, FILTERS, (3, 2), "VALID"), (f32(2, 4, 5, 6),)),
    (
        "volumes",
        lambda x: lax.conv_general_dilated(
            x, FILTERS[:2, :, None, :6], (1, 1, 1), "SAME", dimension_numbers=("NDHWC", "DHWIO", "NDHWC")
        ),
        (f32(1, 3, 4, 4, 6),),
    ),
)
INDEXING: tuple[Row, ...] = (
    ("rows of a table", lambda i: jnp.take(TABLE, i, axis=0), (IDS,)),
    ("columns of a table", lambda i: jnp.asarray(TABLE)[:, i % 5], (IDS,)),
    ("pairs", lambda x, i: x[jnp.arange(x.shape[0])[:, None], i], (X, IDS)),
    ("along an axis", lambda x, i: jnp.take_along_axis(x[:, :, 0], i, axis=1), (X, IDS)),
    ("along an open axis", lambda x, i: jnp.take_along_axis(x[:, :3, 0], i % x.shape[0], axis=0), (X, IDS)),
    ("row and column", lambda x, i: x[i % x.shape[0], i[:, ::-1] % 4], (X, IDS)),
    ("clipped", lambda i: jnp.take(TABLE, i + 6, axis=0, mode="clip"), (IDS,)),
    ("filled", lambda x, i: jnp.take(x, i * 2 - 1, axis=1, mode="fill", fill_value=3.0), (X, IDS)),
    ("between places", lambda x: jax.scipy.ndimage.map_coordinates(x[0], [x[0] * 2, x[0] + 1], 1, cval=2.0), (X,)),
    ("one place", lambda x, i: x[:, i[0, 0], 1], (X, IDS)),
    ("one of a table", lambda x, i: jnp.take(x, i[0, 0], axis=1) + jnp.take(x, 2, axis=1), (X, IDS)),
    ("dynamic slice", lambda i: lax.dynamic_slice(jnp.asarray(TABLE), (i[0, 0], i[0, 1]), (6, 2)), (IDS,)),
    ("windows", lambda x, i: jax.vmap(lambda r, s: lax.dynamic_slice(r, (s[0], 0), (2, 6)))(x, i), (X, IDS)),
    ("dynamic update", lambda x, i: lax.dynamic_update_slice(x, -x[:, :1, :2], (0, i[0, 0], i[0, 1])), (X, IDS)),
    ("write", lambda x: x.at[:, 0].set(1.0).at[:, 1].add(2.0).at[:, 2, 3].max(5.0), (X,)),
    ("write all", lambda x: (x.at[...].set(2.0) * x, x[0, 0, 0].at[...].add(1.0), x.at[...].max(0.5)), (X,)),
    ("write at a place", lambda x, i: x.at[i[0, 0] % 2, 1].set(5.0), (X, IDS)),
    ("write beyond", lambda x, i: x.at[:, i[0, 0] + 3].set(5.0, mode="drop"), (X, IDS)),
    ("add to rows", lambda x, i: jnp.zeros((9, 6)).at[i[0]].add(x[0, :3]), (X, IDS)),
    ("count", lambda i: jnp.zeros(5, jnp.int32).at[i.reshape(-1)].add(1), (i32(4, 3),)),
    ("apply", lambda x, i: (x.at[:, 0].apply(jnp.sin), x[0].at[i[0]].apply(jnp.cos)), (X, IDS)),
    ("set rows", lambda x, i: jnp.ones((9, 6)).at[i[0, :1]].set(x[0, :1], unique_indices=True), (X, IDS)),
)


def rejoined(values: Any, vectors: Any) -> Any:
    """Eigenvalues, and the sine of the matrix."""
    return values, (vectors * jnp.sin(values)[..., None, :]) @ vectors.mT


def of_parts(left: Any, values: Any, right: Any) -> Any:
    """Singular values, and a matrix with the sines of these."""
    return values, (left * jnp.sin(values)[..., None, :]) @ right


def positive(x: Any) -> Any:
    """Numbers that shape parameters may be."""
    return jnp.abs(x) + 0.5


def definite(x: Any) -> Any:
    """Matrices that are far from singular.   f32[b, 4, 6] -> f32[b, 4, 4]"""
    return x[:, :, :4] + 4 * jnp.eye(4)


OF_OTHERS: tuple[Row, ...] = (
    (
        "gamma's parts",
        lambda x: lax.igamma(positive(x), jnp.abs(x)) + lax.igammac(positive(x), jnp.abs(x)),
        (f32(3, 4),),
    ),
    ("zeta", lambda x: lax.zeta(positive(x) + 1, positive(x)) + lax.polygamma(jnp.ones_like(x), positive(x)), (X,)),
    ("beta's part", lambda x: lax.betainc(positive(x), positive(-x) * 2, jax.nn.sigmoid(x)), (f32(3, 4),)),
    ("neighbours", lambda x: lax.nextafter(x, -x), (X,)),
    ("bits", lambda i: lax.clz(i - 1) + lax.population_count(i - 1) + lax.shift_right_logical(i - 2, 3), (IDS,)),
    ("ragged products", lambda x: lax.ragged_dot(x, jnp.stack([W, -W]), jnp.array([1, 2])), (f32(3, 6),)),
    ("factors", lambda x: lax.linalg.lu(x[:, :, :3]) + lax.linalg.lu(x[:, :2]), (X,)),
    ("orthogonal factors", lambda x: (*jnp.linalg.qr(x), *jnp.linalg.qr(x[:, :, :3], "complete")), (X,)),
    ("eigenvalues", lambda x: rejoined(*jnp.linalg.eigh(x[:, :, :4] + x[:, :, :4].mT)), (X,)),
    ("singular values", lambda x: of_parts(*jnp.linalg.svd(x[:, :2, :3], full_matrices=False)), (X,)),
    (
        "windows from 3 on",
        lambda x: lax.reduce_window(x, 3.0, lax.add, (1, 2, 3), (1, 1, 2), "SAME", window_dilation=(1, 2, 1)),
        (X,),
    ),
    ("wide windows", lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 9, 11), (1, 1, 1), "SAME"), (f32(2, 10, 12),)),
    ("solved", lambda x: jnp.linalg.solve(definite(x), x) + jnp.linalg.inv(definite(x)) @ x, (X,)),
    ("determinants", lambda x: (jnp.linalg.det(definite(x)), *jnp.linalg.slogdet(definite(-x))), (X,)),
    ("exponential of matrices", lambda x: jax.scipy.linalg.expm(0.1 * x[0, :3, :3]), (X,)),
    ("reflections", lambda x: lax.linalg.householder_product(x[:, :, :3], x[:, 0, :3]), (X,)),
    ("pivots", lambda i: lax.linalg.lu_pivots_to_permutation(jnp.array([2, 1, 3]) + 0 * i[0], 4), (IDS,)),
    (
        "three diagonals",
        lambda x: lax.linalg.tridiagonal_solve(0.3 * x[..., 0], positive(x[..., 1]) + 3, 0.3 * x[..., 2], x),
        (X,),
    ),
    ("reduced by a function", lambda x: lax.reduce(x, 1.0, lambda a, b: a * b * 1.0, (0, 2)), (f32(3, 2, 3),)),
    (
        "reduced together",
        lambda x: lax.reduce((x, -x), (0.0, 9.0), lambda a, b: (a[0] + b[0], jnp.minimum(a[1], b[1])), (1,)),
        (X,),
    ),
    ("exclusive or", lambda i: lax.reduce_xor(i * 5 + 3, (1,)), (IDS,)),
    ("windows by a function", lambda x: lax.reduce_window(x, 1.0, lax.mul, (1, 2, 2), (1, 1, 2), "SAME"), (X,)),
    (
        "windows with gaps",
        lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 1, 1), "VALID", window_dilation=(1, 2, 3)),
        (X,),
    ),
    (
        "sums of windows with gaps",
        lambda x: lax.reduce_window(
            x, 0.0, lax.add, (1, 2, 2), (1, 1, 1), ((0, 0), (1, 0), (0, 1)), base_dilation=(1, 2, 1)
        ),
        (X,),
    ),
    ("gradient of a pool", jax.grad(lambda x: (pooled(x) * jnp.arange(6.0).reshape(2, 3)).sum()), (f32(2, 4, 6),)),
    ("gradient of overlaps", jax.grad(lambda x: (overlapping(x) ** 2).sum()), (f32(2, 5, 6),)),
    ("change of a pool", lambda x: jax.jvp(overlapping, (x,), (jnp.sin(x),))[1], (f32(2, 5, 6),)),
    ("change of gamma's part", jax.grad(lambda x: lax.igamma(positive(x), positive(-x)).sum()), (f32(3, 4),)),
    (
        "squares of matrices",
        lambda x: lax.linalg.symmetric_product(x[..., :4], x[..., 1:5], symmetrize_output=True),
        (X,),
    ),
    ("less and least of rows", lambda x, i: jnp.ones((9, 6)).at[i[0]].min(x[0, :3]).at[8].subtract(x[0, 0]), (X, IDS)),
    ("changed factor", lambda x: lax.linalg.cholesky_update(3 * jnp.eye(4), x[0, :, 0]), (X,)),
    ("times rows", lambda x, i: jnp.ones((9, 6)).at[i[0]].multiply(x[0, :3]).at[8].multiply(2.0), (X, IDS)),
    ("live numbers", lambda i: jax.random.uniform(i[0, :2].astype(jnp.uint32), (3, 2)), (IDS,)),
    ("live keys", lambda i: jax.random.key_data(jax.random.split(jax.random.fold_in(SEED, i[0, 0]), 3)[1:]), (IDS,)),
    ("mapped while", lambda x: jax.vmap(lambda r: lax.while_loop(lambda c: c.sum() < 9, lambda c: c + 1, r))(x), (X,)),
)


def pooled(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2), (1, 2, 2), "VALID")


def overlapping(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 2), (1, 2, 1), "SAME")


@jax.custom_vjp
def doubled(x: Any) -> Any:
    return x * 2


doubled.defvjp(lambda x: (doubled(x), None), lambda _, y: (y,))

STRUCTURE: tuple[Row, ...] = (
    ("custom_vjp", lambda x: doubled(x) + 1, (X,)),
    ("scan", lambda x: lax.scan(lambda c, y: (c + y, c * 2), jnp.zeros(x.shape[:2]), jnp.moveaxis(x, 2, 0)), (X,)),
    ("reverse scan", lambda x: lax.scan(lambda c, y: (jnp.max(y) + c, c), 0.0, x, reverse=True), (f32(5, 3),)),
    ("scan without inputs", lambda x: lax.scan(lambda c, _: (c * 0.5 + 1, c), x, None, length=4), (X,)),
    ("cond", lambda x: lax.cond(x.sum() > 0, lambda y: y + 1, lambda y: y * 2, x), (X,)),
    ("switch", lambda x, i: lax.switch(i[0, 0], [jnp.negative, lambda y: y * 2, jnp.abs], x), (X, IDS)),
    ("while", lambda x: lax.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * 2 + x), (0, x)), (X,)),
    ("while by data", lambda x: lax.while_loop(lambda c: jnp.abs(c).max() < 9, lambda c: c * 2 + 1, x), (X,)),
    ("fori", lambda x: lax.fori_loop(0, 3, lambda i, c: c * x + i, x), (X,)),
    ("nested jit", lambda x: jax.jit(lambda y: jax.jit(jnp.tanh)(y) + 1)(x), (X,)),
    ("custom_jvp", lambda x: jax.nn.relu6(x) + jax.nn.hard_swish(x), (X,)),
    ("gradient", lambda x: jax.grad(lambda y: jnp.sum(jnp.tanh(y) ** 2))(x), (X,)),
    ("checkpoint", lambda x: jax.checkpoint(lambda y: jnp.sin(y) * 2)(x), (X,)),
    ("random constants", lambda x: x + jax.random.normal(jax.random.key(0), (4, 6)), (X,)),
    ("debug", lambda x: (jax.debug.print("{}", x.shape[1]), x + 1)[1], (X,)),
    ("fft", lambda x: jnp.abs(jnp.fft.rfft(x)) + jnp.fft.fft(x).real[..., :4], (X,)),
    ("triangular", lambda x: jnp.linalg.cholesky(jnp.eye(4) * 3 + 0.1 * x[:, :, :4] * 0), (X,)),
)
