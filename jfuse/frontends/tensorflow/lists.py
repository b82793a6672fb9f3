"""TensorLists before anything is written into them: their length and dtype are known, their elements perhaps not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.frontends.tensorflow.graph import PendingList, Walker, handles
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.types import TensorType
from jfuse.kernels.core.op import static_value
from jfuse.tf_nodes.attributes import decode_dtype


@handles("TensorListReserve")
def _reserve(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    size = static_value(operands[1])
    if size is None:
        raise LowerError("a TensorList has a length that is computed at run time")
    return (_pending(size, node, operands[0]),)


@handles("EmptyTensorList")
def _empty(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    return (_pending(0, node, operands[0]),)


@handles("TensorListLength")
def _length(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    (elements,) = operands
    if isinstance(elements, PendingList) and is_known(elements.length):
        return (np.asarray(int(elements.length), np.int32),)
    return walker.lower(node, operands)


@handles("TensorListResize")
def _resize(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    elements, size = operands
    if isinstance(elements, PendingList) and static_value(size) is not None:
        return (replace(elements, length=static_value(size)),)
    return walker.lower(node, operands)


def _pending(length: Dim, node: Any, element_shape: Any) -> PendingList:
    """A list before anything is written, with the type of its elements where their shape is stated."""
    dtype, shape = decode_dtype(node.attr["element_dtype"].type), static_value(element_shape)
    stated = isinstance(shape, tuple) and all(is_known(d) and d >= 0 for d in shape)
    return PendingList(length, dtype, TensorType(shape, dtype) if stated else None)
