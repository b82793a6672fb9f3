"""Peephole rules: where each fires and where it must not, with equal numbers before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.simplify.simplify import simplify
from tests.lowering.peephole.rewriting import B, Case, T, case, check, f32, flags, floats, i32, ints

WEIGHTS = floats(6, 4)
VECTOR = floats(6)


def dense(x: Any, bias: Any = None, **options: Any) -> Any:
    return ops.fully_connected(x, WEIGHTS, bias, **options)


def grouped(x: Any, inputs: int, outputs: int = 4) -> Any:
    return ops.conv_2d(x, floats(outputs, 3, 2, inputs), floats(outputs), padding="SAME", stride_w=2, stride_h=2)


def twice(x: Any) -> Any:
    """Two readers of x."""
    return ops.relu(x), ops.exp(x)


def shape_of_rows(x: Any, *sizes: Any) -> Any:
    """A shape that is computed at run time: the first size of x, then constants."""
    rows = ops.strided_slice(ops.shape(x), ints(0), ints(1), ints(1), shrink_axis_mask=1)
    return ops.pack(rows, *(np.int32(s) for s in sizes))


ACTIVATION = [
    case("relu-after-add", lambda x, y: ops.relu(ops.add(x, y)), f32(2, 3), f32(2, 3), left="add"),
    case("relu6-after-dense", lambda x: ops.relu6(dense(x, VECTOR)), f32(B, 4), left="fully_connected"),
    case("relu_n1_to_1-after-mul", lambda x: ops.relu_n1_to_1(ops.mul(x, VECTOR)), f32(2, 6), left="mul"),
    case("relu-after-div", lambda x, y: ops.relu(ops.div(x, y)), f32(2, 3), f32(3), left="div"),
    case(
        "relu-after-reshape-of-dense",
        lambda x: ops.relu(ops.reshape(dense(x), ints(-1, 3, 2))),
        f32(B, 2, 4),
        left="fully_connected reshape",
    ),
    case(
        "relu-after-activation",
        lambda x: ops.relu6(ops.add(x, VECTOR, fused_activation_function="RELU")),
        f32(6),
        left="add relu6",
    ),
    case(
        "relu-beside-another-reshape",
        lambda x: (y := ops.reshape(dense(x), ints(-1, 3)), ops.relu(ops.reshape(y, ints(-1, 2)))),
        f32(B, 4),
        left="fully_connected reshape reshape relu",
    ),
    case("relu-of-input", lambda x: ops.relu(x), f32(6), left="relu"),
    case("relu-beside-another-reader", lambda x: twice(ops.add(x, VECTOR)), f32(6), left="add relu exp"),
    case("relu-after-result", lambda x: (y := ops.add(x, VECTOR), ops.relu(y)), f32(6), left="add relu"),
    case(
        "relu-after-concatenation",
        lambda x: ops.relu(ops.concatenation(x, x, axis=0)),
        f32(6),
        left="concatenation relu",
    ),
    case("tanh-after-add", lambda x: ops.tanh(ops.add(x, VECTOR)), f32(6), left="add tanh"),
    case("relu-after-exp", lambda x: ops.relu(ops.exp(x)), f32(6), left="exp relu"),
]

BIAS = [
    case("add-after-dense", lambda x: ops.add(dense(x), VECTOR), f32(B, 4), left="fully_connected"),
    case("add-before-dense", lambda x: ops.add(VECTOR, dense(x)), f32(B, 4), left="fully_connected"),
    case("two-biases", lambda x: ops.add(ops.add(dense(x), VECTOR), VECTOR), f32(B, 4), left="fully_connected"),
    case("sub-after-dense", lambda x: ops.sub(dense(x, VECTOR), floats(6)), f32(B, 4), left="fully_connected"),
    case("scalar-after-dense", lambda x: ops.add(dense(x), np.float32(0.5)), f32(B, 4), left="fully_connected"),
    case("row-after-dense", lambda x: ops.add(dense(x), floats(1, 6)), f32(B, 4), left="fully_connected"),
    case("bias-and-relu", lambda x: ops.relu(ops.add(dense(x), VECTOR)), f32(B, 4), left="fully_connected"),
    case(
        "add-of-relu-kind",
        lambda x: ops.add(dense(x), VECTOR, fused_activation_function="RELU"),
        f32(B, 4),
        left="fully_connected",
    ),
    case(
        "bias-and-relu-after-reshape",
        lambda x: ops.relu(ops.add(ops.reshape(dense(ops.reshape(x, ints(-1, 4))), ints(-1, 5, 6)), VECTOR)),
        f32(B, 5, 4),
        left="fully_connected",
    ),
    case("sub-from-constant", lambda x: ops.sub(VECTOR, dense(x)), f32(B, 4), left="fully_connected"),
    case("matrix-after-dense", lambda x: ops.add(dense(x), floats(2, 6)), f32(2, 4), left="fully_connected add"),
    case("column-after-dense", lambda x: ops.add(dense(x), floats(6, 1)), f32(6, 4), left="fully_connected add"),
    case("broadcasting-up", lambda x: ops.add(dense(x), floats(1, 1, 6)), f32(2, 4), left="fully_connected add"),
    case("input-after-dense", lambda x, y: ops.add(dense(x), y), f32(B, 4), f32(6), left="fully_connected add"),
    case("bias-is-input", lambda x, y: ops.add(dense(x, y), VECTOR), f32(B, 4), f32(6), left="fully_connected add"),
    case(
        "after-activated-dense",
        lambda x: ops.add(dense(x, fused_activation_function="RELU"), VECTOR),
        f32(B, 4),
        left="fully_connected add",
    ),
    case("beside-another-reader", lambda x: (y := dense(x), ops.add(y, VECTOR)), f32(B, 4), left="fully_connected add"),
    case(
        "reshape-of-the-last-axis",
        lambda x: ops.add(ops.reshape(dense(x), ints(-1, 4)), floats(4)),
        f32(2, 4),
        left="fully_connected reshape add",
    ),
    case("after-product-of-inputs", lambda x, y: ops.add(ops.mul(x, y), VECTOR), f32(6), f32(6), left="mul add"),
]

RESHAPE = [
    case("of-reshape", lambda x: ops.reshape(ops.reshape(x, ints(4, 3)), ints(2, 6)), f32(3, 4), left="reshape"),
    case("there-and-back", lambda x: ops.reshape(ops.reshape(x, ints(12)), ints(3, 4)), f32(3, 4)),
    case("there-and-back-open", lambda x: ops.reshape(ops.reshape(x, ints(-1, 2, 2)), ints(-1, 4)), f32(B, 4)),
    case("to-the-same", lambda x: ops.reshape(x, ints(-1, 4)), f32(B, 4)),
    case("expand-squeeze", lambda x: ops.squeeze(ops.expand_dims(x, 1), squeeze_dims=(1,)), f32(B, T)),
    case("expand-expand", lambda x: ops.expand_dims(ops.expand_dims(x, 0), -1), f32(B, 4), left="reshape"),
    case("expand-reshape", lambda x: ops.reshape(ops.expand_dims(x, 1), ints(-1, 2, 2)), f32(B, 4), left="reshape"),
    case(
        "read-twice",
        lambda x: (y := ops.reshape(x, ints(12)), ops.reshape(y, ints(6, 2))),
        f32(3, 4),
        left="reshape reshape",
    ),
    case("runtime-shape", lambda x: ops.reshape(x, shape_of_rows(x, 2, 2)), f32(B, 4), left="reshape"),
    case("runtime-shape-to-the-same", lambda x: ops.reshape(x, shape_of_rows(x, 4)), f32(B, 4)),
    case("alone", lambda x: ops.reshape(x, ints(12)), f32(3, 4), left="reshape"),
    case(
        "expand-expand-open",
        lambda x: ops.expand_dims(ops.expand_dims(x, 0), 0),
        f32(B, T),
        left="expand_dims expand_dims",
    ),
    case(
        "runtime-shape-of-two-sizes",
        lambda x: ops.reshape(x, ops.concatenation(ops.shape(x), ints(1), axis=0)),
        f32(B, T),
        left="shape concatenation reshape",
    ),
]

REDUCTION = [
    case(
        "mean-then-ones",
        lambda x: ops.reshape(ops.mean(x, ints(1, 2)), ints(-1, 1, 1, 4)),
        f32(B, 3, 3, 4),
        left="mean",
    ),
    case("mean-then-none", lambda x: ops.squeeze(ops.mean(x, ints(1), keep_dims=True)), f32(2, 3, 4), left="mean"),
    case("expanded", lambda x: ops.expand_dims(ops.reduce_max(x, ints(-1)), -1), f32(B, T), left="reduce_max"),
    case(
        "another-axis",
        lambda x: ops.reshape(ops.mean(x, ints(1, 2)), ints(-1, 4, 1, 1)),
        f32(B, 3, 3, 4),
        left="mean reshape",
    ),
    case(
        "second-reader",
        lambda x: (y := ops.mean(x, ints(1)), ops.expand_dims(y, 1)),
        f32(B, 3, 4),
        left="mean expand_dims",
    ),
]

ROWS = [
    case("flattened", lambda x: dense(ops.reshape(x, ints(-1, 4))), f32(B, 2, 2), left="fully_connected"),
    case(
        "of-a-sequence",
        lambda x: ops.reshape(dense(ops.reshape(x, ints(-1, 4)), VECTOR), ints(-1, 5, 6)),
        f32(B, 5, 4),
        left="fully_connected",
    ),
    case(
        "with-a-run-time-shape",
        lambda x: ops.reshape(dense(ops.reshape(x, ints(-1, 4))), shape_of_rows(x, 5, 6)),
        f32(B, 5, 4),
        left="fully_connected",
    ),
    case(
        "to-other-leading-sizes",
        lambda x: ops.reshape(dense(ops.reshape(x, ints(-1, 4))), ints(5, -1, 6)),
        f32(B, 5, 4),
        left="fully_connected reshape",
    ),
    case(
        "ends-within-an-axis",
        lambda x: dense(ops.reshape(x, ints(-1, 4))),
        f32(B, 2, 6),
        left="reshape fully_connected",
    ),
    case(
        "second-reader-of-the-rows",
        lambda x: (y := dense(ops.reshape(x, ints(-1, 4))), ops.reshape(y, ints(-1, 5, 6))),
        f32(B, 5, 4),
        left="fully_connected reshape",
    ),
]

TRANSPOSE = [
    case(
        "of-transpose",
        lambda x: ops.transpose(ops.transpose(x, ints(1, 2, 0)), ints(0, 2, 1)),
        f32(2, 3, 4),
        left="transpose",
    ),
    case("there-and-back", lambda x: ops.transpose(ops.transpose(x, ints(1, 2, 0)), ints(2, 0, 1)), f32(B, 3, T)),
    case("identity", lambda x: ops.transpose(x, ints(0, -1)), f32(B, T)),
    case("of-ones", lambda x: ops.transpose(x, ints(1, 0, 3, 2)), f32(B, 1, 4, 1), left="reshape"),
    case("of-a-symbol", lambda x: ops.transpose(x, ints(1, 0)), f32(B, 4), left="transpose"),
    case("of-ones-open", lambda x: ops.transpose(x, ints(1, 0, 2)), f32(B, 1, T), left="transpose"),
]

SLICING = [
    case(
        "strided-everything", lambda x: ops.strided_slice(x, ints(0, 0), ints(0, 4), ints(1, 1), end_mask=1), f32(B, 4)
    ),
    case("slice-everything", lambda x: ops.slice_(x, ints(0, 0), ints(-1, 4)), f32(B, 4)),
    case(
        "strided-of-ones",
        lambda x: ops.strided_slice(x, ints(0, 0), ints(0, 1), ints(1, 1), end_mask=1, shrink_axis_mask=2),
        f32(B, 1),
        left="reshape",
    ),
    case("gather-scalar", lambda x: ops.gather(x, np.int32(2), axis=1), f32(B, 4), left="strided_slice"),
    case("gather-vector-of-one", lambda x: ops.gather(x, ints(3), axis=-1), f32(B, 2, 4), left="strided_slice"),
    case("gather-only-place", lambda x: ops.gather(x, np.int32(0), axis=1), f32(B, 1, 4), left="reshape"),
    case(
        "strided-backwards",
        lambda x: ops.strided_slice(x, ints(0), ints(0), ints(-1), begin_mask=1, end_mask=1),
        f32(4),
        left="reverse_v2",
    ),
    case(
        "strided-backwards-along-the-second-axis",
        lambda x: ops.strided_slice(x, ints(0, 0), ints(0, 0), ints(1, -1), begin_mask=3, end_mask=3),
        f32(B, 4, 2),
        left="reverse_v2",
    ),
    case(
        "strided-backwards-along-two-axes",
        lambda x: ops.strided_slice(x, ints(0, 0), ints(0, 0), ints(-1, -1), begin_mask=3, end_mask=3),
        f32(3, 4),
        left="strided_slice",
    ),
    case(
        "strided-backwards-by-two",
        lambda x: ops.strided_slice(x, ints(0), ints(0), ints(-2), begin_mask=1, end_mask=1),
        f32(4),
        left="strided_slice",
    ),
    case(
        "strided-part-backwards",
        lambda x: ops.strided_slice(x, ints(2), ints(0), ints(-1), end_mask=1),
        f32(4),
        left="strided_slice",
    ),
    case(
        "place-of-reverse",
        lambda x: ops.strided_slice(
            ops.reverse_v2(x, ints(1)), ints(0, 1), ints(0, 2), ints(1, 1), begin_mask=1, end_mask=1, shrink_axis_mask=2
        ),
        f32(B, 4),
        left="strided_slice",
    ),
    case(
        "last-place-of-reverse",
        lambda x: ops.strided_slice(
            ops.reverse_v2(x, ints(1)),
            ints(0, -1),
            ints(0, 0),
            ints(1, 1),
            begin_mask=1,
            end_mask=1,
            shrink_axis_mask=2,
        ),
        f32(B, T),
        left="strided_slice",
    ),
    case(
        "range-of-reverse",
        lambda x: ops.strided_slice(ops.reverse_v2(x, ints(1)), ints(0, 0), ints(0, 2), ints(1, 1), end_mask=1),
        f32(B, 4),
        left="reverse_v2 strided_slice",
    ),
    case("strided-part", lambda x: ops.strided_slice(x, ints(1), ints(4), ints(1)), f32(4), left="strided_slice"),
    case("slice-part", lambda x: ops.slice_(x, ints(0), ints(3)), f32(4), left="slice"),
    case("gather-of-two", lambda x: ops.gather(x, ints(0, 1), axis=0), f32(4), left="gather"),
    case("gather-batched", lambda x: ops.gather(x, ints(2), axis=1, batch_dims=1), f32(1, 4), left="gather"),
    case("gather-rank-6", lambda x: ops.gather(x, np.int32(0), axis=0), f32(2, 1, 1, 1, 1, 2), left="gather"),
    case("empty-part", lambda x: ops.split_v(x, ints(4, -1, 2), np.int32(1)), f32(2, 6), left="split_v"),
    case(
        "one-part-is-all", lambda x: (ops.split_v(x, ints(0, 6), np.int32(1))[1], ops.relu(x)), f32(2, 6), left="relu"
    ),
    case("empty-part-of-unknown-rows", lambda x: ops.split_v(x, ints(6, 0), np.int32(1)), f32(B, 6), left="split_v"),
]


def both(x: Any, y: Any, dtype: DType) -> Any:
    """The product of two tensors in a dtype."""
    return ops.mul(ops.cast(x, out_data_type=dtype), ops.cast(y, out_data_type=dtype))


CAST = [
    case("to-itself", lambda x: ops.cast(x, out_data_type=DType.f32), f32(4)),
    case("there-and-back", lambda x: ops.cast(ops.cast(x, out_data_type=DType.i64), out_data_type=DType.i32), i32(4)),
    case("bool-and-back", lambda x: ops.cast(ops.cast(x, out_data_type=DType.f32), out_data_type=DType.bool), flags(4)),
    case(
        "narrowing",
        lambda x: ops.cast(ops.cast(x, out_data_type=DType.i32), out_data_type=DType.f32),
        f32(4),
        left="cast cast",
    ),
    case(
        "inexact",
        lambda x: ops.cast(ops.cast(x, out_data_type=DType.f32), out_data_type=DType.i32),
        i32(4),
        left="cast cast",
    ),
    case("to-another", lambda x: ops.cast(x, out_data_type=DType.i64), i32(4), left="cast"),
    case("masks", lambda x, y: both(x, y, DType.f64), flags(2, 4), flags(4), left="logical_and cast"),
    case("masks-f32", lambda x, y: both(x, y, DType.f32), flags(2, 4), flags(4), left="cast cast mul"),
    case("numbers", lambda x, y: both(x, y, DType.f64), i32(2, 4), flags(4), left="cast cast mul"),
]
PRODUCT = [
    case("matrix", lambda x: ops.batch_matmul(x, WEIGHTS.T), f32(B, 4), left="fully_connected"),
    case("matrix-adjoint", lambda x: ops.batch_matmul(x, WEIGHTS, adj_y=True), f32(2, B, 4), left="fully_connected"),
    case("matrix-left-adjoint", lambda x: ops.batch_matmul(x, WEIGHTS, adj_x=True), f32(6, 3), left="batch_matmul"),
    case("stack", lambda x: ops.batch_matmul(x, floats(2, 4, 3)), f32(2, B, 4), left="batch_matmul"),
    case("channels", lambda x: grouped(x, 1), f32(B, 5, 5, 4), left="depthwise_conv_2d"),
    case("channels-that-make-two-each", lambda x: grouped(x, 1, 8), f32(B, 5, 5, 4), left="depthwise_conv_2d"),
    case("groups-of-two", lambda x: grouped(x, 2), f32(B, 5, 5, 4), left="conv_2d"),
    case("one-channel", lambda x: grouped(x, 1), f32(B, 5, 5, 1), left="conv_2d"),
    case("variables", ops.batch_matmul, f32(2, 4), f32(4, 3), left="batch_matmul"),
]


@pytest.mark.parametrize("item", ACTIVATION)
def test_activation(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", BIAS)
def test_bias(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", RESHAPE)
def test_reshape(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", REDUCTION)
def test_reduction(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", ROWS)
def test_rows(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", TRANSPOSE)
def test_transpose(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", SLICING)
def test_slicing(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", CAST)
def test_cast(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", PRODUCT)
def test_product(item: Case) -> None:
    check(item)


def test_a_constant_operand_is_transposed_in_the_file() -> None:
    graph = simplify(trace_graph(lambda x: ops.batch_matmul(x, floats(2, 4, 3)), [f32(2, B, 4)]), Context())
    (eqn,) = graph.eqns
    assert eqn.params["adj_y"]
