"""Sizes and paddings of windows, and the pools and norms that no TensorFlow op is, against LiteRT and formulas."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from jax import lax

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import substitute_dim, symbol
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.nn.windows import same_padding, window_count
from jfuse.tflite.write.file import to_bytes

SETTINGS = list(itertools.product((1, 2, 3, 5), (1, 2, 3), (1, 2)))  # window, stride, dilation


@pytest.mark.parametrize(("window", "stride", "dilation"), SETTINGS)
def test_sizes_of_open_axes(window: int, stride: int, dilation: int) -> None:
    """What the types say of an open size is what jax's own arithmetic gives once the size is known."""
    size = symbol("N")
    counts = {padding: window_count(size, window, stride, dilation, padding) for padding in ("SAME", "VALID")}
    before, after = same_padding(size, window, stride, dilation)
    reach = (window - 1) * dilation + 1
    for n in range(1, 14):
        pads = lax.padtype_to_pads((n,), (reach,), (stride,), "SAME")
        assert (substitute_dim(before, {"N": n}), substitute_dim(after, {"N": n})) == pads[0]
        assert substitute_dim(counts["SAME"], {"N": n}) == -(-n // stride)
        if n >= reach:
            wanted = lax.reduce_window_shape_tuple((n,), (reach,), (stride,), [(0, 0)])
            assert (substitute_dim(counts["VALID"], {"N": n}),) == wanted


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_windows_over_windows_stay_one_quotient(padding: str) -> None:
    """Seven layers over sound: jax would need hours for the bounds of nested quotients."""
    layers = [(127, 64), (7, 3), (3, 2), (4, 4), (3, 2), (2, 2), (5, 1)]
    size, known = symbol("N"), {n: n for n in (1, 126, 127, 511, 900, 7001, 123457)}
    for window, stride in layers:
        size = window_count(size, window, stride, 1, padding)
        assert str(size).count("floordiv") == 1
        known = {
            n: max((m - window) // stride + 1, 0) if padding == "VALID" else -(-m // stride) for n, m in known.items()
        }
        assert {n: substitute_dim(size, {"N": n}) for n in known} == known


def test_a_window_larger_than_the_image() -> None:
    options = {"padding": "VALID", "stride_w": 1, "stride_h": 1}
    with pytest.raises(TypeMismatch, match=r"the window is larger than the image(.|\n)*expected +3 or more"):
        trace_graph(lambda x: ops.conv_2d(x, np.ones((1, 3, 3, 1), np.float32), **options), [f32(1, 1, 5, 1)])


def f32(*shape: int) -> TensorType:
    return TensorType(shape, DType.f32)


def litert(function: Any, x: np.ndarray, resolver: OpResolverType) -> np.ndarray:
    graph = trace_graph(function, [f32(*x.shape)])
    content = to_bytes(Program((Signature("main", graph, ("x",), ("y",)),)))
    interpreter = Interpreter(model_content=content, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.array(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def l2_pool(x: Any, **options: Any) -> Any:
    settings = {"padding": "SAME", "stride_w": 2, "stride_h": 2, "filter_width": 3, "filter_height": 2, **options}
    return ops.l2_pool_2d(x, **settings)


X = np.random.default_rng(0).normal(size=(2, 5, 4, 6)).astype(np.float32)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "l2_pool": l2_pool,
    "l2_pool-valid": lambda x: l2_pool(x, padding="VALID"),
    "l2_pool-relu6": lambda x: l2_pool(x, fused_activation_function="RELU6"),
    "l2_normalization": ops.l2_normalization,
}


@pytest.mark.parametrize("resolver", [OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_body_agrees_with_litert(name: str, resolver: OpResolverType) -> None:
    # 1e-6: sums of six squares in another order, and a root.
    np.testing.assert_allclose(FUNCTIONS[name](X), litert(FUNCTIONS[name], X, resolver), rtol=1e-6)


def test_short_vectors_are_not_made_longer() -> None:
    """The length counts as 1e-6 at least."""
    x = np.array([[3e-9, 4e-9], [3.0, 4.0], [0.0, 0.0]], np.float32)
    wanted = np.array([[3e-3, 4e-3], [0.6, 0.8], [0, 0]], np.float32)
    np.testing.assert_allclose(ops.l2_normalization(x), wanted, rtol=1e-6)
    np.testing.assert_allclose(litert(ops.l2_normalization, x, OpResolverType.AUTO), wanted, rtol=1e-6)


def test_l2_pool_by_formula() -> None:
    (value,) = l2_pool(np.full((1, 2, 3, 1), 2, np.float32), padding="VALID").ravel()
    assert value == 2
    corner = l2_pool(np.array([[[[3.0], [4.0]]]], np.float32), filter_width=2, filter_height=1, stride_w=1, stride_h=1)
    np.testing.assert_allclose(corner.ravel(), [np.sqrt(12.5), 4], rtol=1e-7)  # the last window holds one element


W2, W3, BIAS = np.ones((6, 2, 2, 6), np.float32), np.ones((2, 2, 2, 6, 6), np.float32), np.ones(6, np.float32)
_PLANE = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
_POOL = {**_PLANE, "filter_width": 2, "filter_height": 2}
_SPACE = {**_PLANE, "stride_d": 1}
CLAMPED: dict[str, Callable[..., Any]] = {
    "conv_2d": lambda x, **f: ops.conv_2d(x, W2, BIAS, **_PLANE, **f),
    "depthwise_conv_2d": lambda x, **f: ops.depthwise_conv_2d(x, W2[:1], BIAS, depth_multiplier=1, **_PLANE, **f),
    "transpose_conv": lambda x, **f: ops.transpose_conv(X.shape, W2, x, BIAS, **_PLANE, **f),
    "average_pool_2d": lambda x, **f: ops.average_pool_2d(x, **_POOL, **f),
    "max_pool_2d": lambda x, **f: ops.max_pool_2d(x, **_POOL, **f),
    "l2_pool_2d": lambda x, **f: ops.l2_pool_2d(x, **_POOL, **f),
    "conv_3d": lambda x, **f: ops.conv_3d(ops.expand_dims(x, 1), W3, BIAS, **_SPACE, **f),
    "conv_3d_transpose": lambda x, **f: ops.conv_3d_transpose(
        (2, 1, 5, 4, 6), W3, ops.expand_dims(x, 1), BIAS, **_SPACE, **f
    ),
}


@pytest.mark.parametrize("resolver", [OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES])
@pytest.mark.parametrize("activation", ["RELU", "RELU6", "RELU_N1_TO_1"])
@pytest.mark.parametrize("name", CLAMPED)
def test_fused_activations_agree_with_litert(name: str, activation: str, resolver: OpResolverType) -> None:
    assert getattr(ops, name).clamps

    def function(x: Any) -> Any:
        return CLAMPED[name](x, fused_activation_function=activation)

    wanted, low = CLAMPED[name](X), -1.0 if activation == "RELU_N1_TO_1" else 0.0
    wanted = np.clip(wanted, low, {"RELU": np.inf, "RELU6": 6, "RELU_N1_TO_1": 1}[activation])
    # 2e-6: sums of up to 48 terms.
    np.testing.assert_allclose(litert(function, X, resolver), wanted, rtol=2e-6, atol=2e-6)
    np.testing.assert_allclose(function(X), wanted, rtol=2e-6, atol=2e-6)
