"""TensorLists as dense tensors [n, *element]: reading is GATHER, writing DYNAMIC_UPDATE_SLICE, stacking nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import is_constant, rank, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, size_of
from jfuse.lowering.rules import lowers


@lowers("TensorListFromTensor")
def list_from_tensor(tensor: Array, element_shape: Array) -> Array:
    """The list of the rows of a tensor is that tensor."""
    return tensor


@lowers("TensorListStack")
def list_stack(handle: Array, element_shape: Array, *, num_elements: int = -1) -> Array:
    """The stacked rows are the list's own tensor."""
    return handle


@lowers("TensorListGetItem")
def list_get_item(handle: Array, index: Array, element_shape: Array) -> Array:
    """Row `index`; as in TensorFlow, an index out of range is an error at run time."""
    return ops.gather(handle, index, axis=0)


@lowers("TensorListSetItem")
def list_set_item(handle: Array, index: Array, item: Array, *, resize_if_index_out_of_bounds: bool = False) -> Array:
    """The list with row `index` replaced; one that may grow gets zeros up to that row first."""
    row = ops.expand_dims(item, 0)
    if resize_if_index_out_of_bounds:
        handle = _grown(handle, index, item)
    if is_constant(index) and same(type_of(handle).shape[0], 1):
        return row
    start = [ops.reshape(index, (1,)), np.zeros(rank(item), np.int32)] if rank(item) else [ops.reshape(index, (1,))]
    begin: Any = ops.concatenation(*start, axis=0) if len(start) > 1 else start[0]
    return ops.dynamic_update_slice(handle, row, begin)


def _grown(handle: Array, index: Array, item: Array) -> Array:
    """The list with zeros behind it where row `index` is beyond its end; `item` is of the shape of a row."""
    length, *element = type_of(handle).shape
    if is_constant(index) and is_known(length):
        return _resized(handle, max(int(length), int(index) + 1))
    missing = ops.maximum(ops.sub(ops.add(as_i32(index), np.int32(1)), size_of(handle, 0)), np.int32(0))
    paddings = ops.pad(ops.reshape(missing, (1, 1)), np.array([[0, len(element)], [1, 0]], np.int32))
    return ops.reshape(ops.pad(handle, paddings), shape_tensor([-1, *type_of(item).shape], [item]))


def _resized(handle: Array, size: int) -> Array:
    """The first rows, or all and zeros behind them."""
    length, *element = type_of(handle).shape
    if size <= int(length):
        ends = [size, *(0 for _ in element)]
        mask = (1 << len(ends)) - 1
        start, step = np.zeros(len(ends), np.int32), np.ones(len(ends), np.int32)
        return ops.strided_slice(handle, start, np.array(ends, np.int32), step, begin_mask=mask, end_mask=mask - 1)
    paddings = np.zeros((len(element) + 1, 2), np.int32)
    paddings[0, 1] = size - int(length)
    return ops.pad(handle, paddings)


@lowers("TensorListResize")
def list_resize(handle: Array, size: Array) -> Array:
    """The first rows, or all and zeros behind them; for a size that is known."""
    length = type_of(handle).shape[0]
    new_length = static(size, "size")
    if same(new_length, length):
        return handle
    if not is_known(new_length) or not is_known(length):
        raise LowerError("a TensorList is given a size that is known at run time only", found=str(type_of(handle)))
    return _resized(handle, int(new_length))


@lowers("TensorListPushBack")
def list_push_back(handle: Array, item: Array) -> Array:
    """The list with one more row."""
    row = ops.expand_dims(item, 0)
    return row if same(type_of(handle).shape[0], 0) else ops.concatenation(handle, row, axis=0)


@lowers("TensorListPopBack")
def list_pop_back(handle: Array, element_shape: Array) -> tuple[Array, Array]:
    """The list without its last row, and that row."""
    count = rank(handle)
    starts, ends, ones = np.zeros(count, np.int32), np.zeros(count, np.int32), np.ones(count, np.int32)
    mask = (1 << count) - 1
    ends[0] = starts[0] = -1
    rest = ops.strided_slice(handle, np.zeros(count, np.int32), ends, ones, begin_mask=mask, end_mask=mask - 1)
    last = ops.strided_slice(
        handle, starts, np.zeros(count, np.int32), ones, begin_mask=mask - 1, end_mask=mask - 1, shrink_axis_mask=1
    )
    return rest, last


