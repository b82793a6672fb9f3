"""Nodes that a graph begins with: constants, placeholders, variables that are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import ImportFailed, LowerError
from jfuse.frontends.tensorflow.graph import Walker, handles
from jfuse.frontends.tensorflow.variables import Resource
from jfuse.tf_nodes.attributes import decode_attr


@handles("Const")
def _const(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    array = decode_attr(node.attr["value"])
    walker.nans.look_at_constant(f"the constant {node.name!r}", array)
    return (array,)


@handles("Placeholder")
def _placeholder(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    raise ImportFailed(f"the input {node.name!r} of the graph has no value")


@handles("PlaceholderWithDefault")
def _placeholder_with_default(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    return operands[:1]


@handles("Variable", "VariableV2")
def _reference_variable(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    raise LowerError(
        "a reference variable of TensorFlow 1 cannot be read",
        remedy="build and save the model again after tf.compat.v1.enable_resource_variables()",
    )


@handles("ReadVariableOp")
def _read_variable(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    (resource,) = operands
    if not isinstance(resource, Resource):
        raise ImportFailed("a variable is read that has no value")
    return (walker.variables.value(resource),)


@handles("VarIsInitializedOp")
def _is_initialized(walker: Walker, node: Any, operands: list[Any]) -> Sequence[Any]:
    return (np.asarray(True),)
