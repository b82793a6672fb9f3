"""What the rules of convolutions and pools refuse, and in how few operators they spell the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.defaults import default_rules
from jfuse.passes.context import Context
from jfuse.passes.gates.builtins_only import check_operators
from jfuse.passes.simplify.simplify import simplify
from tests.op_cases.case import ROUNDING

B, H, W = map(symbol, "BHW")
ONES: dict[str, Any] = {"strides": (1, 1, 1, 1)}
KERNEL = np.ones((3, 3, 4, 5), np.float32)


def rule(name: str) -> Callable[..., Any]:
    return default_rules().lowers[name]


def left(function: Callable[..., Any], *shape: Any, dtype: DType = DType.f32) -> str:
    """The ops of the graph after simplification."""
    graph = simplify(trace_graph(function, [TensorType(shape, dtype)]), Context())
    check_operators([graph])
    return " ".join(eqn.op.name for eqn in graph.eqns)


def window(size: int = 2, **attributes: Any) -> dict[str, Any]:
    return {"ksize": (1, size, size, 1), "strides": (1, size, size, 1), "padding": "SAME", **attributes}


IMAGE = TensorType((2, 4, 4, 4), DType.f32)
REFUSED: list[tuple[str, Callable[..., Any], TensorType, str]] = [
    ("batches", lambda x: rule("MaxPool")(x, **window(ksize=(2, 1, 1, 1))), IMAGE,
     r"pooling over the batch(.|\n)*try +use tf.reduce_max"),
    ("mean of channels", lambda x: rule("AvgPool")(x, **window(ksize=(1, 1, 1, 2))), IMAGE,
     r"a mean over channels as a pool(.|\n)*try +use tf.reduce_mean"),
    ("pixels and channels", lambda x: rule("MaxPool")(x, **window(ksize=(1, 2, 2, 2))), IMAGE,
     r"pooling over pixels and channels at once"),
    ("open integers", lambda x: rule("MaxPool")(x, **window()), TensorType((B, H, W, 3), DType.i32),
     r"known only at run time(.|\n)*found +i32\[B,H,W,3\](.|\n)*try +fix height and width"),
    ("places in open sizes", lambda x: rule("MaxPoolWithArgmax")(x, **window(padding="VALID")),
     TensorType((B, H, W, 3), DType.f32), r"the places of largest elements(.|\n)*try +fix the sizes"),
    ("integers beyond the image",
     lambda x: rule("Dilation2D")(x, np.ones((2, 2, 3), np.int32), rates=(1, 1, 1, 1), padding="SAME", **ONES),
     TensorType((2, 4, 4, 3), DType.i32), r"a sum with the least integer would overflow(.|\n)*found +i32\[2,4,4,3\]"),
    ("axes", lambda x: rule("Conv")(x, KERNEL, padding="SAME", strides=(1, 1, 1, 1), batch_dims=2),
     TensorType((1, 2, 4, 4, 4), DType.f32), r"other than two or three axes(.|\n)*with 2 axes for the batch"),
    ("integers", lambda x: rule("Conv2D")(x, KERNEL.astype(np.int32), padding="SAME", **ONES),
     TensorType((2, 4, 4, 4), DType.i32), r"conv_2d \(1x(.|\n)*takes f32, not i32\[2,4,4,5\]"),
]  # fmt: skip


@pytest.mark.parametrize(("function", "given", "match"), [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refusals(function: Callable[..., Any], given: TensorType, match: str) -> None:
    with pytest.raises(LowerError, match=match):
        check_operators([trace_graph(function, [given])])


def enlarged(x: Any, size: int, stride: int, sizes: Any) -> Any:
    weights = np.ones((size, size, 5, 3), np.float32)
    steps = (1, stride, stride, 1)
    return rule("Conv2DBackpropInput")(np.array(sizes, np.int32), weights, x, strides=steps, padding="SAME")


@pytest.mark.parametrize(
    ("size", "stride", "wanted"),
    [
        (2, 2, "conv_2d depth_to_space"),
        (3, 2, "pad conv_2d depth_to_space"),
        (4, 2, "conv_2d depth_to_space"),
        (5, 2, "conv_2d depth_to_space"),
        (3, 1, "conv_2d"),
    ],
)
def test_an_open_batch_needs_no_run_time_shape(size: int, stride: int, wanted: str) -> None:
    assert left(lambda x: enlarged(x, size, stride, (4 * stride, 6 * stride)), B, 4, 6, 3) == wanted


def test_a_known_batch_is_one_operator() -> None:
    assert left(lambda x: enlarged(x, 3, 2, (2, 8, 12, 5)), 2, 4, 6, 3) == "transpose_conv"


def test_explicit_paddings_as_same_need_no_operator() -> None:
    sides = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 1, 1, 1, 0, 0), **ONES}
    assert left(lambda x: rule("Conv2D")(x, KERNEL, **sides), B, H, W, 4) == "conv_2d"
    assert left(lambda x: rule("MaxPool")(x, ksize=(1, 3, 3, 1), **sides), B, H, W, 4) == "max_pool_2d"


def test_a_batch_norm_of_constants_is_two_operators() -> None:
    constants = [np.array(v, np.float32) for v in ([1, 2, 3], [0, 1, 2], [0.5, 100, -1], [1, 0.1, 4])]

    def norm(x: Any) -> Any:
        return rule("FusedBatchNormV3")(x, *constants, epsilon=1e-3, is_training=False)[0]

    graph = trace_graph(norm, [TensorType((B, 4, 4, 3), DType.f32)])
    assert [eqn.op.name for eqn in graph.eqns] == ["mul", "add"]
    scale, shift = (np.asarray(eqn.inputs[1].array, np.float64) for eqn in graph.eqns)  # type: ignore[union-attr]
    wide = [c.astype(np.float64) for c in constants]
    wanted = wide[0] / np.sqrt(wide[3] + 1e-3)
    np.testing.assert_allclose(scale, wanted, rtol=ROUNDING)
    # A mean of 100 times a scale of 6 beside an offset of 1: computed in f32, the difference would lose digits.
    np.testing.assert_allclose(shift, wide[1] - wide[2] * wanted, rtol=1e-7)


def test_a_norm_of_rows_needs_no_run_time_shape() -> None:
    """Keras 2 normalizes layers by a batch norm of [1, rows, features, 1] whose scales are ones, as many as rows."""

    def model(x: Any) -> Any:
        rows = ops.reduce_prod(ops.strided_slice(ops.shape(x), [0], [2], [1]), np.zeros(1, np.int32), keep_dims=False)
        images = ops.reshape(x, np.array([1, -1, 8, 1], np.int32))
        scale, offset = (ops.fill(ops.pack(rows), np.float32(v)) for v in (1, 0))
        empty = np.zeros(0, np.float32)
        y = rule("FusedBatchNormV3")(images, scale, offset, empty, empty, epsilon=1e-3, data_format="NCHW")[0]
        return ops.reshape(y, np.array([-1, 6, 8], np.int32))

    assert set(left(model, B, 6, 8).split()).isdisjoint({"shape", "pack", "fill", "reduce_prod"})


def test_convolutions_over_sequences_of_open_length_follow_each_other() -> None:
    """What a window takes off an open length leaves a size that other operators take."""

    def row(x: Any) -> Any:
        y = rule("Conv2D")(ops.expand_dims(x, 1), KERNEL[:1, :, :, :4], padding="VALID", **ONES)
        return ops.squeeze(y, squeeze_dims=(1,))

    assert left(lambda x: ops.tanh(row(row(x))), B, H, 4) == "expand_dims conv_2d conv_2d squeeze tanh"
