"""The slices of a tensor along an axis, by UNPACK where that has a kernel for the type."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jfuse.ir.dims import same, symbols_of
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import from_front
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank

_SLICED = frozenset({DType.i64, DType.f64, DType.u32, DType.u64})  # of which STRIDED_SLICE has a kernel, UNPACK none


def unpacked(x: Array, axis: int = 0) -> Sequence[Array]:
    """The slices of x along an axis of known size, without that axis."""
    if same(x.shape[axis], 1) is True:
        return (ops.squeeze(x, squeeze_dims=(from_front(axis, rank(x)),)),)
    if is_constant(x) or (dtype(x) not in _SLICED and not _may_be_empty(x)):
        parts = ops.unpack(x, axis=axis)
        return parts if isinstance(parts, tuple | list) else (parts,)
    place = from_front(axis, rank(x))
    return tuple(_slice(x, place, i) for i in range(x.shape[place]))


def _may_be_empty(x: Array) -> bool:
    """Whether data decide a size, as how many boxes are found: UNPACK refuses a tensor without elements."""
    tensors = sources()
    stated = frozenset().union(*(symbols_of(d) for source in tensors for d in source.shape))
    return bool(tensors) and any(symbols_of(d) - stated for d in x.shape)


def _slice(x: Array, axis: int, i: int) -> Array:
    n, bit = rank(x), 1 << axis
    begin = np.zeros(n, np.int32)
    begin[axis] = i
    masks = {"begin_mask": (1 << n) - 1 - bit, "end_mask": (1 << n) - 1 - bit, "shrink_axis_mask": bit}
    return ops.strided_slice(x, begin, begin + 1, np.ones(n, np.int32), **masks)
