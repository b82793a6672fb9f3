"""The ranks that an input of unknown rank may have: those with which TensorFlow's own inference of shapes agrees."""

from __future__ import annotations

from typing import Any

_MOST = 6  # of LiteRT's kernels few take more dimensions
_SCALARS = {"OneHot": 1, "TopKV2": 1}  # operands whose shape TensorFlow's inference does not look at, by their place
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")


def possible_ranks(function: Any, tensor: Any) -> tuple[int, ...]:
    """The ranks with which no op of a concrete function refuses one of its inputs, up to 6.

    Ops in the functions that it calls have their say, those in branches and loops do not.
    """
    graph_def = function.graph.as_graph_def()
    (node,) = (n for n in graph_def.node if n.name == tensor.op.name)
    found = []
    for rank in range(_MOST + 1):
        node.attr["shape"].shape.CopyFrom(_open_shape(rank))
        if _is_consistent(graph_def):
            found.append(rank)
    return tuple(found)


def _open_shape(rank: int) -> Any:
    import tensorflow as tf

    return tf.TensorShape([None] * rank).as_proto()


def _is_consistent(graph_def: Any) -> bool:
    """Whether TensorFlow infers shapes of all nodes without a contradiction."""
    import tensorflow as tf
    from tensorflow.python.framework.function_def_to_graph import function_def_to_graph_def

    functions = {f.signature.name: f for f in graph_def.library.function}
    with tf.Graph().as_default() as graph:
        try:
            tf.graph_util.import_graph_def(graph_def, name="")
        except ValueError:
            return False
    for op in graph.get_operations():
        if op.type in _SCALARS and op.inputs[_SCALARS[op.type]].shape.rank not in (None, 0):
            return False
    for node in graph_def.node:
        if node.op not in _CALLS or node.attr["f"].func.name not in functions:
            continue
        called, _ = function_def_to_graph_def(functions[node.attr["f"].func.name])
        operands = graph.get_operation_by_name(node.name).inputs
        for argument, operand in zip(called.node, operands, strict=False):  # the arguments are the first nodes
            argument.attr["shape"].shape.CopyFrom(operand.shape.as_proto())
        called.library.CopyFrom(graph_def.library)
        if not _is_consistent(called):
            return False
    return True
