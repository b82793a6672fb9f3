"""Lookup tables: HASHTABLE_FIND in a table of strings, HASHTABLE_LOOKUP in sorted integers.

A table of TFLite's is a resource, filled once by a subgraph of its own. In the IR it is two constants, keys and values.
"""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, namespace, tfl


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
