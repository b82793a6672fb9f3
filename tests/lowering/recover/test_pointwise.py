"""Activations spelled in arithmetic: which operator each is, and what only looks like one."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.ops.math.special import lower_erf, lower_erfc
from jfuse.passes.fuse.recover import recover_activations
from jfuse.passes.simplify.dce import eliminate_dead_code

X = TensorType((symbol("B"), 4), DType.f32)


def sixth(x: Any) -> Any:
    return ops.div(x, np.float32(6))


def gate(x: Any) -> Any:
    return ops.relu6(ops.add(x, np.float32(3)))


def tanh_form(x: Any, coefficient: float = 0.044715, scale: float = math.sqrt(2 / math.pi)) -> Any:
    cube = ops.mul(ops.pow_(x, np.float32(3)), np.float32(coefficient))
    return ops.add(ops.tanh(ops.mul(ops.add(x, cube), np.float32(scale))), np.float32(1))


def half(x: Any) -> Any:
    return ops.mul(x, np.float32(0.5))


def scaled(x: Any, factor: float) -> Any:
    return ops.mul(x, np.float32(factor))


def rounded_by_a_sum(x: Any) -> Any:
    magic = np.float32(1.5 * 2**23)
    return ops.sub(ops.add(x, magic), magic)


def chosen(x: Any, bound: float, below: float) -> Any:
    return ops.select_v2(ops.greater(x, np.float32(bound)), x, scaled(x, below))


KNOWN: list[tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = [
    ("leaky_relu", lambda x: ops.maximum(x, scaled(x, 1e-7)), lambda x: tf.nn.leaky_relu(x, 1e-7)),
    ("hard_swish", lambda x: ops.mul(x, sixth(gate(x))), lambda x: x * tf.nn.relu6(x + 3) / 6),
    ("hard_swish", lambda x: sixth(ops.mul(gate(x), x)), lambda x: x * tf.nn.relu6(x + 3) / 6),
    (
        "hard_swish",
        lambda x: ops.mul(
            x, ops.minimum(ops.maximum(ops.add(sixth(x), np.float32(0.5)), np.float32(0)), np.float32(1))
        ),
        lambda x: x * tf.nn.relu6(x + 3) / 6,
    ),
    ("gelu", lambda x: ops.mul(half(x), tanh_form(x)), lambda x: tf.nn.gelu(x, approximate=True)),
    ("gelu", lambda x: half(ops.mul(x, tanh_form(x))), lambda x: tf.nn.gelu(x, approximate=True)),
    ("gelu", lambda x: ops.mul(half(x), lower_erfc(scaled(ops.neg(x), math.sqrt(0.5)))), tf.nn.gelu),
    (
        "gelu",
        lambda x: ops.mul(x, half(ops.add(lower_erf(ops.div(x, np.float32(math.sqrt(2)))), np.float32(1)))),
        tf.nn.gelu,
    ),
    ("leaky_relu", lambda x: ops.maximum(x, scaled(x, 0.3)), lambda x: tf.nn.leaky_relu(x, 0.3)),
    ("leaky_relu", lambda x: ops.minimum(x, scaled(x, 2)), lambda x: tf.nn.leaky_relu(x, 2)),
    ("leaky_relu", lambda x: chosen(x, 0, 0.25), lambda x: tf.nn.leaky_relu(x, 0.25)),
    (
        "leaky_relu",
        lambda x: ops.sub(ops.relu(x), scaled(ops.relu(ops.neg(x)), 0.1)),
        lambda x: tf.nn.leaky_relu(x, 0.1),
    ),
    ("relu", lambda x: half(ops.add(x, ops.abs_(x))), tf.nn.relu),
    ("abs", lambda x: ops.maximum(x, ops.neg(x)), tf.abs),
]

OTHERS: list[tuple[str, Callable[[Any], Any]]] = [
    ("swish", lambda x: ops.mul(x, ops.logistic(x))),
    ("hard swish of 5", lambda x: ops.mul(x, ops.div(gate(x), np.float32(5)))),
    ("another coefficient", lambda x: ops.mul(half(x), tanh_form(x, 0.0447))),
    ("gelu as a sigmoid", lambda x: ops.mul(x, ops.logistic(scaled(x, 1.702)))),
    ("not at 0", lambda x: chosen(x, 0.5, 0.25)),
    ("clipped far out", lambda x: ops.minimum(ops.mul(half(x), tanh_form(x)), np.float32(1e6))),
    (
        "clipped far out by other constants",
        lambda x: ops.div(
            ops.minimum(scaled(ops.maximum(x, scaled(x, 0.3)), 1e-3), np.float32(5000)), np.float32(1e-3)
        ),
    ),
    (
        "another value at one place",
        lambda x: ops.select_v2(ops.equal(x, np.float32(7)), x, ops.maximum(x, scaled(x, 0.3))),
    ),
    ("a relu6 that leaks", lambda x: ops.add(ops.relu6(x), scaled(x, 1e-8))),
    ("a tanh that leaks", lambda x: ops.add(ops.tanh(x), scaled(x, 5e-7))),
    ("a sigmoid that leaks", lambda x: ops.add(ops.logistic(x), scaled(x, 5e-9))),
    ("a gelu that leaks", lambda x: ops.add(ops.mul(half(x), tanh_form(x)), scaled(x, 2e-6))),
    ("rounds by a sum", lambda x: ops.relu6(scaled(rounded_by_a_sum(scaled(x, 16)), 1 / 16))),
    ("rounds one of two", lambda x: ops.maximum(x, scaled(rounded_by_a_sum(x), 0.3))),
    ("rounds", lambda x: ops.maximum(x, scaled(ops.round_(x), 0.3))),
    ("vector", lambda x: ops.maximum(x, ops.mul(x, np.full(4, 0.3, np.float32)))),
    ("broadcast", lambda x: ops.maximum(ops.add(x, np.zeros((2, 1, 1), np.float32)), scaled(x, 0.3))),
    ("f64", lambda x: ops.maximum(ops.cast(x, out_data_type=DType.f64), np.float64(0.3))),
    ("two tensors", lambda x: ops.maximum(ops.reshape(x, [-1, 4]), scaled(x, 0.3))),
]


def recovered(function: Callable[[Any], Any]) -> Graph:
    return eliminate_dead_code(recover_activations(trace_graph(function, [X])))


def numbers() -> np.ndarray:
    rng = np.random.default_rng(5)
    return np.concatenate([rng.standard_normal((8, 4)) * s for s in (0.01, 1, 5, 100)]).astype(np.float32)


@pytest.mark.parametrize(("name", "spelled", "reference"), KNOWN, ids=[f"{k[0]}-{i}" for i, k in enumerate(KNOWN)])
def test_one_operator_for_the_spelling(
    name: str, spelled: Callable[[Any], Any], reference: Callable[[Any], Any]
) -> None:
    graph = recovered(spelled)
    assert [eqn.op.name for eqn in graph.eqns] == [name]
    x = numbers()
    (found,) = evaluate(graph, [x])
    # 1e-6: the spelling's own rounding; beside the largest value of each row, as its zeros have no digits to compare
    np.testing.assert_allclose(found, np.asarray(reference(x)), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("spelled", [o[1] for o in OTHERS], ids=[o[0].replace(" ", "-") for o in OTHERS])
def test_the_result_of_others_stays_what_it_is(spelled: Callable[[Any], Any]) -> None:
    before = eliminate_dead_code(trace_graph(spelled, [X]))
    assert recovered(spelled).eqns[-1].op is before.eqns[-1].op


def test_what_else_is_read_stays() -> None:
    def function(x: Any) -> Any:
        gated = sixth(gate(x))
        return ops.mul(x, gated), gated

    names = [eqn.op.name for eqn in recovered(function).eqns]
    assert names == ["add", "relu6", "div", "hard_swish"]


def test_of_the_nearest_tensor() -> None:
    """An activation of another one's result, not of what that is made of."""
    graph = recovered(lambda x: (y := ops.exp(x), ops.mul(y, sixth(gate(y))))[1])
    assert [eqn.op.name for eqn in graph.eqns] == ["exp", "hard_swish"]


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda x: ops.select_v2(ops.greater(x, np.float32(0)), x, np.float32(0)), ["greater", "select_v2"]),
        (lambda x: ops.select_v2(ops.less(x, np.float32(0)), np.float32(0), x), ["relu"]),
        (lambda x: ops.select_v2(ops.greater(x, np.float32(0)), x, ops.mul(x, np.float32(0.5))), ["leaky_relu"]),
    ],
    ids=["nan becomes 0", "nan stays", "both sides are nan"],
)
def test_a_choice_that_drops_nan_is_no_activation(call: Callable[[Any], Any], found: list[str]) -> None:
    graph = eliminate_dead_code(recover_activations(trace_graph(call, [X])))
    assert [eqn.op.name for eqn in graph.eqns] == found
