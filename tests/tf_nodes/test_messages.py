"""The messages and definitions that jfuse keeps for itself, against TensorFlow's."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import symbol_database
from google.protobuf.descriptor import FieldDescriptor
from tensorflow.core.framework.tensor_pb2 import TensorProto
from tensorflow.core.protobuf import saved_model_pb2, tensor_bundle_pb2, trackable_object_graph_pb2

from jfuse.base.errors import ImportFailed
from jfuse.tf_nodes.attributes import decode_tensor
from jfuse.tf_nodes.messages import as_own, message_class
from jfuse.tf_nodes.op_defs import op_def, registered_op_def
from tests.generated import COMMAND
from tests.tf_nodes.op_def_table import lines

KNOWN = symbol_database.Default().pool
assert all([saved_model_pb2, tensor_bundle_pb2, trackable_object_graph_pb2])  # imported: they fill the pool
ROOTS = ("SavedModel", "BundleHeaderProto", "BundleEntryProto", "TrackableObjectGraph", "OpList")


def described(field: FieldDescriptor) -> tuple[object, ...]:
    """What of a field decides how it is read; enums are numbers here."""
    message = field.message_type
    kind = FieldDescriptor.TYPE_INT32 if field.type == FieldDescriptor.TYPE_ENUM else field.type
    of = None if message is None or message.GetOptions().map_entry else message.full_name
    oneof = field.containing_oneof
    return field.number, kind, field.is_repeated, of, oneof and oneof.name


def test_every_field_is_tensorflows() -> None:
    waiting = [message_class(name).DESCRIPTOR for name in ROOTS]
    seen = set()
    while waiting:
        ours = waiting.pop()
        if ours.full_name in seen:
            continue
        seen.add(ours.full_name)
        theirs = KNOWN.FindMessageTypeByName(ours.full_name)
        assert ours.GetOptions().map_entry == theirs.GetOptions().map_entry
        for field in ours.fields:
            assert described(field) == described(theirs.fields_by_name[field.name]), field.full_name
            waiting += [field.message_type] if field.message_type else []
    assert len(seen) > 50


def test_messages_of_tensorflow_become_ours() -> None:
    node = tf.compat.v1.NodeDef(name="a", op="Add", input=["x", "^y"])
    node.attr["T"].type = 1
    own = as_own(node)
    assert isinstance(own, message_class("NodeDef"))
    assert own.SerializeToString(deterministic=True) == node.SerializeToString(deterministic=True)
    assert as_own(own) is own


def test_the_table_of_ops_is_tensorflows() -> None:
    from google.protobuf import text_format

    definitions = {line.split('"')[1]: line for line in lines()}
    found = {
        name: text_format.MessageToString(op_def(name) or message_class("OpDef")(), as_one_line=True)
        for name in definitions
    }
    assert found == definitions, COMMAND


def test_other_ops_are_asked_of_tensorflow() -> None:
    assert op_def("Betainc") is None
    assert registered_op_def("Betainc").input_arg[0].name == "a"
    assert registered_op_def("NoSuchOp") is None


VALUES = (
    *(np.arange(6).reshape(2, 3).astype(d) for d in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8")),
    np.array([1.5, -2, 3], ml_dtypes.bfloat16),
    np.array([1 + 2j, 3], np.complex64),
    np.array([[1 - 2j], [3]], np.complex128),
    np.array([True, False]),
    np.array([b"a", b"", b"\xff"], object),
    np.zeros((0, 3), np.float32),
    np.array(b"one", object),
    np.array(7, np.int64),
)


@pytest.mark.parametrize("value", VALUES, ids=lambda v: f"{v.dtype}{v.shape}")
def test_tensors_are_read_as_tensorflow_reads_them(value: np.ndarray) -> None:
    as_values = tf.compat.v1.make_tensor_proto(value)
    for proto in (as_values, _listed(as_values)):
        found, expected = decode_tensor(as_own(proto)), tf.make_ndarray(proto)
        assert found.shape == expected.shape
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == (object if value.dtype == object else value.dtype)


def _listed(proto: TensorProto) -> TensorProto:
    """The same tensor with a list of its elements instead of their bytes, where TensorFlow can write that."""
    array = tf.make_ndarray(proto)
    if not proto.tensor_content:
        return proto
    listed = type(proto)(dtype=proto.dtype, tensor_shape=proto.tensor_shape)
    field = {"f": "float_val", "d": "double_val", "l": "int64_val", "L": "uint64_val", "I": "uint32_val"}
    name = "half_val" if array.dtype.itemsize == 2 and array.dtype.kind in "fV" else field.get(array.dtype.char)
    if array.dtype.kind == "c":
        name = "scomplex_val" if array.dtype == np.complex64 else "dcomplex_val"
        array = array.reshape(-1).view(array.real.dtype)
    elif name == "half_val":
        array = array.view(np.uint16)
    elif array.dtype.kind == "b":
        name = "bool_val"
    getattr(listed, name or "int_val").extend(array.reshape(-1).tolist())
    return listed


@pytest.mark.parametrize(("given", "expected"), [([2.5], [2.5] * 4), ([1, 2], [1, 2, 2, 2]), ([], [0] * 4)])
def test_elements_that_are_left_out_are_like_the_last(given: list[float], expected: list[float]) -> None:
    proto = TensorProto(dtype=1, float_val=given)
    proto.tensor_shape.dim.add(size=4)
    assert decode_tensor(proto).tolist() == tf.make_ndarray(proto).tolist() == expected


@pytest.mark.parametrize(("dtype", "content"), [(1, b"12345"), (7, b"1234")], ids=["f32", "text"])
def test_a_tensor_of_a_part_of_an_element_is_refused(dtype: int, content: bytes) -> None:
    proto = TensorProto(dtype=dtype, tensor_content=content)
    proto.tensor_shape.dim.add(size=1)
    with pytest.raises(ImportFailed, match="a part of an element"):
        decode_tensor(proto)


def test_a_tensor_of_too_many_elements_is_refused() -> None:
    proto = TensorProto(dtype=1, float_val=[1, 2, 3])
    proto.tensor_shape.dim.add(size=2)
    with pytest.raises(ImportFailed, match="a constant of 2 elements has 3 values"):
        decode_tensor(proto)
