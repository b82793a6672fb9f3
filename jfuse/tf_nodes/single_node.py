"""One TensorFlow node alone: its bytes for a file, its results in TensorFlow, and its inferred shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, substitute_dim, symbols_of
from jfuse.ir.types import DType, TensorType
from jfuse.tf_nodes.attributes import PartialShape, decode_attr, decode_shape
from jfuse.tf_nodes.messages import message_class
from jfuse.tf_nodes.presence import need_tensorflow

Known = np.ndarray | TensorType
"""An operand: its value, or its type."""

# Two sizes for each open dimension: a size of the result that is a dimension's in both is that dimension.
_PROBES = ((1009, 2), (2003, 4))  # the first dimension's, and what each further one has more


def single_node(node: Any, operands: int) -> bytes:
    """A NodeDef as Flex operators carry it: no name, nameless operands, the attributes, and the node that it was."""
    plain = type(node)(op=node.op, input=[""] * operands)
    for name, value in node.attr.items():
        if not name.startswith("_"):  # notes of TensorFlow's own, such as output shapes
            plain.attr[name].CopyFrom(value)
    plain.experimental_debug_info.original_node_names.append(node.name)
    return bytes(plain.SerializeToString(deterministic=True))


def in_f64(node: bytes) -> bytes:
    """The same node with f64 for every f32 that its attributes name."""
    parsed = _parsed(node)
    for attr in parsed.attr.values():
        if attr.WhichOneof("value") == "type" and attr.type == _FLOAT:
            attr.type = _DOUBLE
        attr_types = [_DOUBLE if t == _FLOAT else t for t in attr.list.type]
        if attr_types:
            attr.list.type[:] = attr_types
    return bytes(parsed.SerializeToString(deterministic=True))


def attributes_of(node: bytes) -> dict[str, Any]:
    """The attributes of a serialized NodeDef as Python values, by name."""
    parsed = _parsed(node)
    return {name: decode_attr(parsed.attr[name]) for name in sorted(parsed.attr)}


def written_attributes(node: bytes) -> dict[str, Any]:
    """Those that TensorFlow's converter writes for custom operators: no shapes, tensors, functions, lists of types."""
    attrs, values = _parsed(node).attr, attributes_of(node)
    return {n: v for n, v in values.items() if _WRITTEN & {attrs[n].WhichOneof("value"), *_filled_lists(attrs[n])}}


_WRITTEN = frozenset({"s", "i", "f", "b", "type", "list(s)", "list(i)", "list(f)"})


def _filled_lists(attr: Any) -> list[str]:
    return [f"list({field.name})" for field, _ in attr.list.ListFields()] if attr.HasField("list") else []


def why_not_single(node: Any, op_def: Any) -> str:
    """Why a node cannot be taken out of its graph; "" where it can."""
    if any(attr.WhichOneof("value") == "func" or attr.list.func for attr in node.attr.values()):
        return "it calls functions of the graph"
    types = [arg.type for arg in (*op_def.input_arg, *op_def.output_arg)]
    types += [attr.type for attr in node.attr.values()]
    types += [t for attr in node.attr.values() for t in attr.list.type]
    if any(t in (_RESOURCE, _VARIANT) or t > _REFERENCES for t in types):
        return "it works on variables, tables or lists"
    return ""


_FLOAT, _DOUBLE = 1, 2  # tensorflow/core/framework/types.proto
_RESOURCE, _VARIANT, _REFERENCES = 20, 21, 100


