"""Writes of parts of a variable: the same change of its value, assigned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.frontends.tensorflow.graph import Walker, handles
from jfuse.ir.dims import is_known
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.query import rank, type_of
from jfuse.tf_nodes.attributes import decode_attr

_OF_TENSORS = {
    "Update": "TensorScatterUpdate",
    "Add": "TensorScatterAdd",
    "Sub": "TensorScatterSub",
    "Max": "TensorScatterMax",
    "Min": "TensorScatterMin",
}
_MASKS = ("begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask")


@handles(*(f"ResourceScatterNd{how}" for how in _OF_TENSORS))
def _scatter_nd(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    resource, indices, updates = operands
    rule = walker.rules[_OF_TENSORS[node.op.removeprefix("ResourceScatterNd")]]
    walker.variables.assign(resource, rule(walker.variables.value(resource), indices, updates))
    return ()


@handles(*(f"ResourceScatter{how}" for how in _OF_TENSORS))
def _scatter(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    resource, indices, updates = operands
    rule = walker.rules[_OF_TENSORS[node.op.removeprefix("ResourceScatter")]]
    value = walker.variables.value(resource)
    if not rank(updates):  # one number for all elements
        updates = _repeated(updates, (*type_of(indices).shape, *type_of(value).shape[1:]))
    positions = ops.expand_dims(indices, rank(indices))
    walker.variables.assign(resource, rule(value, positions, updates))
    return ()


@handles("ResourceStridedSliceAssign")
def _assign_slice(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    resource, begin, end, strides, value = operands
    masks = {name: decode_attr(node.attr[name]) for name in _MASKS if name in node.attr}
    rule = walker.rules["TensorStridedSliceUpdate"]
    walker.variables.assign(resource, rule(walker.variables.value(resource), begin, end, strides, value, **masks))
    return ()


def _repeated(value: Any, shape: tuple[Any, ...]) -> Any:
    if not all(map(is_known, shape)):
        raise LowerError("one number is written to an open number of places of a variable")
    return ops.broadcast_to(value, np.array(shape, np.int32))


@handles("AssignVariableOp")
def _assign(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    walker.variables.assign(*operands)
    return ()


@handles("AssignAddVariableOp", "AssignSubVariableOp")
def _assign_changed(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    resource, change = operands
    rule = walker.rules["AddV2" if node.op == "AssignAddVariableOp" else "Sub"]
    walker.variables.assign(resource, rule(walker.variables.value(resource), change))
    return ()
