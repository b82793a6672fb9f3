"""Picking and placing elements: gather, embedding tables, scatter, one-hot, top-k, where, range."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.gather import range_length
from jfuse.kernels.layout import from_front
from jfuse.kernels.op import Array
from jfuse.lowering.operands import i32_operand
from jfuse.lowering.query import axes_of, dtype, is_constant, rank, static
from jfuse.lowering.rules import lowers

_INDICES = (DType.i32, DType.i64)


@lowers("Gather")
def lower_gather(params: Array, indices: Array) -> Array:
    """GATHER along the first dimension."""
    return ops.gather(params, _indices(indices), axis=0)


@lowers("GatherV2")
def lower_gather_v2(params: Array, indices: Array, axis: Array, *, batch_dims: int = 0) -> Array:
    """GATHER, axis and batch_dims counted from the front."""
    (place,) = axes_of(axis, rank(params))
    return ops.gather(params, _indices(indices), axis=place, batch_dims=_batch(indices, batch_dims))


@lowers("ResourceGather")
def lower_resource_gather(resource: Array, indices: Array, *, batch_dims: int = 0) -> Array:
    """GATHER along the dimension after the batch dimensions; `resource` is the variable's value."""
    batch = _batch(indices, batch_dims)
    return ops.gather(resource, _indices(indices), axis=batch, batch_dims=batch)


def _batch(indices: Array, batch_dims: int) -> int:
    return batch_dims + rank(indices) if batch_dims < 0 else batch_dims


def _indices(indices: Array) -> Array:
    return indices if dtype(indices) in _INDICES else ops.cast(indices, out_data_type=DType.i32)


@lowers("GatherNd")
def lower_gather_nd(params: Array, indices: Array) -> Array:
    """GATHER_ND."""
    return ops.gather_nd(params, _indices(indices))


@lowers("ResourceGatherNd")
def lower_resource_gather_nd(resource: Array, indices: Array) -> Array:
    """GATHER_ND; `resource` is the variable's value."""
    return ops.gather_nd(resource, _indices(indices))


@lowers("ScatterNd")
def lower_scatter_nd(indices: Array, updates: Array, shape: Array) -> Array:
    """SCATTER_ND, whose indices and shape are i32."""
    places = indices if dtype(indices) is DType.i32 else ops.cast(indices, out_data_type=DType.i32)
    return ops.scatter_nd(places, updates, i32_operand(shape, "shape"))


@lowers("OneHot")
def lower_one_hot(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int = -1) -> Array:
    """ONE_HOT."""
    place = from_front(axis, rank(indices) + 1)
    return ops.one_hot(_indices(indices), i32_operand(depth, "depth"), on_value, off_value, axis=place)


@lowers("TopKV2")
def lower_top_k(x: Array, k: Array, *, sorted: bool = True, index_type: DType = DType.i32) -> Any:  # noqa: A002
    """TOPK_V2, which always sorts; its indices are i32."""
    values, places = ops.topk_v2(x, i32_operand(k, "k"))
    return values, places if index_type is DType.i32 else ops.cast(places, out_data_type=index_type)


@lowers("Where")
def lower_where(condition: Array) -> Array:
    """WHERE."""
    return ops.where(condition)


@lowers("Range")
def lower_range(start: Array, limit: Array, delta: Array) -> Array:
    """RANGE; a constant where all three operands are."""
    if all(is_constant(o) for o in (start, limit, delta)):
        # TensorFlow multiplies where TFLite's kernel sums up.
        count = range_length(start.item(), limit.item(), delta.item(), dtype(start))
        return start + np.arange(count).astype(start.dtype) * delta
    for operand, name in ((start, "start"), (limit, "limit"), (delta, "delta")):
        static(operand, name)
    return ops.range_(start, limit, delta)
