"""Merge rules: where each fires and where it must not, with equal numbers before and after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import same, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.simplify import simplify

B, T = symbol("B"), symbol("T")
SIZES = {"B": 3, "T": 5}


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def i32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.i32)


def flags(*shape: Any) -> TensorType:
    return TensorType(shape, DType.bool)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


WEIGHTS = floats(6, 4)
VECTOR = floats(6)


@dataclass(frozen=True)
class Case:
    """A function, and the ops that are left of it."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[TensorType, ...]
    left: tuple[str, ...]


def case(name: str, function: Callable[..., Any], *inputs: TensorType, left: str = "") -> Any:
    return pytest.param(Case(name, function, inputs, tuple(left.split())), id=name)


def dense(x: Any, bias: Any = None, **options: Any) -> Any:
    return ops.fully_connected(x, WEIGHTS, bias, **options)


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
        lambda x: ops.relu(ops.reshape(dense(x), ints(-1, 2, 6))),
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
        left="reshape fully_connected reshape",
    ),
    case("sub-from-constant", lambda x: ops.sub(VECTOR, dense(x)), f32(B, 4), left="fully_connected sub"),
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
        lambda x: ops.add(ops.reshape(dense(x), ints(-1, 3)), floats(3)),
        f32(B, 4),
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

ARITHMETIC = [
    case("x+0", lambda x: ops.add(x, np.float32(0)), f32(B, 4)),
    case("0+x", lambda x: ops.add(np.zeros(4, np.float32), x), f32(B, 4)),
    case("x-0", lambda x: ops.sub(x, np.float32(0)), f32(B, 4)),
    case("x*1", lambda x: ops.mul(x, np.ones((1, 4), np.float32)), f32(B, 4)),
    case("1*x", lambda x: ops.mul(np.int32(1), x), i32(4)),
    case("x/1", lambda x: ops.div(x, np.float32(1)), f32(4)),
    case("and-true", lambda x: ops.logical_and(x, np.array(True)), flags(4)),
    case("or-false", lambda x: ops.logical_or(np.zeros(4, bool), x), flags(4)),
    case("select-true", lambda x, y: ops.select_v2(np.array(True), x, y), f32(4), f32(4)),
    case("select-false", lambda x, y: ops.select(np.zeros((2, 4), bool), x, y), f32(2, 4), f32(2, 4)),
    case("0-x", lambda x: ops.sub(np.float32(0), x), f32(4), left="sub"),
    case("1/x", lambda x: ops.div(np.float32(1), x), f32(4), left="div"),
    case("x+almost-0", lambda x: ops.add(x, np.array([0, 0, 0, 1], np.float32)), f32(4), left="add"),
    case("x+0-broadcast", lambda x: ops.add(x, np.zeros((2, 4), np.float32)), f32(4), left="add"),
    case("x*1-broadcast", lambda x: ops.mul(x, np.ones(4, np.float32)), f32(2, 1), left="mul"),
    case("x+0-activated", lambda x: ops.add(x, np.float32(0), fused_activation_function="RELU"), f32(4), left="add"),
    case("x*empty", lambda x: ops.mul(x, np.ones((0, 1), np.float32)), f32(4), left="mul"),
    case("and-false", lambda x: ops.logical_and(x, np.array(False)), flags(4), left="logical_and"),
    case("select-mixed", lambda x, y: ops.select_v2(np.array([True, False]), x, y), f32(2), f32(2), left="select_v2"),
    case("select-broadcast", lambda x, y: ops.select_v2(np.array(True), x, y), f32(1), f32(4), left="select_v2"),
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
]

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
]
PRODUCT = [
    case("matrix", lambda x: ops.batch_matmul(x, WEIGHTS.T), f32(B, 4), left="fully_connected"),
    case("matrix-adjoint", lambda x: ops.batch_matmul(x, WEIGHTS, adj_y=True), f32(2, B, 4), left="fully_connected"),
    case("matrix-left-adjoint", lambda x: ops.batch_matmul(x, WEIGHTS, adj_x=True), f32(6, 3), left="batch_matmul"),
    case("stack", lambda x: ops.batch_matmul(x, floats(2, 4, 3)), f32(2, B, 4), left="batch_matmul"),
    case("variables", ops.batch_matmul, f32(2, 4), f32(4, 3), left="batch_matmul"),
]


def check(item: Case) -> None:
    graph = trace_graph(item.function, item.inputs)
    simple = simplify(graph, Context())
    check_graph(simple)
    assert tuple(eqn.op.name for eqn in simple.eqns) == item.left
    for before, after in zip(graph.outputs, simple.outputs, strict=True):
        assert before.type.dtype is after.type.dtype
        assert all(same(d, e) for d, e in zip(before.type.shape, after.type.shape, strict=True))
    compare(graph, simple)


def compare(graph: Graph, simple: Graph) -> None:
    rng = np.random.default_rng(3)
    for scale in (1, 5, 3e9):  # the last one beyond what f32 can say of an i32
        args = [draw(rng, var.type, scale) for var in graph.inputs]
        for found, wanted in zip(evaluate(simple, args), evaluate(graph, args), strict=True):
            # 1e-6: bias sums of up to three f32 terms in another order
            np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-6, atol=1e-6 * scale)


def draw(rng: np.random.Generator, type_: TensorType, scale: float) -> np.ndarray:
    shape = tuple(SIZES.get(str(d), d) for d in type_.shape)
    values = rng.standard_normal(shape) * scale
    return values > 0 if type_.dtype is DType.bool else np.clip(values, -(2**31), 2**31 - 1).astype(type_.dtype.numpy)


@pytest.mark.parametrize("item", ACTIVATION)
def test_activation(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", BIAS)
def test_bias(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", RESHAPE)
def test_reshape(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", TRANSPOSE)
def test_transpose(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", ARITHMETIC)
def test_arithmetic(item: Case) -> None:
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
