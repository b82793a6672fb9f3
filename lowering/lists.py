"""TensorLists as dense tensors [n, *element]: reading is GATHER, writing DYNAMIC_UPDATE_SLICE, stacking nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.errors import LowerError
from jfuse.ir.dims import same
from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.query import is_constant, rank, type_of
from jfuse.lowering.rules import lowers


@lowers("TensorListFromTensor")
def list_from_tensor(tensor: Array, element_shape: Array) -> Array:
    """The list of the rows of a tensor is that tensor."""
    return tensor


@lowers("TensorListStack")
def list_stack(handle: Array, element_shape: Array, *, num_elements: int = -1) -> Array:
    """The rows stacked are the tensor that stands for the list."""
    return handle


@lowers("TensorListGetItem")
def list_get_item(handle: Array, index: Array, element_shape: Array) -> Array:
    """Row `index`; as in TensorFlow, an index out of range is an error at run time."""
    return ops.gather(handle, index, axis=0)


@lowers("TensorListSetItem")
def list_set_item(handle: Array, index: Array, item: Array, *, resize_if_index_out_of_bounds: bool = False) -> Array:
    """The list with row `index` replaced."""
    if resize_if_index_out_of_bounds:
        raise LowerError(
            "a TensorArray that grows has no TFLite spelling", remedy="give it its size, without dynamic_size=True"
        )
    row = ops.expand_dims(item, 0)
    if is_constant(index) and same(type_of(handle).shape[0], 1):
        return row
    start = [ops.reshape(index, (1,)), np.zeros(rank(item), np.int32)] if rank(item) else [ops.reshape(index, (1,))]
    begin: Any = ops.concatenation(*start, axis=0) if len(start) > 1 else start[0]
    return ops.dynamic_update_slice(handle, row, begin)


@lowers("TensorListLength")
def list_length(handle: Array) -> Array:
    """The number of rows."""
    return ops.gather(ops.shape(handle), np.int32(0), axis=0)
