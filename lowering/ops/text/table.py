"""Lookups in tables that never change: HASHTABLE_FIND for strings, GATHER or HASHTABLE_LOOKUP for integers."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rules import lowers

_DENSE = 4  # a table over all integers from the first to the last key may have so many rows for each key
_ALWAYS_DENSE = 1 << 10  # rows that cost next to nothing
_I32 = np.iinfo(np.int32)
_DIVISORS = (2147483629, 2147483587, 2147483579, 2147483563)  # primes below 2^31


def find(keys: np.ndarray, values: np.ndarray, x: Array, default: Array) -> Array:
    """values[i] where x is keys[i], else the default.

    keys: i32|i64|string[n], each once; values: any[n, ...]; x: of the keys' dtype, any shape; default: one row of
    values. TFLite's own tables map strings to i64 and i64 to strings; others give the number of a row to GATHER.
    """
    if not len(keys):
        return ops.fill(ops.shape(x), default)
    kinds = (dtype(keys), dtype(values))
    if kinds == (DType.string, DType.i64):
        return ops.hashtable_find(keys, values, x, default)
    if DType.string in kinds[1:] and kinds[0] in (DType.i32, DType.i64):
        wide = x if kinds[0] is DType.i64 else ops.cast(x, out_data_type=DType.i64)
        return ops.hashtable_find(keys.astype(np.int64), values, wide, default)
    if not is_constant(default):
        raise LowerError(
            "the default of a table is computed at run time",
            found=str(type_of(default)),
            remedy="compare the result with a constant default, and choose with tf.where",
        )
    rows = np.concatenate([np.reshape(default, (1, *values.shape[1:])), values])  # row 0 is for what is no key
    if kinds[0] is DType.string:
        numbers = np.arange(1, len(rows), dtype=np.int64)
        return ops.gather(rows, ops.hashtable_find(keys, numbers, x, np.zeros((), np.int64)), axis=0)
    if kinds[0] not in (DType.i32, DType.i64):
        raise LowerError(f"a table with keys of {kinds[0].value} has no TFLite spelling")
    order = np.argsort(keys, kind="stable")
    return _find_integers(keys[order], np.concatenate([rows[:1], values[order]]), x)


def _find_integers(keys: np.ndarray, rows: np.ndarray, x: Array) -> Array:
    """rows[i + 1] where x is keys[i], else rows[0].   keys: ascending"""
    first, last = int(keys[0]), int(keys[-1])
    info = np.iinfo(keys.dtype)
    inside = info.min < first and last < info.max  # so that there are integers before and behind the keys
    if inside and last - first < max(_ALWAYS_DENSE, _DENSE * len(keys)):
        dense = np.concatenate([rows[:1], np.repeat(rows[:1], last - first + 2)])
        dense[keys - (first - 1)] = rows[1:]
        place = _clamped(x, first - 1, last + 1)
        return ops.gather(dense, _minus(place, first - 1), axis=0)
    if inside and _I32.min < first and last < _I32.max and last - first + 2 < 2**31:
        place = _clamped(x, first - 1, last + 1)
        return ops.gather(rows, _numbers(keys.astype(np.int32), place), axis=0)
    return _find_remainders(keys, rows, x)


def _find_remainders(keys: np.ndarray, rows: np.ndarray, x: Array) -> Array:
    """As `_find_integers`, for keys from all over: the row by the remainder of a division, if the key there is x."""
    divisor = next((d for d in _DIVISORS if len(np.unique(np.mod(keys, d))) == len(keys)), None)
    if divisor is None or dtype(x) is DType.i32:
        raise LowerError(
            f"a table of {len(keys)} keys from {keys[0]} to {keys[-1]} has no TFLite spelling",
            remedy="number the keys from 0 on",
        )
    remainders = np.mod(keys, divisor)
    order = np.argsort(remainders)
    numbers = _numbers(remainders[order].astype(np.int32), ops.floor_mod(x, np.asarray(divisor, np.int64)))
    is_key = ops.equal(ops.gather(np.concatenate([keys[:1], keys[order]]), numbers, axis=0), x)
    numbers = ops.select_v2(is_key, numbers, np.zeros((), np.int32))
    return ops.gather(np.concatenate([rows[:1], rows[1:][order]]), numbers, axis=0)


def _numbers(keys: np.ndarray, x: Array) -> Array:
    """i + 1 where x is keys[i], else 0.   keys: i32[n], ascending; x: i32|i64, in the range of i32 -> i32"""
    flat = x if dtype(x) is DType.i32 else ops.cast(x, out_data_type=DType.i32)
    flat = flat if rank(x) == 1 else ops.reshape(flat, (-1,))
    numbers, _ = ops.hashtable_lookup(flat, keys, np.arange(1, len(keys) + 1, dtype=np.int32))
    if rank(x) == 1:
        return numbers
    sizes = [int(d) if is_known(d) else -1 for d in x.shape]
    return ops.reshape(numbers, sizes if sizes.count(-1) + (0 in sizes) <= 1 else ops.shape(x))


@lowers("StringToHashBucket", "StringToHashBucketFast", "StringToHashBucketStrong")
def lower_hash_bucket(x: Array, *, num_buckets: int, key: object = None) -> Array:
    """Zeros where there is one bucket; no operator of TFLite hashes a string."""
    if num_buckets != 1:
        raise LowerError(
            f"no TFLite operator hashes strings into {num_buckets} buckets",
            remedy="give what is out of the vocabulary one index (num_oov_indices=1), or take ids as inputs",
        )
    return ops.fill(ops.shape(x), np.zeros((), np.int64))


def _clamped(x: Array, low: int, high: int) -> Array:
    return ops.minimum(ops.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


def _minus(x: Array, amount: int) -> Array:
    return ops.sub(x, np.asarray(amount, x.dtype)) if amount else x
