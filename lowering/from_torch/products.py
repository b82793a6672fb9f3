"""Products: linear layers, matrices, einsum, attention, embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same
from jfuse.ir.graph import Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.elementwise import lower_add
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import lower_repeat_interleave, lower_slice_, lower_unsqueeze, transposed
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped
from jfuse.lowering.rules import DEFAULT, lowers_torch


@lowers_torch("aten.linear")
def lower_linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """FULLY_CONNECTED.   x: f[..., i], weight: f[o, i], bias: f[o]"""
    if rank(x) == 1:
        return shaped(lower_linear(lower_unsqueeze(x, 0), weight, bias), (weight.shape[0],))
    product = matrix_product(x, weight, False, True)
    return product if bias is None else ops.add(product, bias)


@lowers_torch("aten.matmul", "aten.mm", "aten.bmm", "aten.mv", "aten.dot")
def lower_matmul(x: Array, y: Array) -> Array:
    """x @ y over the last two axes; vectors are a row, or a column, which goes again."""
    left = lower_unsqueeze(x, 0) if rank(x) == 1 else x
    right = lower_unsqueeze(y, 1) if rank(y) == 1 else y
    products = matrix_product(left, right, False, False)
    rows, columns = products.shape[-2:]
    outer_sizes = (*((rows,) if rank(x) > 1 else ()), *((columns,) if rank(y) > 1 else ()))
    return shaped(products, (*products.shape[:-2], *outer_sizes), x, y, *sources())


@lowers_torch("aten.addmm", "aten.baddbmm", "aten.addmv")
def lower_addmm(bias: Array, x: Array, y: Array, *, beta: Any = 1, alpha: Any = 1) -> Array:
    """beta * bias + alpha * x @ y"""
    product = lower_matmul(x, y)
    product = product if alpha == 1 else ops.mul(product, as_type(alpha, dtype(product)))
    return lower_add(product, bias, alpha=beta)


@lowers_torch("aten._grouped_mm", "transformers.grouped_mm_fallback")
def lower_grouped_mm(
    x: Array, weights: Array, offs: Array | None = None, bias: Array | None = None, out_dtype: DType | None = None
) -> Array:
    """Multiply each row by its group's matrix, as a mixture of experts does: all rows by all matrices; one counts.

    x: f[s, k], sorted by groups; weights: f[g, k, n]; offs: i32[g], where each group ends.   -> f[s, n]
    """
    if offs is None and rank(x) == 3 and rank(weights) == 3:
        products = lower_matmul(x, weights)
    elif offs is not None and rank(x) == 2 and rank(weights) == 3:
        products = _by_groups(x, weights, offs)
    else:
        raise LowerError("groups of columns have no TFLite spelling", expected="f[s, k] and f[g, k, n], with offs")
    products = products if bias is None else ops.add(products, bias)
    return products if out_dtype is None else as_type(products, out_dtype)


def _by_groups(x: Array, weights: Array, offs: Array) -> Array:
    number = shaped(counted(x.shape[0], x, *sources()), (1, x.shape[0], 1), x, *sources())
    end = shaped(as_type(offs, DType.i32), (weights.shape[0], 1, 1))
    start = ops.concatenation(np.zeros((1, 1, 1), np.int32), lower_slice_(end, 0, 0, -1), axis=0)
    own = ops.logical_and(ops.greater_equal(number, start), ops.less(number, end))
    products = matrix_product(lower_unsqueeze(x, 0), weights, False, False)
    return ops.sum_(ops.select_v2(own, products, scalar(0, products)), np.array([0], np.int32), keep_dims=False)


@lowers_torch("aten.einsum")
def lower_einsum(equation: str, operands: Sequence[Array], *, path: Any = None) -> Array:
    """As TensorFlow's Einsum, two operands at a time."""
    return DEFAULT.lowers["Einsum"](*operands, equation=equation.replace(" ", ""))


@lowers_torch("aten.outer")
def lower_outer(x: Array, y: Array) -> Array:
    """The products of all pairs."""
    return ops.mul(lower_unsqueeze(x, 1), y)


@lowers_torch("aten.bilinear")
def lower_bilinear(x: Array, y: Array, weight: Array, bias: Array | None = None) -> Array:
    """x W y for each W of the weights.   x: f[..., i], y: f[..., j], weight: f[o, i, j]"""
    left = DEFAULT.lowers["Einsum"](x, weight, equation="...i,oij->...oj")
    products = DEFAULT.lowers["Einsum"](left, y, equation="...oj,...j->...o")
    return products if bias is None else ops.add(products, bias)


@lowers_torch("aten.embedding")
def lower_embedding(
    weight: Array, indices: Array, padding: int = -1, scale_grad: bool = False, sparse: bool = False
) -> Array:
    """The rows of a table."""
    return DEFAULT.lowers["GatherV2"](weight, indices, np.int32(0))


