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
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, Static, namespace, tfl

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


# Lookup tables: HASHTABLE_FIND in a table of strings, HASHTABLE_LOOKUP in sorted integers.
# A table of TFLite's is a resource, filled once by a subgraph of its own. In the IR it is two constants, keys and
# values.


@tfl("HASHTABLE_FIND")
def hashtable_find(keys: Array, values: Array, x: Array, default: Array, /) -> Array:
    """values[i] where x is keys[i], and default where x is no key.

    keys: string[n] or i64[n]; values: the other of the two, [n]; x: of the keys' dtype, any shape; default: one element
    of the values' dtype. In the file keys and values are the contents of a table and not operands of the operator.
    Source: tflite/kernels/hashtable_find.cc, tflite/experimental/resource/static_hashtable.cc
    """
    table = dict(zip(keys.tolist(), values.tolist(), strict=True))
    otherwise = np.ravel(default)[0]
    rows = np.empty(x.size, values.dtype)
    rows[:] = [table.get(key, otherwise) for key in x.ravel().tolist()]
    return rows.reshape(x.shape)


@hashtable_find.types
def _find_type(keys: TensorType, values: TensorType, x: TensorType, default: TensorType) -> TensorType:
    dtypes = (keys.dtype, values.dtype)
    if dtypes not in ((DType.string, DType.i64), (DType.i64, DType.string)):
        raise TypeMismatch("a table of other types than string and i64", found=f"{keys} -> {values}")
    if keys.rank != 1 or keys.shape != values.shape or x.dtype is not keys.dtype or default.dtype is not values.dtype:
        raise TypeMismatch("a table and what is looked up in it do not fit", found=f"{keys}, {values}, {x}, {default}")
    return TensorType(x.shape, values.dtype)


@tfl("HASHTABLE_LOOKUP")
def hashtable_lookup(x: Array, keys: Array, values: Array, /) -> tuple[Array, Array]:
    """The rows of values whose keys are x, zeros for what is no key; and 1 for each key that was found, 0 else.

    x: i32[n]; keys: i32[k], ascending; values: any[k, ...] -> any[n, ...], u8[n]. The runtime compares by differences
    in i32, so x and keys must not be 2^31 apart.
    Source: tflite/kernels/hashtable_lookup.cc
    """
    xp = namespace(x, keys, values)
    agreed(keys.shape[0], values.shape[0])
    place = xp.clip(xp.searchsorted(keys, x), 0, keys.shape[0] - 1)
    hits = xp.take(keys, place) == x
    rows = xp.take(values, place, axis=0)
    mask = hits.reshape((-1, *(1 for _ in values.shape[1:])))
    missing = np.asarray(b"", object) if values.dtype == object else xp.zeros((), values.dtype)
    return xp.where(mask, rows, missing), hits.astype(np.uint8)


# FarmHash's 64-bit fingerprint, which TensorFlow and TFLite hash with.
# Source: github.com/google/farmhash, Fingerprint64 ("na"); arithmetic is modulo 2^64.

_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F
_ALL = (1 << 64) - 1
_BLOCK = 64


def fingerprint64(data: bytes) -> int:
    """The fingerprint of some bytes, from 0 to 2^64 - 1."""
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        return _up_to_32(data)
    return _up_to_64(data) if size <= _BLOCK else _longer(data)


def _word(data: bytes, place: int, size: int = 8) -> int:
    return int.from_bytes(data[place : place + size], "little")


def _rotated(value: int, bits: int) -> int:
    value &= _ALL
    return value >> bits | value << 64 - bits & _ALL


def _shifted(value: int) -> int:
    value &= _ALL
    return value ^ value >> 47


def _mixed(u: int, v: int, factor: int) -> int:
    a = _shifted(((u ^ v) & _ALL) * factor)
    b = _shifted(((v ^ a) & _ALL) * factor)
    return b * factor & _ALL


