"""One infinite element among the samples of a conversion, where the model hands it on element by element."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.running.micro import has_micro
from jfuse.verification.inputs.edges import ONE_INFINITE, edge_inputs
from jfuse.verification.options import Verify
from jfuse.verification.plan import passes_infinities_on
from jfuse.verification.sides import Sides
from jfuse.verification.verify import verify_sides

ROW = TensorType((1, 4), DType.f32)
EYE = np.eye(4, dtype=np.float32)


def added(x: Array, y: Array) -> Array:
    return ops.relu(ops.add(x, y))


def options(edges: Any) -> Verify:
    return Verify(edges=edges, shrink=0)


def signature(function: Any, types: list[TensorType]) -> Signature:
    names = tuple("xyz"[: len(types)])
    return Signature("serving_default", trace_graph(function, types), names, ("out",))


def test_one_element_of_the_first_float_input_is_infinite() -> None:
    count = TensorType((1,), DType.i32)
    found = dict(edge_inputs(signature(lambda n, x, y: added(x, y), [count, ROW, ROW]), {}, (ONE_INFINITE,), 0))
    drawn = found[ONE_INFINITE]
    assert [int(np.isinf(drawn[name].astype(np.float64)).sum()) for name in "xyz"] == [0, 1, 0]


@pytest.mark.parametrize(
    ("function", "types", "passed_on"),
    [
        (added, [ROW, ROW], True),
        (lambda x: ops.fully_connected(x, EYE, None), [ROW], False),
        (ops.gelu, [ROW], False),
        (lambda x: ops.add(x, np.int32(1)), [TensorType((1,), DType.i32)], False),
    ],
    ids=["added", "product", "approximated", "integers"],
)
def test_only_elementwise_models_of_floats_are_asked(function: Any, types: list[TensorType], passed_on: bool) -> None:
    assert passes_infinities_on(Program((signature(function, types),))) == passed_on


def test_a_file_that_multiplies_with_a_made_up_matrix_is_found() -> None:
    """What relu(x + 0) is on finite numbers, and NaN in its neighbours where one element is infinite."""
    import tensorflow as tf

    source = jfuse.load(tf.function(lambda x: tf.nn.relu(x), input_signature=[tf.TensorSpec([1, 4])]))
    product = jfuse.load(
        tf.function(lambda x: tf.nn.relu(tf.matmul(x, tf.constant(EYE))), input_signature=[tf.TensorSpec([1, 4])])
    )
    sides = Sides.of_model(jfuse.lower(product), source)
    assert verify_sides(sides, options("none")).passed
    with pytest.raises(VerifyFailed):
        verify_sides(sides, options("infinite"))


def test_a_normalization_alone_converts() -> None:
    """XNNPACK's DEPTHWISE_CONV_2D of one pixel makes NaN beside an infinity, which is no reason to refuse the model."""
    tf = pytest.importorskip("tensorflow")
    scale, shift = tf.constant([2.0, 0.5, 1.0]), tf.constant([1.0, -1.0, 0.25])
    image = tf.TensorSpec([None, 4, 4, 3], tf.float32)
    function = tf.function(lambda x: x * scale + shift, input_signature=[image]).get_concrete_function()
    found = jfuse.convert(function)
    assert found.report.operators == {"depthwise_conv_2d": 1}
    assert {d.pair for d in found.report.differences} == {"tensorflow/xla", "tensorflow/litert"}


@pytest.mark.skipif(not has_micro(), reason="needs tflite-micro")
@pytest.mark.parametrize("kind", ["add", "sub", "mul", "div"])
def test_arithmetic_alone_converts_for_microcontrollers(kind: str) -> None:
    """tflite-micro makes the largest float of an infinite result, as the ends of an activation do."""
    tf = pytest.importorskip("tensorflow")
    function = tf.function(
        lambda x: getattr(tf.math, {"sub": "subtract", "mul": "multiply", "div": "divide"}.get(kind, kind))(x, 3.0),
        input_signature=[tf.TensorSpec([1, 4], tf.float32)],
    )
    found = jfuse.convert(function, target="tflite-micro")
    assert "tensorflow/tflite-micro" in {d.pair for d in found.report.differences}
