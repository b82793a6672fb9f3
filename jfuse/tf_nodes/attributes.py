"""Reading GraphDefs: attributes as Python values, tensor references, and TensorFlow's own opinion of types."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from jfuse.base.errors import ImportFailed
from jfuse.base.option_values import LARGEST_SIZE
from jfuse.ir.types import DType
from jfuse.tf_nodes.op_defs import registered_op_def

# tensorflow/core/framework/types.proto
_DTYPES: Mapping[int, DType] = {
    1: DType.f32,
    2: DType.f64,
    3: DType.i32,
    4: DType.u8,
    5: DType.i16,
    6: DType.i8,
    7: DType.string,
    8: DType.c64,
    9: DType.i64,
    10: DType.bool,
    14: DType.bf16,
    17: DType.u16,
    18: DType.c128,
    19: DType.f16,
    20: DType.resource,
    21: DType.variant,
    22: DType.u32,
    23: DType.u64,
}
_REF_OFFSET = 100
MOST_CONSTANT = 2**32
"""Bytes of the constants of a graph: a message holds 2 GiB at most, but names one number for any shape."""

PartialShape = tuple[int | None, ...]
"""A shape as TensorFlow writes it: None where a dimension is unknown."""


@dataclass(frozen=True)
class Library:
    """The functions of a graph by name, and the definitions of TensorFlow's ops."""

    functions: Mapping[str, Any]
    op_def: Any

    @classmethod
    def of(cls, graph_def: Any) -> Library:
        """The functions of a GraphDef, with the definitions of all ops."""
        return cls({f.signature.name: f for f in graph_def.library.function}, registered_op_def)


def decode_dtype(number: int) -> DType:
    """The DType of a TensorFlow type number; raises ImportFailed for quantized and other types that TFLite lacks."""
    found = _DTYPES.get(number - _REF_OFFSET if number > _REF_OFFSET else number)
    if found is None:
        raise ImportFailed(f"TensorFlow's data type {_name(number)} has no TFLite counterpart")
    return found


def _name(number: int) -> str:
    """A type as TensorFlow calls it, as in "25 (DT_FLOAT8_E4M3FN)"."""
    from tensorflow.core.framework.types_pb2 import DataType

    return f"{number} ({DataType.Name(number)})" if number in DataType.values() else str(number)


def decode_shape(proto: Any) -> PartialShape | None:
    """A TensorShapeProto; None where the rank is unknown. Raises ImportFailed for sizes that no kernel counts to."""
    if proto.unknown_rank:
        return None
    largest = max((dim.size for dim in proto.dim), default=0)
    if largest > LARGEST_SIZE:
        raise ImportFailed("a tensor is too large", expected=f"at most {LARGEST_SIZE:,} along an axis", found=largest)
    return tuple(None if dim.size < 0 else int(dim.size) for dim in proto.dim)


def decode_attr(attr: Any) -> Any:
    """An AttrValue in Python: str, int, float, bool, DType, shape (-1 unknown), array, function name, or a tuple."""
    kind = attr.WhichOneof("value")
    if kind == "list":
        for field in ("s", "i", "f", "b", "type", "shape", "tensor", "func"):
            values = getattr(attr.list, field)
            if values:
                return tuple(_decode(field, value) for value in values)
        return ()
    return None if kind is None else _decode(kind, getattr(attr, kind))