def _up_to_16(data: bytes) -> int:
    size = len(data)
    factor = _K2 + 2 * size & _ALL
    if size >= 8:
        a, b = _word(data, 0) + _K2, _word(data, size - 8)
        return _mixed(_rotated(b, 37) * factor + a & _ALL, (_rotated(a, 25) + b) * factor & _ALL, factor)
    if size >= 4:
        return _mixed(size + (_word(data, 0, 4) << 3), _word(data, size - 4, 4), factor)
    if size:
        y, z = data[0] + (data[size >> 1] << 8), size + (data[-1] << 2)
        return _shifted(y * _K2 & _ALL ^ z * _K0 & _ALL) * _K2 & _ALL
    return _K2


def _up_to_32(data: bytes) -> int:
    size = len(data)
    factor = _K2 + 2 * size & _ALL
    a, b = _word(data, 0) * _K1, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y, z = _rotated(a + b, 43) + _rotated(c, 30) + d, a + _rotated(b + _K2, 18) + c
    return _mixed(y & _ALL, z & _ALL, factor)


def _up_to_64(data: bytes) -> int:
    size = len(data)
    factor = _K2 + 2 * size & _ALL
    a, b = _word(data, 0) * _K2, _word(data, 8)
    c, d = _word(data, size - 8) * factor, _word(data, size - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d & _ALL
    z = _mixed(y, a + _rotated(b + _K2, 18) + c & _ALL, factor)
    e, f = _word(data, 16) * factor, _word(data, 24)
    g, h = (y + _word(data, size - 32)) * factor, (z + _word(data, size - 24)) * factor
    return _mixed(_rotated(e + f, 43) + _rotated(g, 30) + h & _ALL, e + _rotated(f + a, 18) + g & _ALL, factor)


def _half(data: bytes, place: int, a: int, b: int) -> tuple[int, int]:
    """32 bytes, hashed into a pair of seeds."""
    w, x, y, z = (_word(data, place + 8 * i) for i in range(4))
    a += w
    b = _rotated(b + a + z, 21)
    total = a + x + y
    return total + z & _ALL, b + _rotated(total, 44) + a & _ALL


def _longer(data: bytes) -> int:
    x, y = 81, 81 * _K1 + 113 & _ALL
    z = _shifted(y * _K2 + 113) * _K2 & _ALL
    x = x * _K2 + _word(data, 0) & _ALL
    v, w = (0, 0), (0, 0)
    last = (len(data) - 1) // _BLOCK * _BLOCK
    for place in range(0, last, _BLOCK):
        x, y, z, v, w = _block(data, place, (x, y, z), v, w, _K1, 1)
    rest = len(data) - 1 & _BLOCK - 1
    factor = _K1 + ((z & 0xFF) << 1) & _ALL
    first = w[0] + rest
    v = (v[0] + first & _ALL, v[1])
    w = (first + v[0] & _ALL, w[1])
    x, y, z, v, w = _block(data, last + rest - (_BLOCK - 1), (x, y, z), v, w, factor, 9)
    ends = _mixed(v[0], w[0], factor) + _shifted(y) * _K0 + z, _mixed(v[1], w[1], factor) + x
    return _mixed(ends[0] & _ALL, ends[1] & _ALL, factor)


def _block(
    data: bytes,
    place: int,
    state: tuple[int, int, int],
    v: tuple[int, int],
    w: tuple[int, int],
    factor: int,
    often: int,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """64 bytes, hashed into three words and two pairs. often: how often the pairs are added."""
    x, y, z = state
    x = _rotated(x + y + v[0] + _word(data, place + 8), 37) * factor & _ALL
    y = _rotated(y + v[1] + _word(data, place + 48), 42) * factor & _ALL
    x ^= w[1] * often & _ALL
    y = y + v[0] * often + _word(data, place + 40) & _ALL
    z = _rotated(z + w[0], 33) * factor & _ALL
    v = _half(data, place, v[1] * factor, x + w[0])
    w = _half(data, place + 32, z + w[1], y + _word(data, place + 16))
    return z, y, x, v, w
