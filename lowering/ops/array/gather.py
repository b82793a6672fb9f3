"""Picking elements: gather, embedding tables, one-hot, where."""

from __future__ import annotations

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import from_front
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import below_size, sizes_operand
from jfuse.lowering.rule_tools.query import axes_of, dtype, rank
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


@lowers("OneHot")
def lower_one_hot(indices: Array, depth: Array, on_value: Array, off_value: Array, *, axis: int = -1) -> Array:
    """ONE_HOT. Indices of 64 bits are limited to those from -1 to depth, which are none of the places."""
    place, size = from_front(axis, rank(indices) + 1), sizes_operand(depth)
    return ops.one_hot(below_size(indices, size), size, on_value, off_value, axis=place)


@lowers("Where")
def lower_where(condition: Array) -> Array:
    """WHERE; of doubles, which its kernel lacks, where they are cast to true."""
    return ops.where(ops.cast(condition, out_data_type=DType.bool) if dtype(condition) is DType.f64 else condition)
