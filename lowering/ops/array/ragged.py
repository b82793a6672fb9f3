"""Ragged tensors: rows of different lengths, kept as their values and the places where rows begin.

TensorFlow works row by row. Here a matrix of positions, as wide as the longest row, is masked to each row's length.
TFLite has no ragged type; the functions here work on the tensors that make one up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, static
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, size_tensor
from jfuse.lowering.rules import lowers


@lowers("RaggedTensorToTensor")
def lower_ragged_tensor_to_tensor(
    shape: Array,
    values: Array,
    default_value: Array,
    *row_partition_tensors: Array,
    row_partition_types: Sequence[str],
    num_row_partition_tensors: int = 1,
) -> Array:
    """GATHER from the values and, behind them, one row that holds the default.

    shape: i[] of -1, or i[rank] with -1 where a size is that of the longest row; values: n[items, ...];
    row_partition_tensors: i[rows + 1] for ROW_SPLITS, i[items] for VALUE_ROWIDS, i[] for FIRST_DIM_SIZE.
    """
    sizes_ = _wanted(shape)
    levels = list(_all_splits(row_partition_tensors, row_partition_types))
    starts, ends = _first_rows(levels[0], sizes_[0] if sizes_ else -1)
    for i, splits in enumerate(levels):
        width = sizes_[i + 1] if sizes_ else -1
        columns = counted(width) if width >= 0 else ops.range_(np.int32(0), _longest(splits), np.int32(1))
        places, inside = _places(starts, ends, columns)
        below = levels[i + 1] if i + 1 < len(levels) else None
        items = _last_row(below) if below is not None else size_tensor(values.shape[0], [values])
        places = ops.select_v2(inside, places, items)  # the row behind all others, which is empty
        if below is not None:
            starts = ops.gather(below, places, axis=0)
            ends = ops.gather(below, ops.minimum(ops.add(places, np.int32(1)), items), axis=0)
    return ops.gather(_with_default(values, default_value), places, axis=0)


@lowers("RaggedGather")
def lower_ragged_gather(*operands: Array, PARAMS_RAGGED_RANK: int = 1, OUTPUT_RAGGED_RANK: int = 1) -> Any:
    """The chosen rows one after the other: their places by WHERE, their values by GATHER.

    operands: the row splits i[rows + 1] of each level, the values n[items, ...], the indices i[...].
    Returns the row splits of each level and the values.
    """
    *levels, values, indices = operands
    type_ = dtype(levels[0])
    outer = [_uniform_splits(indices, axis) for axis in range(1, rank(indices))]
    places = ops.reshape(as_i32(indices), np.array([-1], np.int32)) if rank(indices) != 1 else as_i32(indices)
    row_splits = []
    for splits in map(as_i32, levels):
        starts = ops.gather(splits, places, axis=0)
        ends = ops.gather(splits, ops.add(places, np.int32(1)), axis=0)
        row_splits.append(_splits_of_lengths(ops.sub(ends, starts)))
        matrix, inside = _places(starts, ends, ops.range_(np.int32(0), _longest(splits), np.int32(1)))
        places = _chosen(matrix, inside)
    cast = [s if dtype(s) is type_ else ops.cast(s, out_data_type=type_) for s in (*outer, *row_splits)]
    return (*cast, ops.gather(values, places, axis=0))


@lowers("RaggedRange")
def lower_ragged_range(starts: Array, limits: Array, deltas: Array, *, Tsplits: DType = DType.i64) -> Any:
    """A range for each row: the row splits and the numbers.

    starts, limits, deltas: n[rows] or n[] -> i[rows + 1], n[items]
    """
    ways = ops.sub(limits, starts)
    if dtype(starts).is_integer:
        up = ops.floor_div(ops.sub(ops.add(ways, deltas), ops.sign(deltas)), deltas)
    else:
        up = ops.ceil(ops.div(ways, deltas))
    counts = ops.maximum(as_i32(up), np.int32(0))
    if rank(counts) == 0:
        counts = ops.reshape(counts, np.ones(1, np.int32))
    longest = ops.maximum(ops.reduce_max(counts, np.array([0], np.int32)), np.int32(0))
    columns = ops.range_(np.int32(0), longest, np.int32(1))
    inside = ops.less(columns, ops.expand_dims(counts, np.int32(1)))
    steps = columns if dtype(starts) is DType.i32 else ops.cast(columns, out_data_type=dtype(starts))
    first, step = (ops.expand_dims(o, np.int32(1)) if rank(o) else o for o in (starts, deltas))
    numbers = ops.add(first, ops.mul(step, steps))
    if rank(numbers) == 1:
        numbers = ops.broadcast_to(numbers, ops.shape(inside))
    splits = _splits_of_lengths(counts)
    return (splits if Tsplits is DType.i32 else ops.cast(splits, out_data_type=Tsplits)), _chosen(numbers, inside)


def _wanted(shape: Array) -> tuple[int, ...]:
    """The sizes of the dense tensor, negative where rows decide; none where the source states none."""
    sizes = static(shape, "shape")
    return tuple(int(s) if is_known(s) else -1 for s in sizes) if isinstance(sizes, tuple) else ()


def _all_splits(tensors: Sequence[Array], types: Sequence[str]) -> Iterator[Array]:
    """Where the rows of each level begin, and the last one ends, as i32[rows + 1]."""
    rows: Array = np.int32(0)
    for tensor, kind in zip(map(as_i32, tensors), types, strict=True):
        if kind == "FIRST_DIM_SIZE":
            rows = tensor
            continue
        if kind == "VALUE_ROWIDS":
            ones = ops.fill(shape_tensor(tensor.shape, [tensor]), np.int32(1))
            yield _splits_of_lengths(ops.unsorted_segment_sum(ones, tensor, rows))
            rows = size_tensor(tensor.shape[0], [tensor])
        else:
            yield tensor
            rows = _element(tensor, -1)


def _first_rows(splits: Array, count: int) -> tuple[Array, Array]:
    """The begins and ends of all rows, or of `count` of them, with empty ones behind the last."""
    if count < 0:
        return _without(splits, last=True), _without(splits, last=False)
    end = _last_row(splits)
    rows = ops.minimum(np.arange(count, dtype=np.int32), end)
    return ops.gather(splits, rows, axis=0), ops.gather(splits, ops.minimum(ops.add(rows, np.int32(1)), end), axis=0)


def _last_row(splits: Array) -> Array:
    """The number of rows: the place behind the last one."""
    size = splits.shape[0]
    if is_known(size):
        return np.asarray(int(size) - 1, np.int32)
    return ops.sub(size_tensor(size, [splits]), np.int32(1))


def _longest(splits: Array) -> Array:
    """The length of the longest row, 0 where there is none.   i32[rows + 1] -> i32[]"""
    lengths = ops.sub(_without(splits, last=False), _without(splits, last=True))
    return ops.maximum(ops.reduce_max(lengths, np.array([0], np.int32)), np.int32(0))


def _places(starts: Array, ends: Array, columns: Array) -> tuple[Array, Array]:
    """The places from each start on, one for each column, and which of them lie before the end."""
    last = np.asarray(rank(starts), np.int32)
    places = ops.add(ops.expand_dims(starts, last), columns)
    return places, ops.less(places, ops.expand_dims(ends, last))


def _chosen(matrix: Array, inside: Array) -> Array:
    """The elements where `inside` is true, row by row."""
    return ops.gather_nd(matrix, as_i32(ops.where(inside)))


def _splits_of_lengths(lengths: Array) -> Array:
    """i32[rows] -> i32[rows + 1]"""
    return ops.pad(ops.cumsum(lengths, np.int32(0)), np.array([[1, 0]], np.int32))


def _uniform_splits(indices: Array, axis: int) -> Array:
    """The row splits of a dense axis: all rows have its size.   -> i32[rows + 1]"""
    size = size_tensor(indices.shape[axis], [indices])
    rows = size_tensor(np.prod(indices.shape[:axis], dtype=object), [indices])
    return ops.mul(ops.range_(np.int32(0), ops.add(rows, np.int32(1)), np.int32(1)), size)


def _element(x: Array, place: int) -> Array:
    begin = np.array([place], np.int32)
    return ops.strided_slice(x, begin, begin + 1, np.ones(1, np.int32), end_mask=int(place == -1), shrink_axis_mask=1)


def _without(splits: Array, *, last: bool) -> Array:
    """A vector without its last or its first element."""
    begin, end = np.array([0 if last else 1], np.int32), np.array([-1 if last else 0], np.int32)
    return ops.strided_slice(splits, begin, end, np.ones(1, np.int32), end_mask=int(not last))


def _with_default(values: Array, default: Array) -> Array:
    """The values, and one row of the default behind them.   n[items, ...] -> n[items + 1, ...]"""
    if is_constant(default) and rank(default) == 0:
        return ops.padv2(values, np.array([[0, 1], *[[0, 0]] * (rank(values) - 1)], np.int32), default)
    row = ops.broadcast_to(default, shape_tensor((1, *values.shape[1:]), [values]))
    return ops.concatenation(values, row, axis=0)
