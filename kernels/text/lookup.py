"""Sparse embeddings, projections by hashing, and n-grams: builtins that no TensorFlow op stands for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Atom
from jfuse.ir.trace import active_trace, is_tracing
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, Static, namespace, tfl
from jfuse.kernels.text.farmhash import fingerprint64

_MOST_BITS = 32


@tfl("EMBEDDING_LOOKUP_SPARSE", sized_by_data=True)
def embedding_lookup_sparse(
    ids: Array, indices: Array, dense_shape: Static, weights: Array, params: Array, /, *, combiner: str
) -> Array:
    """Weighed sums of rows of params, those whose ids stand in one row of a sparse tensor; rows without ids are 0.

    ids: i32[n]; indices: i32[n, rank], where each id stands; dense_shape: i32[rank]; weights: f32[n];
    params: f32[rows, ...] -> f32[*dense_shape[:-1], ...]. combiner: SUM, MEAN (divided by the sum of the weights) or
    SQRTN (by the root of the sum of their squares). For MEAN and SQRTN the runtime wants the ids of a row side by side.
    Source: tflite/kernels/embedding_lookup_sparse.cc
    """
    xp = namespace(ids, indices, weights, params)
    outer = tuple(dense_shape[:-1])
    count = int(np.prod(outer, dtype=np.int64))
    places = xp.zeros(ids.shape, np.int32)
    for axis, size in enumerate(outer):
        places = places * np.int32(size) + indices[:, axis]

    def summed(values: Array) -> Array:
        start = xp.zeros((count, *values.shape[1:]), values.dtype)
        if xp is not np:
            return start.at[places].add(values)
        np.add.at(start, places, values)
        return start

    total = summed(xp.take(params, ids, axis=0) * weights.reshape(-1, *(1 for _ in params.shape[1:])))
    if combiner != "SUM":
        norms = summed(weights) if combiner == "MEAN" else xp.sqrt(summed(weights * weights))
        norms = xp.where(summed(xp.ones_like(weights)) > 0, norms, xp.ones_like(norms))
        total = total / norms.reshape(-1, *(1 for _ in params.shape[1:]))
    return total.reshape((*outer, *params.shape[1:]))


@embedding_lookup_sparse.types
def _sparse_type(
    ids: TensorType, indices: TensorType, dense_shape: Any, weights: TensorType, params: TensorType, *, combiner: str
) -> TensorType:
    _check_sparse(ids, indices, weights, params)
    if indices.shape[1] != len(dense_shape):
        raise TypeMismatch("indices of another rank than the sparse tensor", found=f"{indices}, {dense_shape}")
    return TensorType((*dense_shape[:-1], *params.shape[1:]), params.dtype)


@embedding_lookup_sparse.types_by_data
def _sparse_type_by_data(
    ids: Atom, indices: Atom, dense_shape: Atom, weights: Atom, params: Atom, *, combiner: str
) -> TensorType:
    _check_sparse(ids.type, indices.type, weights.type, params.type)
    outer = (active_trace().names.fresh("N") for _ in range(int(dense_shape.type.shape[0]) - 1))
    return TensorType((*outer, *params.type.shape[1:]), params.type.dtype)


def _check_sparse(ids: TensorType, indices: TensorType, weights: TensorType, params: TensorType) -> None:
    if (ids.rank, indices.rank, weights.rank) != (1, 2, 1) or params.rank < 2:
        raise TypeMismatch("operands of another rank", found=f"{ids}, {indices}, {weights}, {params}")


@tfl("LSH_PROJECTION", traceable=False, switch="compare")  # it hashes bytes, which jax cannot
def lsh_projection(hash_: Array, x: Array, weight: Array | None = None, /, *, type: str) -> Array:  # noqa: A002 - the schema's name
    """Bits that tell on which side of random planes the rows of x, hashed and weighed, lie together.

    hash_: f32[hashes, bits], a seed for each bit, 32 bits at most; x: any[n, ...] but strings; weight: f32[n].
    Bit: whether the sum over rows of weight * fingerprint(seed, row), as a signed number, is above 0.
    type: DENSE gives i32[hashes * bits], SPARSE i32[hashes], the bits of each as a number, plus 2^bits times its place.
    Source: tflite/kernels/lsh_projection.cc
    """
    seeds, rows = np.asarray(hash_, np.float32), np.ascontiguousarray(x)
    scores = np.zeros(seeds.shape)
    each = np.ones(len(rows)) if weight is None else np.asarray(weight, np.float64)
    for row, factor in zip(rows, each, strict=True):
        for place, seed in np.ndenumerate(seeds):
            scores[place] += factor * float(np.uint64(fingerprint64(seed.tobytes() + row.tobytes())).view(np.int64))
    bits = (scores > 0).astype(np.int64)
    if type == "DENSE":
        return bits.reshape(-1).astype(np.int32)
    powers = 1 << np.arange(seeds.shape[1] - 1, -1, -1, dtype=np.int64)
    numbers = bits @ powers + np.arange(len(seeds)) * (1 << seeds.shape[1])
    return numbers.astype(np.int32)


@lsh_projection.types
def _lsh_type(hash_: TensorType, x: TensorType, weight: TensorType | None, *, type: str) -> TensorType:  # noqa: A002 - the schema's name
    if hash_.rank != 2 or not x.rank or x.dtype is DType.string or type not in ("DENSE", "SPARSE"):
        raise TypeMismatch("operands that no projection takes", found=f"{hash_}, {x}, {type}")
    hashes, bits = hash_.shape
    if not isinstance(bits, int) or bits > _MOST_BITS:
        raise TypeMismatch("more bits than a number holds", expected=f"at most {_MOST_BITS}", found=bits)
    return TensorType((hashes * bits if type == "DENSE" else hashes,), DType.i32)


@tfl("SKIP_GRAM", traceable=False)
def skip_gram(x: Array, /, *, ngram_size: int, max_skip_size: int, include_all_ngrams: bool) -> Array:
    """All runs of ngram_size words of the first text, with up to max_skip_size words left out between two.

    x: string[...] -> string[n]. include_all_ngrams: shorter runs too, each behind those that go on from it. None where
    there are fewer than ngram_size words. Words are joined by a space, whatever stood between them.
    Source: tflite/kernels/skip_gram.cc
    """
    words = _words(np.ravel(x)[0])
    sizes = range(1 if include_all_ngrams else ngram_size, ngram_size + 1)

    def runs(chosen: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        if len(chosen) < ngram_size:
            reach = chosen[-1] + max_skip_size + 2 if chosen else len(words)
            for following in range(chosen[-1] + 1 if chosen else 0, min(reach, len(words))):
                yield from runs((*chosen, following))
        if len(chosen) in sizes:
            yield chosen

    grams = [b" ".join(words[i] for i in run) for run in runs(())] if len(words) >= ngram_size else []
    texts = np.empty(len(grams), object)
    texts[:] = grams
    return texts


@skip_gram.types
def _skip_gram_type(x: TensorType, *, ngram_size: int, max_skip_size: int, include_all_ngrams: bool) -> TensorType:
    count = active_trace().names.fresh("N") if is_tracing() else symbol("N")
    return TensorType((count,), DType.string)


def _words(text: bytes) -> list[bytes]:
    """The words of a text, as the kernel finds them: a space in front belongs to the first one."""
    words, start = [], 0
    for place in range(1, len(text)):
        if text[place : place + 1].isspace():
            if place > start and not text[start : start + 1].isspace():
                words.append(text[start:place])
            start = place + 1
    return [*words, text[start:]] if len(text) > start else words
