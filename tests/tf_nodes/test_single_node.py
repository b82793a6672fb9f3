"""TensorFlow nodes by themselves: the shapes that TensorFlow infers, what it computes, and constants that fold."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.ir.dims import symbol
from jfuse.ir.types import DType, TensorType
from jfuse.tf_nodes.single_node import (
    Known,
    attributes_of,
    result_shapes,
    run_node,
    single_node,
    why_not_single,
    written_attributes,
)

B, N = symbol("B"), symbol("N")


def node(op: str, operands: int, **attributes: Any) -> bytes:
    """A serialized node; attributes as AttrValues take them."""
    parsed = tf.compat.v1.NodeDef(name="here", op=op)
    for name, (kind, value) in attributes.items():
        setattr(parsed.attr[name], kind, value)
    return single_node(parsed, operands)


F32 = ("type", tf.float32.as_datatype_enum)
I64 = ("type", tf.int64.as_datatype_enum)


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def i64(*shape: Any) -> TensorType:
    return TensorType(shape, DType.i64)


@pytest.mark.parametrize(
    ("of", "operands", "shapes"),
    [
        (node("Betainc", 3, T=F32), [f32(2, 3)] * 3, [(2, 3)]),
        (node("Lgamma", 1, T=F32), [f32(B, N, 3)], [(B, N, 3)]),
        (node("MatrixDeterminant", 1, T=F32), [f32(B, 2 * N, 3, 3)], [(B, 2 * N)]),
        (node("Svd", 1, T=F32), [f32(B, 4, 3)], [(B, 3), (B, 4, 3), (B, 3, 3)]),
        (node("SparseToDense", 4, T=F32, Tindices=I64), [i64(N, 2), np.array([4, 5]), f32(N), f32()], [(4, 5)]),
        (node("SparseToDense", 4, T=F32, Tindices=I64), [i64(N, 2), i64(2), f32(N), f32()], [(None, None)]),
        (node("Unique", 1, T=F32, out_idx=I64), [f32(N)], [(None,), (N,)]),
        (node("Conv2D", 2, T=F32, padding=("s", b"SAME")), [f32(B, N, 7, 3), np.ones((1, 1, 3, 2), np.float32)], None),
    ],
)  # fmt: skip
def test_open_sizes_are_followed(of: bytes, operands: list[Known], shapes: list[Any] | None) -> None:
    if shapes is None:  # strides are missing: TensorFlow says so
        with pytest.raises(LowerError, match="TensorFlow does not take the operands of the node"):
            result_shapes(of, operands)
    else:
        assert result_shapes(of, operands) == shapes


def test_what_tensorflow_computes() -> None:
    x = np.array([0.5, 3.0], np.float32)
    (found,) = run_node(node("Lgamma", 1, T=F32), [x])
    np.testing.assert_array_equal(found, tf.math.lgamma(x).numpy())
    with pytest.raises(LowerError, match=r"TensorFlow does not compute the node(.|\n)*double"):
        run_node(node("Lgamma", 1, T=F32), [x.astype(np.float64)])
    texts = run_node(node("StringUpper", 1), [np.array([b"a", b"\xff"], object)])
    assert texts[0].tolist() == [b"A", b"\xff"]


def test_nodes_carry_attributes_and_their_name_alone() -> None:
    given = node("Lgamma", 2, T=F32, _output_shapes=("s", b"x"))
    parsed = tf.compat.v1.NodeDef.FromString(given)
    assert (parsed.name, parsed.op, list(parsed.input), list(parsed.attr)) == ("", "Lgamma", ["", ""], ["T"])
    assert list(parsed.experimental_debug_info.original_node_names) == ["here"]
    assert attributes_of(given) == written_attributes(given) == {"T": DType.f32}


def test_shapes_and_lists_of_types_are_not_written() -> None:
    shape = tf.TensorShape([2, 3]).as_proto()
    parsed = tf.compat.v1.NodeDef(name="here", op="Odd")
    parsed.attr["shape"].shape.CopyFrom(shape)
    parsed.attr["types"].list.type.append(1)
    parsed.attr["sizes"].list.i.extend([2, 3])
    given = single_node(parsed, 0)
    assert attributes_of(given) == {"shape": (2, 3), "types": (DType.f32,), "sizes": (2, 3)}
    assert written_attributes(given) == {"sizes": (2, 3)}


def reason(call: Any, op: str) -> str:
    from tensorflow.python.framework import op_def_registry

    graph_def = tf.function(call, autograph=False).get_concrete_function().graph.as_graph_def()
    return why_not_single(next(n for n in graph_def.node if n.op == op), op_def_registry.get(op))


def test_what_cannot_leave_its_graph() -> None:
    variable = tf.Variable(1.0)
    assert "variables" in reason(lambda: variable + 1.0, "ReadVariableOp")
    assert "lists" in reason(lambda: tf.raw_ops.EmptyTensorList(
        element_shape=[2], max_num_elements=3, element_dtype=tf.float32), "EmptyTensorList")  # fmt: skip
    assert "functions" in reason(lambda: tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0]), "StatelessWhile")
    assert reason(lambda: tf.math.special.dawsn(tf.ones([2])), "Dawsn") == ""


def test_ops_on_constants_are_computed_at_once() -> None:
    def call(x: Any) -> Any:
        return x + tf.linalg.pinv(tf.constant([[2.0, 0.0], [0.0, 4.0]]))

    function = tf.function(call, input_signature=[tf.TensorSpec([2, 2], tf.float32)], autograph=False)
    result = jfuse.convert(function)
    assert result.report.operators == {"add": 1}
    np.testing.assert_array_equal(result(np.zeros((2, 2), np.float32)), [[0.5, 0.0], [0.0, 0.25]])


def test_random_numbers_are_not_folded() -> None:
    def call(x: Any) -> Any:
        return x + tf.random.gamma([2], 2.0)

    function = tf.function(call, input_signature=[tf.TensorSpec([2], tf.float32)], autograph=False)
    with pytest.raises(LowerError, match=r"tf\.RandomGamma(.|\n)*make the random numbers an input"):
        jfuse.convert(function)


def test_what_follows_an_open_size_goes_on() -> None:
    """The batch is known to be the input's, so that a product after the op needs no shape at run time."""
    weights = tf.constant(np.arange(6, dtype=np.float32).reshape(3, 2))

    def call(x: Any) -> Any:
        return tf.math.special.dawsn(x) @ weights + x[:, :2]

    function = tf.function(call, input_signature=[tf.TensorSpec([None, 3], tf.float32)], autograph=False)
    result = jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True))
    assert result.report.assumptions == []
    assert "shape" not in result.report.operators
    assert str(result.signature().graph.outputs[0].type) == "f32[B,2]"
