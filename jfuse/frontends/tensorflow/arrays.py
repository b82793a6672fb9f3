"""TensorArrays of TensorFlow 1: the handle has the array's static properties, the flow its rows as one tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.frontends.tensorflow.graph import PendingList, Walker, handles
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Var
from jfuse.ir.trace import producer
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rule_tools.shape_tensors import size_of
from jfuse.tf_nodes.attributes import decode_dtype, decode_shape


@dataclass(frozen=True, eq=False)
class TensorArray:
    """The handle of an array: its length, and whether it may grow beyond it."""

    length: Dim
    grows: bool


@handles("TensorArrayV3")
def _create(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    (size,) = operands
    length = static_value(size)
    if length is None:
        raise LowerError("a TensorArray has a length that is computed at run time")
    dtype, shape = decode_dtype(node.attr["dtype"].type), decode_shape(node.attr["element_shape"].shape)
    is_static = shape is not None and None not in shape
    rows = PendingList(length, dtype, TensorType(tuple(shape), dtype) if is_static and shape is not None else None)
    return TensorArray(length, node.attr["dynamic_size"].b), rows


@handles("TensorArrayWriteV3")
def _write(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    array, index, item, rows = operands
    if _array(array).grows:
        raise LowerError(
            "a TensorArray that grows has no TFLite spelling", remedy="give it its size, without dynamic_size=True"
        )
    if isinstance(rows, PendingList):
        rows.element = rows.element or type_of(item)
    return (walker.rules["TensorListSetItem"](_rows(rows), index, item),)


@handles("TensorArrayReadV3")
def _read(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    _, index, rows = operands
    return (ops.gather(_rows(rows), index, axis=0),)


@handles("TensorArrayScatterV3")
def _scatter(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    array, indices, values, _ = operands
    length = type_of(values).shape[0] if _array(array).grows else _array(array).length
    if not _is_every_index(indices, length):
        raise LowerError("rows are scattered into a TensorArray out of order", remedy="write it with unstack(…)")
    return (values,)


@handles("TensorArrayGatherV3")
def _gather(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    _, indices, rows = operands
    rows = _rows(rows)
    return (rows if _is_every_index(indices, type_of(rows).shape[0]) else ops.gather(rows, indices, axis=0),)


@handles("TensorArraySizeV3")
def _size(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    array, rows = operands
    return (np.asarray(array.length, np.int32) if is_known(array.length) else size_of(_rows(rows), 0),)


@handles("TensorArrayCloseV3")
def _close(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    return ()


def _array(value: Any) -> TensorArray:
    if not isinstance(value, TensorArray):
        raise LowerError("a TensorArray is chosen at run time, or comes from outside of the model")
    return value


def _rows(rows: Any) -> Any:
    """The tensor of all rows: zeros where none is written yet."""
    if not isinstance(rows, PendingList):
        return rows
    if rows.element is None:
        raise LowerError(
            "a TensorArray is read before its element shape is known", remedy="give the TensorArray an element_shape"
        )
    return rows.zeros()


def _is_every_index(indices: Any, length: Dim) -> bool:
    """Whether indices are 0, 1, 2, … up to a length."""
    if isinstance(indices, Var) and indices.value is None:
        maker = producer(indices)
        if maker is None or not maker.op.counts or same(type_of(indices).shape[0], length) is not True:
            return False
        start, _, step = (None if a is None else static_value(a) for a in maker.inputs)
        return bool(start == 0 and step == 1)
    constant = indices.value if isinstance(indices, Var) else indices
    value = np.asarray(constant)
    return bool(same(len(value), length) is True and all(v == i for i, v in enumerate(value)))