def run_node(node: bytes, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Run a serialized NodeDef in TensorFlow; raises LowerError if it refuses the operands."""
    arrays = [np.asarray(a) for a in arrays]
    need_tensorflow("an op without a rule cannot be computed without TensorFlow")
    import tensorflow as tf

    try:
        session, inputs, outputs = _session(node, tuple(map(_tf_dtype, arrays)))
        results = session.run(outputs, dict(zip(inputs, arrays, strict=True)))
    except (tf.errors.OpError, TypeError, ValueError) as error:
        raise LowerError("TensorFlow does not compute the node", found=" ".join(str(error).split())[:200]) from error
    return tuple(np.asarray(r, object) if np.asarray(r).dtype.kind in "SUO" else np.asarray(r) for r in results)


@lru_cache(maxsize=64)
def _session(node: bytes, dtypes: tuple[Any, ...]) -> tuple[Any, Any, Any]:
    import tensorflow as tf

    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(dtype) for dtype in dtypes]
        outputs = _import(node, inputs)
    return tf.compat.v1.Session(graph=graph), inputs, outputs


def result_shapes(node: bytes, operands: Sequence[Known]) -> list[tuple[Dim | None, ...] | None]:
    """The shapes of a node's results: None where the rank is unknown, and for sizes that no shape explains.

    operands: of types that may have symbols; a size of a result that is one of these is that symbol.
    """
    found = _inferred(node, operands, {})
    symbols = sorted({s for o in operands if isinstance(o, TensorType) for d in o.shape for s in symbols_of(d)})
    if not symbols or all(shape is not None and None not in shape for shape in found):
        return list(found)
    dims: list[Dim] = list({str(d): d for o in operands if isinstance(o, TensorType) for d in o.shape}.values())
    probes = [{s: first + step * i for i, s in enumerate(symbols)} for first, step in _PROBES]
    try:
        probed = [_inferred(node, operands, sizes) for sizes in probes]
    except LowerError:  # sizes that the op does not take
        return list(found)
    values = {tuple(substitute_dim(d, sizes) for sizes in probes): d for d in dims if not is_known(d)}
    return [
        None
        if shape is None
        else tuple(
            size if size is not None else values.get(tuple(p[axis] if p else None for p in at))
            for axis, size in enumerate(shape)
        )
        for shape, at in zip(found, zip(*probed, strict=True), strict=True)
    ]


def _inferred(node: bytes, operands: Sequence[Known], sizes: Mapping[str, Dim]) -> list[PartialShape | None]:
    need_tensorflow("the shape of an op without a rule cannot be inferred without TensorFlow")
    import tensorflow as tf

    with tf.Graph().as_default():
        try:  # the stand-ins too: six open sizes probed at once are more elements than TensorFlow counts
            inputs = [_stand_in(operand, sizes) for operand in operands]
            return [decode_shape(t.shape.as_proto()) for t in _import(node, inputs)]
        except ValueError as error:
            found = " ".join(str(error).split())[:200]
            raise LowerError("TensorFlow does not take the operands of the node", found=found) from error


def _stand_in(operand: Known, sizes: Mapping[str, Dim]) -> Any:
    import tensorflow as tf

    if isinstance(operand, np.ndarray):
        return tf.constant(operand, _tf_dtype(operand))
    shape = [substitute_dim(d, sizes) for d in operand.shape]
    dtype = tf.string if operand.dtype is DType.string else tf.as_dtype(operand.dtype.numpy)
    return tf.compat.v1.placeholder(dtype, [d if is_known(d) else None for d in shape])


def _import(node: bytes, inputs: Sequence[Any]) -> list[Any]:
    """The results of the node in the graph that is current, applied to tensors of that graph."""
    import tensorflow as tf

    graph_def = tf.compat.v1.GraphDef(versions={"producer": tf.version.GRAPH_DEF_VERSION})
    parsed = graph_def.node.add()
    parsed.ParseFromString(node)
    parsed.name = "node"
    names = [f"operand_{i}" for i in range(len(inputs))]
    parsed.input[:] = names
    mapped = dict(zip((f"{name}:0" for name in names), inputs, strict=True))
    (operation,) = tf.import_graph_def(graph_def, input_map=mapped, return_elements=["node"], name="")
    return list(operation.outputs)


def _parsed(node: bytes) -> Any:
    return message_class("NodeDef").FromString(node)


def _tf_dtype(array: np.ndarray) -> Any:
    import tensorflow as tf

    return tf.string if array.dtype == object else tf.as_dtype(array.dtype)