def _decode(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode("utf-8", "surrogateescape")
    if kind == "type":
        return decode_dtype(value)
    if kind == "shape":
        shape = decode_shape(value)
        return None if shape is None else tuple(-1 if d is None else d for d in shape)
    if kind == "tensor":
        return decode_tensor(value)
    return value.name if kind == "func" else value


def decode_tensor(proto: Any) -> np.ndarray:
    """The array of a TensorProto, strings as bytes; raises ImportFailed where it holds another number of elements.

    Source: tensorflow/python/framework/tensor_util.py, MakeNdarray
    """
    dtype, shape = decode_dtype(proto.dtype), decode_shape(proto.tensor_shape)
    if shape is None or None in shape:
        raise ImportFailed("a constant has no known shape")
    size = math.prod(d for d in shape if d is not None)
    if size * dtype.numpy.itemsize > MOST_CONSTANT:
        raise ImportFailed("a constant is too large", expected=f"at most {MOST_CONSTANT:,} bytes", found=f"{shape}")
    if proto.tensor_content:
        if dtype is DType.string or len(proto.tensor_content) % dtype.numpy.itemsize:
            found_bytes = f"{len(proto.tensor_content)} bytes"
            raise ImportFailed(f"a constant of {dtype.value} has a part of an element", found=found_bytes)
        found = np.frombuffer(proto.tensor_content, dtype.numpy)
    elif dtype in _AS_BITS:
        found = np.array(proto.half_val, np.uint16).view(dtype.numpy)
    elif dtype in _AS_PAIRS:
        parts = np.array(getattr(proto, _AS_PAIRS[dtype]), np.zeros(0, dtype.numpy).real.dtype)
        found = parts.view(dtype.numpy)
    elif dtype is DType.string:
        found = np.array([*proto.string_val, b""], object)[:-1]
    else:
        found = np.array(getattr(proto, _VALUES.get(dtype, "int_val")), dtype.numpy)
    if found.size != size and not proto.tensor_content:  # what is left out at the end is like the last one
        last = found[-1:] if found.size else np.zeros(1, found.dtype) if dtype is not DType.string else [b""]
        found = np.concatenate([found, np.repeat(np.asarray(last, found.dtype), max(size - found.size, 0))])
    if found.size != size:
        raise ImportFailed(f"a constant of {size} elements has {found.size} values")
    return found.reshape(cast(tuple[int, ...], shape))


def stated_bytes(proto: Any) -> int:
    """The size that a TensorProto states."""
    dtype = _DTYPES.get(proto.dtype)
    return math.prod(int(d.size) for d in proto.tensor_shape.dim) * (dtype.numpy.itemsize if dtype else 1)


_AS_BITS = frozenset({DType.f16, DType.bf16})
_AS_PAIRS = {DType.c64: "scomplex_val", DType.c128: "dcomplex_val"}
_VALUES = {
    DType.f32: "float_val",
    DType.f64: "double_val",
    DType.i64: "int64_val",
    DType.u64: "uint64_val",
    DType.u32: "uint32_val",
    DType.bool: "bool_val",
}


def add_defaults(node: Any, op_def: Callable[[str], Any]) -> None:
    """Give a node the attributes that files leave out, as their values are those of the op's definition."""
    for attr in getattr(op_def(node.op), "attr", ()):
        if attr.HasField("default_value") and attr.name not in node.attr:
            node.attr[attr.name].CopyFrom(attr.default_value)


def output_shapes(node: Any) -> list[PartialShape | None]:
    """TensorFlow's shapes of a node's outputs, where the graph carries them."""
    attr = node.attr.get("_output_shapes") if "_output_shapes" in node.attr else None
    return [] if attr is None else [decode_shape(shape) for shape in attr.list.shape]


def output_dtypes(node: Any, op_def: Any) -> list[DType]:
    """The dtypes of a node's outputs, from its op's definition."""
    dtypes: list[DType] = []
    for arg in op_def.output_arg:
        if arg.type_list_attr:
            dtypes += [decode_dtype(t) for t in node.attr[arg.type_list_attr].list.type]
            continue
        number = node.attr[arg.type_attr].type if arg.type_attr else arg.type
        dtypes += [decode_dtype(number)] * _repeats(node, arg)
    return dtypes


def output_offset(node: Any, op_def: Any, name: str) -> int:
    """The position of the first result that a function body calls `name` (`Split:output:2` counts from here)."""
    offset = 0
    for arg in op_def.output_arg:
        if arg.name == name:
            return offset
        offset += len(node.attr[arg.type_list_attr].list.type) if arg.type_list_attr else _repeats(node, arg)
    raise ImportFailed(f"{node.op} has no output {name!r}", where=node.name)


def _repeats(node: Any, arg: Any) -> int:
    return int(node.attr[arg.number_attr].i) if arg.number_attr else 1


def split_reference(reference: str) -> tuple[str, str, int]:
    """A tensor reference as (node, output name or "", index): `a`, `a:1` (top level), `a:out:1` (in functions)."""
    parts = reference.split(":")
    if len(parts) == 3:
        return parts[0], parts[1], int(parts[2])
    return parts[0], "", int(parts[1]) if len(parts) == 2 else 0


_BEFORE_ARGUMENTS = {"If": 1, "StatelessIf": 1, "Case": 1, "StatelessCase": 1, "For": 2}


def operands_before_arguments(op: str) -> int:
    """How many operands of a node stand before those that its functions get.

    They choose a function, or say how a For counts; the third number of a For stands where its function gets the count.
    """
    return _BEFORE_ARGUMENTS.get(op, 0)


def called_functions(node: Any) -> list[str]:
    """The functions that a node's attributes name."""
    names, in_lists = [], []
    for attr in node.attr.values():
        kind = attr.WhichOneof("value")
        if kind == "func":
            names.append(attr.func.name)
        elif kind == "list" and attr.list.func:
            in_lists += [f.name for f in attr.list.func]
    return names + in_lists


def data_inputs(node: Any) -> Sequence[str]:
    """The node's tensor operands, control edges left out."""
    return [name for name in node.input if not name.startswith("^")]
