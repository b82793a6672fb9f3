"""Clips and slopes that are spelled out with constants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, case, check, f32, floats, i32

SLOPES = np.abs(floats(6))
WEIGHTS = floats(6, 4)


def number(value: float) -> Any:
    return np.float32(value)


def between(x: Any, low: float, high: float) -> Any:
    return ops.minimum(ops.maximum(x, number(low)), number(high))


def dense(x: Any, weights: Any = WEIGHTS) -> Any:
    return ops.fully_connected(x, weights, floats(6))


def sloped(x: Any, alpha: Any = SLOPES) -> Any:
    """As Keras 3 spells PReLU."""
    return ops.add(ops.relu(x), ops.mul(-alpha, ops.relu(ops.neg(x))))


CLIPS = [
    case("relu", lambda x: ops.maximum(x, number(0)), f32(B, 4), left="relu"),
    case("relu6", lambda x: between(x, 0, 6), f32(B, 4), left="relu6"),
    case("relu6-the-other-way", lambda x: ops.maximum(ops.minimum(number(6), x), number(0)), f32(4), left="relu6"),
    case("relu_n1_to_1", lambda x: between(x, -1, 1), f32(B, 4), left="relu_n1_to_1"),
    case("relu_0_to_1", lambda x: between(x, 0, 1), f32(B, 4), left="relu_0_to_1"),
    case("of-relu", lambda x: ops.minimum(ops.relu(x), number(6)), f32(4), left="relu6"),
    case("of-dense", lambda x: between(dense(x), 0, 6), f32(B, 4), left="fully_connected"),
    case("of-clamped", lambda x: ops.minimum(dense_relu(x), number(6)), f32(B, 4), left="fully_connected"),
    case("of-clamped-by-5", lambda x: ops.minimum(dense_relu(x), number(5)), f32(B, 4), left="fully_connected minimum"),
    case("by-5", lambda x: between(x, 0, 5), f32(4), left="relu minimum"),
    case("no-number-left", lambda x: ops.maximum(ops.minimum(x, number(-1)), number(0)), f32(4), left="minimum relu"),
    case("by-input", ops.maximum, f32(4), f32(4), left="maximum"),
    case("integers", lambda x: ops.maximum(x, np.int32(0)), i32(4), left="maximum"),
    case("broadcast", lambda x: ops.maximum(x, np.zeros((2, 1), np.float32)), f32(4), left="maximum"),
]

GATES = [
    case("hard-sigmoid", lambda x: between(dense(x), 0, 1), f32(B, 4), left="fully_connected mul"),
    case(
        "before-another-product",
        lambda x: ops.fully_connected(between(dense(x), 0, 1), floats(3, 6)),
        f32(B, 4),
        left="fully_connected fully_connected",
    ),
    case("second-reader", lambda x: (y := dense(x), between(y, 0, 1)), f32(B, 4), left="fully_connected relu_0_to_1"),
    case(
        "weights-are-input",
        lambda x, w: between(dense(x, w), 0, 1),
        f32(B, 4),
        f32(6, 4),
        left="fully_connected relu_0_to_1",
    ),
]

SLOPED = [
    case("prelu", sloped, f32(B, 6), left="prelu"),
    case("of-images", lambda x: sloped(x, SLOPES.reshape(1, 1, 6)), f32(B, 3, 3, 6), left="prelu"),
    case("for-each-place", lambda x: sloped(x, floats(3, 6)), f32(B, 3, 6), left="prelu"),
    case("scalar", lambda x: sloped(x, number(0.3)), f32(B, 6), left="leaky_relu"),
    case(
        "subtracted",
        lambda x: ops.sub(ops.relu(x), ops.mul(ops.relu(ops.mul(x, number(-1))), SLOPES)),
        f32(B, 6),
        left="prelu",
    ),
    case("of-dense", lambda x: sloped(dense(x)), f32(B, 4), left="fully_connected prelu"),
    case(
        "another-sign",
        lambda x: ops.add(ops.relu(x), ops.mul(-SLOPES, ops.relu(ops.mul(x, number(-2))))),
        f32(B, 6),
        left="relu mul mul add",
    ),
    case(
        "another-tensor",
        lambda x, y: ops.add(ops.relu(x), ops.mul(-SLOPES, ops.relu(ops.neg(y)))),
        f32(B, 6),
        f32(B, 6),
        left="relu neg relu mul add",
    ),
    case(
        "second-reader",
        lambda x: (y := ops.relu(x), ops.add(y, ops.mul(-SLOPES, ops.relu(ops.neg(x))))),
        f32(B, 6),
        left="relu neg relu mul add",
    ),
    case("more-axes", lambda x: sloped(x, floats(2, 1, 6)), f32(3, 6), left="relu neg relu mul add"),
]


def dense_relu(x: Any) -> Any:
    return ops.fully_connected(x, WEIGHTS, fused_activation_function="RELU")


@pytest.mark.parametrize("item", CLIPS)
def test_clip(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", GATES)
def test_gate(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", SLOPED)
def test_slope(item: Case) -> None:
    check(item)


def softplus(x: Any) -> Any:
    return ops.sub(ops.relu(x), ops.log(ops.logistic(ops.abs_(x))))


SOFTPLUS = [
    case("mish", lambda x: ops.tanh(softplus(x)), f32(B, 4), left="exp add log tanh"),
    case(
        "of-two",
        lambda x, y: ops.tanh(ops.sub(ops.relu(x), ops.log(ops.logistic(ops.abs_(y))))),
        f32(4),
        f32(4),
        left="relu abs logistic log sub tanh",
    ),
    case("second-reader", lambda x: (y := softplus(x), ops.tanh(y)), f32(4), left="relu abs logistic log sub tanh"),
    case("log_sigmoid", lambda x: ops.neg(softplus(ops.neg(x))), f32(B, 4), left="abs logistic log minimum add"),
]


@pytest.mark.parametrize("item", SOFTPLUS)
def test_softplus(item: Case) -> None:
    check(item)
