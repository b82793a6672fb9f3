"""Writing into tensors by index: scatters, updates of slices, tensors from sparse form, stitched rows.

Of several values for one place the last one counts, as in TensorFlow's CPU kernels; SCATTER_ND would add them up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, product, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import from_front
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.math.reduce import highest, lowest
from jfuse.lowering.ops.array.slicing import (
    SliceMasks,
    SliceRange,
    bounds,
    first_place,
    lower_strided_slice,
    ranges_of,
    vector_of,
)
from jfuse.lowering.rule_tools.operands import as_i32, below_size, sizes_operand
from jfuse.lowering.rule_tools.query import axes_of, dtype, rank, scalar, static
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import LowerRule, lowers


@lowers("ScatterNd")
def lower_scatter_nd(indices: Array, updates: Array, shape: Array) -> Array:
    """SCATTER_ND, whose indices and shape are i32."""
    return ops.scatter_nd(as_i32(indices), updates, sizes_operand(shape))


@lowers("TensorScatterUpdate")
def lower_tensor_scatter_update(tensor: Array, indices: Array, updates: Array) -> Array:
    """GATHER from the rows of the tensor and the updates together; DYNAMIC_UPDATE_SLICE of a single update."""
    depth = indices.shape[-1]
    if same(product(indices.shape[:-1]), 1):
        window = (1,) * depth + tuple(tensor.shape[depth:])
        return _written(tensor, shaped(updates, window, tensor), as_i32(indices))
    rows, places = _rows(tensor, depth), _places(indices, tensor)
    size, count = rows.shape[0], places.shape[0]
    news = shaped(updates, (count, *rows.shape[1:]), tensor)
    ordinals = ops.add(counted(count, places), size_tensor(size, [tensor]))
    latest = ops.unsorted_segment_max(ordinals, places, size_tensor(size, [tensor]))
    source = ops.maximum(latest, counted(size, tensor))
    merged = ops.gather(ops.concatenation(rows, news, axis=0), source, axis=0)
    return shaped(merged, tensor.shape, tensor)


def _written(tensor: Array, window: Array, start: Array) -> Array:
    """`tensor` with the window at `start`, the first of its coordinates."""
    missing = rank(tensor) - start.shape[-1] if rank(start) else rank(tensor)
    start = shaped(start, (rank(tensor) - missing,))
    if missing:
        start = ops.concatenation(start, np.zeros(missing, np.int32), axis=0)
    return ops.dynamic_update_slice(tensor, window, start)


def _rows(tensor: Array, depth: int) -> Array:
    """The tensor with its first `depth` dimensions merged into one."""
    return shaped(tensor, (product(tensor.shape[:depth]), *tensor.shape[depth:]), tensor)


def _places(indices: Array, tensor: Array) -> Array:
    """The indices as numbers of rows of the tensor with its first dimensions merged.

    indices: i[..., depth] -> i32[n]
    """
    depth = indices.shape[-1]
    places = as_i32(indices)
    if depth != 1:
        steps = [product(tensor.shape[i + 1 : depth]) for i in range(depth)]
        places = ops.sum_(ops.mul(places, shape_tensor(steps, [tensor])), np.array([-1], np.int32))
    return shaped(places, (product(indices.shape[:-1]),), indices)


def accumulates(name: str, op: TflOp) -> LowerRule:
    """The rule for a scatter that adds to (or subtracts from) what is there."""

    def lower(tensor: Array, indices: Array, updates: Array) -> Array:
        return op(tensor, ops.scatter_nd(as_i32(indices), updates, shape_tensor(tensor.shape, [tensor])))

    lower.__doc__ = f"{op.builtin} of the tensor and SCATTER_ND."
    return lowers(name)(lower)


_TENSOR_ADD = accumulates("TensorScatterAdd", ops.add)
accumulates("ScatterNdNonAliasingAdd", ops.add)
_TENSOR_SUB = accumulates("TensorScatterSub", ops.sub)


def in_place(name: str, scatter: LowerRule) -> LowerRule:
    """The rule for an op that writes rows into its operand, and gives it.   number[n, ...], i32[k], number[k, ...]"""

    def lower(x: Array, i: Array, v: Array) -> Array:
        rows = ops.floor_mod(as_i32(i), size_tensor(x.shape[0], [x]))
        return scatter(x, ops.expand_dims(rows, np.int32(1)), v)

    return lowers(name)(lower)


in_place("InplaceUpdate", lower_tensor_scatter_update)
in_place("InplaceAdd", _TENSOR_ADD)
in_place("InplaceSub", _TENSOR_SUB)


def keeps_extremes(name: str, extreme: TflOp, of_segments: TflOp, empty: Callable[[Any], Any]) -> LowerRule:
    """The rule for a scatter that keeps the greater (or smaller) of the updates and what is there.

    empty: what `of_segments` leaves where there is no update, of a dtype. Infinities lie beyond that.
    """

    def lower(tensor: Array, indices: Array, updates: Array) -> Array:
        rows, places = _rows(tensor, indices.shape[-1]), _places(indices, tensor)
        news = shaped(updates, (places.shape[0], *rows.shape[1:]), tensor)
        extremes = of_segments(news, places, size_tensor(rows.shape[0], [tensor]))
        result = extreme(rows, extremes)
        if dtype(tensor).is_float:
            result = ops.select_v2(ops.equal(extremes, scalar(empty(dtype(tensor).numpy), tensor)), rows, result)
        return shaped(result, tensor.shape, tensor)

    lower.__doc__ = f"{extreme.builtin} of the tensor and {of_segments.builtin}."
    return lowers(name)(lower)


keeps_extremes("TensorScatterMax", ops.maximum, ops.unsorted_segment_max, lowest)
keeps_extremes("TensorScatterMin", ops.minimum, ops.unsorted_segment_min, highest)


@lowers("XlaDynamicUpdateSlice")
def lower_xla_dynamic_update_slice(x: Array, update: Array, indices: Array) -> Array:
    """DYNAMIC_UPDATE_SLICE, which moves the place as XLA does, as far as `update` needs to fit in."""
    return ops.dynamic_update_slice(x, update, as_i32(indices))


@lowers("TensorStridedSliceUpdate")
def lower_tensor_strided_slice_update(
    x: Array, begin: Array, end: Array, strides: Array, value: Array, *, masks: SliceMasks
) -> Array:
    """DYNAMIC_UPDATE_SLICE, or where the strides are not 1 GATHER from the elements of x and the value together."""
    if not all(is_known(d) for d in x.shape):
        raise LowerError("an update of a slice of a tensor with open dimensions", found=str(x.shape))
    if any(b.is_computed for b in (*bounds(begin), *bounds(end))):
        return _at_computed_place(x, value, *ranges_of(x, begin, end, strides, masks))
    elements = np.arange(product(x.shape), dtype=np.int32).reshape(x.shape)
    constants = (np.asarray(static(v, "a bound"), np.int32) for v in (begin, end, strides))
    taken = lower_strided_slice.function(elements, *constants, masks=masks)
    if taken.size == 0:
        return x
    value = value if value.shape == taken.shape else ops.broadcast_to(value, np.asarray(taken.shape, np.int32))
    places = np.unravel_index(taken.ravel(), x.shape)
    start, window = [int(p[0]) for p in places], [int(p[-1] - p[0]) + 1 for p in places]
    block = elements[tuple(slice(s, s + n) for s, n in zip(start, window, strict=True))]
    if np.array_equal(block.ravel(), taken.ravel()):
        return ops.dynamic_update_slice(x, shaped(value, tuple(window)), np.asarray(start, np.int32))
    source = elements.ravel()
    source[taken.ravel()] = elements.size + np.arange(taken.size)
    both = ops.concatenation(shaped(x, (elements.size,)), shaped(value, (taken.size,)), axis=0)
    return ops.gather(both, source.reshape(x.shape), axis=0)


def _at_computed_place(x: Array, value: Array, ranges: Sequence[SliceRange], new_axes: Sequence[int]) -> Array:
    """DYNAMIC_UPDATE_SLICE by the value, which is as large as the slice: TensorFlow repeats nothing here."""
    if new_axes or any(r.is_stepped for r in ranges):
        raise LowerError(
            "an update of a slice at a place that is computed, with steps or new axes",
            remedy="consecutive elements, or tf.tensor_scatter_nd_update",
        )
    all_ranges = [*ranges, *[SliceRange()] * (rank(x) - len(ranges))]
    sizes = iter(value.shape)
    window = tuple(1 if r.shrink else next(sizes) for r in all_ranges)
    start = vector_of([first_place(r, x, axis) for axis, r in enumerate(all_ranges)])
    return ops.dynamic_update_slice(x, shaped(value, window, value), start)


@lowers("SparseToDense")
def lower_sparse_to_dense(
    sparse_indices: Array,
    output_shape: Array,
    sparse_values: Array,
    default_value: Array,
    *,
    validate_indices: bool = True,
) -> Array:
    """SPARSE_TO_DENSE; of more than 4 dimensions by way of a vector."""
    shape = sizes_operand(output_shape)
    indices = sparse_indices if rank(sparse_indices) else ops.reshape(sparse_indices, np.array([1], np.int32))
    if shape.shape[0] <= _SPARSE_DIMENSIONS:
        return ops.sparse_to_dense(indices, shape, sparse_values, default_value)
    sizes = static(shape, "output_shape")
    steps = [product(sizes[i + 1 :]) for i in range(len(sizes))]
    places = ops.sum_(ops.mul(as_i32(indices), np.asarray(steps, np.int32)), np.array([-1], np.int32))
    vector = ops.sparse_to_dense(places, np.array([product(sizes)], np.int32), sparse_values, default_value)
    return ops.reshape(vector, shape)


_SPARSE_DIMENSIONS = 4  # at most, of the kernel


@lowers("DynamicStitch", "ParallelDynamicStitch")
def lower_dynamic_stitch(*operands: Array) -> Array:
    """GATHER of all rows by the last place that names each; as many as the greatest index says.

    operands: the indices i32[...], then as many tensors of rows n[..., *rest].
    """
    indices, tensors = operands[: len(operands) // 2], operands[len(operands) // 2 :]
    places = _joined([shaped(i, (product(i.shape),)) for i in indices])
    rows = _joined([shaped(t, (product(i.shape), *t.shape[rank(i) :])) for i, t in zip(indices, tensors, strict=True)])
    count = ops.add(ops.reduce_max(places, np.array([0], np.int32)), np.int32(1))
    latest = ops.unsorted_segment_max(counted(places.shape[0], places), places, count)
    return ops.gather(rows, ops.maximum(latest, np.int32(0)), axis=0)


def _joined(parts: Sequence[Array]) -> Array:
    return parts[0] if len(parts) == 1 else ops.concatenation(*parts, axis=0)


@lowers("DynamicPartition")
def lower_dynamic_partition(data: Array, partitions: Array, *, num_partitions: int) -> tuple[Array, ...]:
    """For each partition WHERE tells its places, and GATHER_ND takes what is there."""
    places = (ops.where(ops.equal(partitions, np.int32(i))) for i in range(num_partitions))
    return tuple(ops.gather_nd(data, indices) for indices in places)


# Picking elements: gather, embedding tables, one-hot, where.

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