@lowers_torch("aten.scaled_dot_product_attention")
def lower_attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None = None,
    dropout: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """softmax(q k' * scale + mask) v.   q: f[..., l, e], k: f[..., s, e], v: f[..., s, v]

    mask: added, or true where a pair counts. enable_gqa: several heads of q share one of k and v.
    """
    if enable_gqa and same(query.shape[-3], key.shape[-3]) is not True:
        times = int(query.shape[-3]) // int(key.shape[-3])
        key, value = (lower_repeat_interleave(v, times, -3) for v in (key, value))
    factor = 1 / sqrt(int(query.shape[-1])) if scale is None else scale
    scores = matrix_product(ops.mul(query, scalar(factor, query)), key, False, True)
    if is_causal:
        rows = shaped(counted(query.shape[-2], query, *sources()), (query.shape[-2], 1), query, *sources())
        is_causal_pair = ops.less_equal(counted(key.shape[-2], key, *sources()), rows)
        scores = _where(is_causal_pair, scores)
    if mask is not None and dtype(mask) is DType.bool:
        scores = _where(mask, scores)
    elif mask is not None:
        scores = ops.maximum(ops.add(scores, mask), _least(scores)) if isinstance(mask, Var) else ops.add(scores, mask)
    weights = DEFAULT.lowers["Softmax"](scores)
    if isinstance(mask, Var):  # a row of which no pair counts is 0
        counts = mask if dtype(mask) is DType.bool else ops.greater(mask, scalar(-np.inf, mask))
        some = ops.reduce_any(counts, np.array([rank(mask) - 1], np.int32), keep_dims=True)
        weights = ops.mul(weights, ops.cast(some, out_data_type=dtype(weights)))
    return matrix_product(weights, value, False, False)


def _least(scores: Array) -> np.ndarray:
    kind = dtype(scores).numpy
    return np.asarray(-1e30 if kind.itemsize > 2 else -6e4, kind)


def _where(is_counted: Array, scores: Array) -> Array:
    """The scores of pairs that count, the least number for others."""
    least = _least(scores)
    if is_constant(is_counted):
        return ops.add(scores, np.where(np.asarray(is_counted), scalar(0, scores), least))
    wide = shaped(is_counted, (*[1] * (rank(scores) - rank(is_counted)), *is_counted.shape), is_counted, *sources())
    return ops.select_v2(wide, scores, least)


@lowers_torch("aten.cdist", "aten._cdist_forward")
def lower_cdist(x: Array, y: Array, p: float = 2.0, mode: int | None = None) -> Array:
    """The distances of all pairs of rows."""
    difference = ops.abs_(ops.sub(lower_unsqueeze(x, -2), lower_unsqueeze(y, -3)))
    last = np.array([rank(difference) - 1], np.int32)
    if p == 2:
        return ops.sqrt(ops.sum_(ops.mul(difference, difference), last))
    if p == 1:
        return ops.sum_(difference, last)
    return ops.pow_(ops.sum_(ops.pow_(difference, scalar(p, x)), last), scalar(1 / p, x))


@lowers_torch("aten.pixel_shuffle")
def lower_pixel_shuffle(x: Array, factor: int) -> Array:
    """DEPTH_TO_SPACE, of channels that PyTorch orders the other way.   x: f[b, c*r*r, h, w]"""
    batch, channels, height, width = x.shape
    r, channels_left = factor, int(channels) // factor**2
    parts = shaped(x, (batch, channels_left, r, r, height, width), x, *sources())
    return shaped(transposed(parts, (0, 1, 4, 2, 5, 3)), (batch, channels_left, height * r, width * r), x, *sources())


@lowers_torch("aten.pixel_unshuffle")
def lower_pixel_unshuffle(x: Array, factor: int) -> Array:
    """SPACE_TO_DEPTH, of channels that PyTorch orders the other way.   x: f[b, c, h*r, w*r]"""
    batch, channels, height, width = x.shape
    r = factor
    parts = shaped(x, (batch, channels, height // r, r, width // r, r), x, *sources())
    moved = transposed(parts, (0, 1, 3, 5, 2, 4))
    return shaped(moved, (batch, channels * r * r, height // r, width // r), x, *sources())


@lowers_torch("aten.channel_shuffle")
def lower_channel_shuffle(x: Array, groups: int) -> Array:
    """Channels of groups mixed.   x: f[b, c, ...]"""
    batch, channels, *rest = x.shape
    parts = shaped(x, (batch, groups, channels // groups, *rest), x, *sources())
    return shaped(transposed(parts, (0, 2, 1, *range(3, rank(parts)))), tuple(x.shape), x, *sources())


@lowers_torch("aten.cosine_similarity")
def lower_cosine_similarity(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    """The product of two vectors divided by their lengths, which are eps at least."""
    axes = np.array([dim % rank(x)], np.int32)

    def length(v: Array) -> Array:
        return ops.maximum(ops.sqrt(ops.sum_(ops.mul(v, v), axes)), scalar(eps, v))

    return ops.div(ops.sum_(ops.mul(x, y), axes), ops.mul(length(x), length(y)))