@lowers("TensorListLength")
def list_length(handle: Array) -> Array:
    """The number of rows."""
    return ops.gather(ops.shape(handle), np.int32(0), axis=0)


@lowers("TensorListElementShape")
def list_element_shape(handle: Array, *, shape_type: DType = DType.i32) -> Array:
    """The sizes of one row."""
    sizes = ops.shape(handle, out_type=shape_type)
    return ops.strided_slice(sizes, [1], [0], [1], end_mask=1)


@lowers("TensorListConcat")
def list_concat(handle: Array, *, element_shape: object = None) -> tuple[Array, Array]:
    """All rows one behind the other, and how long each is: all are of one length, as they stand in one tensor."""
    length, *rest = type_of(handle).shape[1:]
    if not all(map(is_known, (length, *rest))):
        raise LowerError("a TensorList of elements of open size is concatenated", found=str(type_of(handle)))
    flat = ops.reshape(handle, np.array([-1, *map(int, rest)] if 0 not in rest else [0, *rest], np.int32))
    lengths = ops.fill(ops.reshape(list_length(handle), (1,)), np.asarray(int(length), np.int64))
    return flat, lengths


@lowers("TensorListConcatV2")
def list_concat_v2(handle: Array, element_shape: Array, leading_dims: Array) -> tuple[Array, Array]:
    """As TensorListConcat."""
    flat, lengths = list_concat(handle)
    return flat, lengths


@lowers("TensorListSplit")
def list_split(tensor: Array, element_shape: Array, lengths: Array) -> Array:
    """The list of pieces of a tensor, which must all be of one length."""
    pieces = static(lengths, "lengths")
    if len(set(pieces)) > 1 or not all(map(is_known, pieces)) or not pieces:
        raise LowerError("a TensorList of elements of several lengths has no TFLite spelling", found=pieces)
    _, *rest = type_of(tensor).shape
    if sum(not is_known(d) for d in rest) > 0:
        raise LowerError("a tensor of open size is split into a TensorList", found=str(type_of(tensor)))
    return ops.reshape(tensor, np.array([len(pieces), pieces[0], *map(int, rest)], np.int32))


@lowers("TensorListGather")
def list_gather(handle: Array, indices: Array, element_shape: Array) -> Array:
    """The rows that indices name."""
    return ops.gather(handle, indices, axis=0)


@lowers("TensorListScatterV2")
def list_scatter_v2(tensor: Array, indices: Array, element_shape: Array, num_elements: Array) -> Array:
    """The list of so many rows (-1: as many as needed) with those of a tensor at known places, zeros elsewhere."""
    row_count = static(num_elements, "num_elements")
    return _scattered(tensor, indices, int(row_count) if is_known(row_count) and row_count >= 0 else None)


@lowers("TensorListScatter")
def list_scatter(tensor: Array, indices: Array, element_shape: Array) -> Array:
    """The list with the rows of a tensor at known places, zeros elsewhere."""
    return _scattered(tensor, indices, None)


@lowers("TensorListScatterIntoExistingList")
def list_scatter_into(handle: Array, tensor: Array, indices: Array) -> Array:
    """The list with some rows replaced, at known places."""
    length = type_of(handle).shape[0]
    if not is_known(length):
        raise LowerError("rows are scattered into a TensorList of open length", found=str(type_of(handle)))
    rows = np.arange(int(length))
    for number, place in enumerate(_places(indices)):
        rows[place] = int(length) + number
    return ops.gather(ops.concatenation(handle, tensor, axis=0), rows.astype(np.int32), axis=0)


def _scattered(tensor: Array, indices: Array, length: int | None) -> Array:
    places = _places(indices)
    count = length or max(places, default=-1) + 1
    if places == list(range(count)):
        return tensor
    rows = np.full(count, len(places), np.int32)  # the row of zeros behind the tensor
    for number, place in enumerate(places):
        rows[place] = number
    if (rows == len(places)).any():
        tensor = _resized(tensor, len(places) + 1)
    return ops.gather(tensor, rows, axis=0)


def _places(indices: Array) -> list[int]:
    places = list(static(indices, "indices"))
    if not all(map(is_known, places)):
        raise LowerError("rows are scattered into a TensorList at places of open number", found=places)
    return [int(p) for p in places]
