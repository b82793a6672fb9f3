"""Sizes that a model computes in floats: the same numbers in integers. LiteRT has no double precision."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Const, Var
from jfuse.ir.trace import producer
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, static_value

_ARITHMETIC = (ops.add, ops.sub, ops.mul, ops.div)
_FLOATS = (DType.f32, DType.f64)
_SIZES = np.arange(2**15)
"""The sizes for which both spellings are compared: larger images are none, and products of two such are in i32."""


def whole_part(x: Array) -> Array | None:
    """Write the whole part of a float multiple of a size in integers, as n * p // q; None where the scalar is another.

    An f32 scalar is rewritten only for the size of a tensor: LiteRT computes with other numbers as TensorFlow does.
    The border of tf.image.central_crop, (n - n * fraction) / 2, is such a multiple. p / q is the largest of all whole
    parts over their sizes, so that no other quotient of small numbers can be right where it is not.
    """
    multiple = _of_sizes(x)
    if multiple is None:
        return None
    size, values = multiple
    if not np.isfinite(values).all() or values.min() < 0 or values.max() >= len(_SIZES):
        return None
    whole = values.astype(np.int64)
    q = 1 + int(np.argmax(whole[1:] / _SIZES[1:]))
    p = int(whole[q])
    if not np.array_equal(whole, _SIZES * p // q):
        return None
    return ops.floor_div(ops.mul(size, np.int32(p)), np.int32(q))


def _of_sizes(x: Any) -> tuple[Var, np.ndarray] | None:
    """The i32 scalar from which a float scalar follows by arithmetic with constants, and its value for each size."""
    made = producer(x) if isinstance(x, Var) and x.type.rank == 0 else None
    if made is None:
        return None
    (first, *_), result = made.inputs, made.outputs[0].type.dtype
    if made.op is ops.cast and isinstance(first, Var):
        is_size = result is DType.f64 or static_value(first) is not None
        return (first, _SIZES.astype(result.numpy)) if is_size and first.type.dtype is DType.i32 else None
    if made.op not in _ARITHMETIC or result not in _FLOATS:
        return None
    parts = [a.array if isinstance(a, Const) else _of_sizes(a) for a in made.inputs]
    of_size = [part for part in parts if isinstance(part, tuple)]
    if any(part is None for part in parts) or len({var for var, _ in of_size}) != 1:
        return None
    with np.errstate(all="ignore"):
        return of_size[0][0], made.op(*(part[1] if isinstance(part, tuple) else part for part in parts), **made.params)
