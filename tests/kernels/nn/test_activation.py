"""Activations that no TensorFlow op of their own reaches, against LiteRT and written formulas."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.nn.activation import activate
from jfuse.tflite.write.file import to_bytes

X = np.array([[-9, -3, -1, -1e-3, 0, 1e-3, 0.5, 1, 2.9, 3, 9]], np.float32)


def litert(function: Any) -> np.ndarray:
    """LiteRT's own kernel (no delegate) on X."""
    graph = trace_graph(function, [TensorType(X.shape, DType.f32)])
    interpreter = Interpreter(
        model_content=to_bytes(Program((Signature("main", graph, ("x",), ("y",)),))),
        experimental_op_resolver_type=OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
    )
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], X)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: ops.gelu(x, approximate=False),
        lambda x: ops.gelu(x, approximate=True),
        ops.hard_swish,
        ops.relu_n1_to_1,
        ops.relu_0_to_1,
        lambda x: ops.prelu(x, np.array([0.1], np.float32)),
        lambda x: ops.prelu(x, np.linspace(-1, 2, X.size, dtype=np.float32)),
        lambda x: ops.softmax(x, beta=0.5),
    ],
    ids=[
        "gelu",
        "gelu_approximate",
        "hard_swish",
        "relu_n1_to_1",
        "relu_0_to_1",
        "prelu_one",
        "prelu_each",
        "softmax_beta",
    ],
)
def test_the_body_agrees_with_litert(function: Any) -> None:
    # 1e-6 of each element: erfc, tanh and exp of two libraries; 1e-7: 1 + tanh cancels where x is far below 0.
    np.testing.assert_allclose(function(X), litert(function), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", ["NONE", "RELU", "RELU_N1_TO_1", "RELU6"])
def test_fused_activations_agree_with_litert(name: str) -> None:
    np.testing.assert_array_equal(
        ops.mul(X, np.float32(2), fused_activation_function=name),
        litert(lambda x: ops.mul(x, np.float32(2), fused_activation_function=name)),
    )


def test_activations_by_formula() -> None:
    x = X.astype(np.float64)
    np.testing.assert_allclose(activate(x, "TANH"), [[math.tanh(v) for v in x[0]]], rtol=1e-15)
    np.testing.assert_array_equal(activate(x, "SIGN_BIT"), (x < 0).astype(np.float64))
    exact = [[0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x[0]]]
    np.testing.assert_allclose(ops.gelu(x, approximate=False), exact, rtol=1e-12)
