"""Normalizations: L2 norms and softmax in one operator, layer norms around one difference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, case, check, f32, floats, ints

GAMMA, BETA = floats(6) + 3, floats(6)


def norm(x: Any, least: float = 1e-12, axis: int = -1, power: Any = ops.square) -> Any:
    return ops.maximum(ops.sum_(power(x), ints(axis), keep_dims=True), np.float32(least))


def mean(x: Any, axis: int = -1) -> Any:
    return ops.mean(x, ints(axis), keep_dims=True)


def layer_norm(x: Any, shift: Any = BETA) -> Any:
    """As Keras 3 spells it."""
    middle = mean(x)
    variance = mean(ops.squared_difference(x, middle))
    factor = ops.mul(ops.rsqrt(ops.add(variance, np.float32(1e-3))), GAMMA)
    return ops.add(ops.mul(x, factor), ops.sub(shift, ops.mul(middle, factor)))


def layer_norm_of_negative(x: Any) -> Any:
    """As Keras 3.15 spells it."""
    middle = mean(x)
    variance = mean(ops.squared_difference(x, middle))
    factor = ops.mul(ops.rsqrt(ops.add(variance, np.float32(1e-3))), GAMMA)
    return ops.add(ops.mul(x, factor), ops.add(ops.mul(ops.neg(middle), factor), BETA))


def spelled_softmax(x: Any, axis: int = -1) -> Any:
    """As jax.nn.softmax is traced."""
    powers = ops.exp(ops.sub(x, ops.reduce_max(x, ints(axis), keep_dims=True)))
    return ops.div(powers, ops.sum_(powers, ints(axis), keep_dims=True))


def softmax_less(x: Any, y: Any) -> Any:
    """Not less its own maximum."""
    powers = ops.exp(ops.sub(x, ops.reduce_max(y, ints(-1), keep_dims=True)))
    return ops.div(powers, ops.sum_(powers, ints(-1), keep_dims=True))


def softmax_and_powers(x: Any) -> Any:
    """The softmax and its numerator."""
    powers = ops.exp(ops.sub(x, ops.reduce_max(x, ints(-1), keep_dims=True)))
    return powers, ops.div(powers, ops.sum_(powers, ints(-1), keep_dims=True))


def spelled_log_softmax(x: Any, axis: int = -1) -> Any:
    """As jax.nn.log_softmax is traced."""
    below = ops.sub(x, ops.reduce_max(x, ints(axis), keep_dims=True))
    return ops.sub(below, ops.log(ops.sum_(ops.exp(below), ints(axis), keep_dims=True)))


L2 = [
    case("rsqrt", lambda x: ops.mul(x, ops.rsqrt(norm(x))), f32(B, 6), left="l2_normalization"),
    case("factor-first", lambda x: ops.mul(ops.rsqrt(norm(x)), x), f32(B, 6), left="l2_normalization"),
    case("divided", lambda x: ops.div(x, ops.sqrt(norm(x))), f32(B, 2, 6), left="l2_normalization"),
    case(
        "multiplied-by-itself",
        lambda x: ops.mul(x, ops.rsqrt(norm(x, power=lambda y: ops.mul(y, y)))),
        f32(B, 6),
        left="l2_normalization",
    ),
    case(
        "another-epsilon",
        lambda x: ops.mul(x, ops.rsqrt(norm(x, 1e-6))),
        f32(B, 6),
        left="square sum maximum rsqrt mul",
    ),
    case(
        "another-axis",
        lambda x: ops.mul(x, ops.rsqrt(norm(x, axis=1))),
        f32(B, 6, 2),
        left="square sum maximum rsqrt mul",
    ),
    case(
        "of-another-tensor",
        lambda x, y: ops.mul(x, ops.rsqrt(norm(y))),
        f32(B, 6),
        f32(B, 6),
        left="square sum maximum rsqrt mul",
    ),
    case(
        "the-norm-is-a-result",
        lambda x: (r := ops.rsqrt(norm(x)), ops.mul(x, r)),
        f32(B, 6),
        left="square sum maximum rsqrt mul",
    ),
    case(
        "large",
        lambda x: ops.mul(x, ops.rsqrt(norm(x))),
        f32(B, 300, 6),
        left="square sum maximum rsqrt mul",
    ),
    case("root-multiplied", lambda x: ops.mul(x, ops.sqrt(norm(x))), f32(B, 6), left="square sum maximum sqrt mul"),
]

SOFTMAX = [
    case("scaled", lambda x: ops.softmax(ops.mul(x, np.float32(0.5))), f32(B, 6), left="mul softmax"),
    case(
        "of-dense",
        lambda x: ops.softmax(ops.div(ops.fully_connected(x, floats(4, 6)), np.float32(2.5))),
        f32(B, 6),
        left="fully_connected softmax",
    ),
]

SPELLED_SOFTMAX = [
    case("softmax", spelled_softmax, f32(B, 2, 6), left="softmax"),
    case("another-axis", lambda x: spelled_softmax(x, 1), f32(B, 2, 6), left="reduce_max sub exp sum div"),
    case("less-another-maximum", softmax_less, f32(B, 6), f32(B, 6), left="reduce_max sub exp sum div"),
    case("the-powers-are-a-result", softmax_and_powers, f32(B, 6), left="reduce_max sub exp sum div"),
    case("log", spelled_log_softmax, f32(B, 6), left="log_softmax"),
    case("log-another-axis", lambda x: spelled_log_softmax(x, 0), f32(4, 6), left="reduce_max sub exp sum log sub"),
]

MEANS = [
    case("quotient", lambda x: ops.div(ops.sum_(x, ints(1)), np.float32(6)), f32(B, 6), left="mean"),
    case("factor", lambda x: ops.mul(ops.sum_(x, ints(1)), np.float32(1) / np.float32(6)), f32(B, 6), left="mean"),
    case("another-count", lambda x: ops.div(ops.sum_(x, ints(1)), np.float32(5)), f32(B, 6), left="sum div"),
    case("open-count", lambda x: ops.div(ops.sum_(x, ints(0)), np.float32(5)), f32(B, 6), left="sum div"),
]

REDUCED = [
    case("ones-in-front", lambda x: ops.mean(x, ints(0, 2), keep_dims=True), f32(1, B, 4), left="mean"),
    case("ones-only", lambda x: ops.sum_(x, ints(0, 1), keep_dims=True), f32(1, 1, B)),
    case("ones-behind", lambda x: ops.mean(x, ints(1, 2), keep_dims=True), f32(B, 4, 1), left="mean"),
]

LAYER_NORM = [
    case(
        "keras",
        layer_norm,
        f32(B, 4, 6),
        left="mean sub square mean add rsqrt mul mul add",
    ),
    case(
        "keras-3.15",
        layer_norm_of_negative,
        f32(B, 4, 6),
        left="mean sub square mean add rsqrt mul mul add",
    ),
    case(
        "before-dense",
        lambda x: ops.fully_connected(layer_norm(x), floats(4, 6), keep_num_dims=True),
        f32(B, 4, 6),
        left="mean sub square mean add rsqrt mul fully_connected",
    ),
    case(
        "of-images",
        layer_norm,
        f32(B, 4, 4, 6),
        left="mean sub square mean add rsqrt mul depthwise_conv_2d",
    ),
    case(
        "two-products", lambda x, y, s: ops.relu(ops.add(ops.mul(x, s), ops.mul(s, y))), *[f32(6)] * 3, left="add mul"
    ),
    case(
        "two-products-of-other-sizes",
        lambda x, y, s: ops.add(ops.mul(x, s), ops.mul(s, y)),
        *(f32(2, 1), f32(1), f32(6)),
        left="mul mul add",
    ),
    case("plus-negative", lambda x, y: ops.add(ops.neg(y), x), *[f32(6)] * 2, left="sub"),
    case("minus-negative", lambda x, y: ops.relu(ops.sub(x, ops.neg(y))), *[f32(6)] * 2, left="add"),
    case("negative-minus", lambda x, y: ops.sub(ops.neg(x), y), *[f32(6)] * 2, left="neg sub"),
    case(
        "variance-alone",
        lambda x: mean(ops.square(ops.sub(x, mean(x)))),
        f32(B, 6),
        left="mean squared_difference mean",
    ),
    case(
        "difference-of-others",
        lambda x, y: (ops.squared_difference(x, y), ops.sub(y, x)),
        f32(6),
        f32(6),
        left="squared_difference sub",
    ),
    case(
        "clamped-difference",
        lambda x, y: (ops.squared_difference(x, y), ops.relu(ops.sub(x, y))),
        f32(6),
        f32(6),
        left="squared_difference sub",
    ),
    case(
        "other-factors",
        lambda x, y, z: ops.add(ops.mul(x, y), ops.sub(BETA, ops.mul(z, ops.tanh(z)))),
        f32(6),
        f32(6),
        f32(6),
        left="mul tanh mul sub add",
    ),
    case(
        "the-products-are-results",
        lambda x, y, s: (p := ops.mul(x, s), ops.add(p, ops.sub(BETA, ops.mul(y, s)))),
        f32(6),
        f32(6),
        f32(6),
        left="mul mul sub add",
    ),
    case(
        "common-factor",
        lambda x, y, s: ops.add(ops.sub(BETA, ops.mul(s, y)), ops.mul(x, s)),
        f32(6),
        f32(6),
        f32(6),
        left="sub mul add",
    ),
]


@pytest.mark.parametrize("item", L2)
def test_l2(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", [*SOFTMAX, *SPELLED_SOFTMAX])
def test_softmax(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", MEANS)
def test_means(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", LAYER_NORM)
def test_layer_norm(item: Case) -> None:
    check(item, rtol=2e-6)  # the source cancels where this does not


@pytest.mark.parametrize("item", REDUCED)
def test_axes_of_one_in_front_are_not_reduced(item: Case) -> None:
    check(item)


def group_norm(x: Any) -> Any:
    """As Keras spells it on groups of channels: x * (r * g) - mean * (r * g)."""
    mean = ops.mean(x, ints(1, 3), keep_dims=True)
    variance = ops.mean(ops.square(ops.sub(x, mean)), ints(1, 3), keep_dims=True)
    factor = ops.mul(ops.rsqrt(ops.add(variance, np.float32(1e-3))), GROUPS)
    return ops.add(ops.mul(x, factor), ops.mul(ops.neg(mean), factor))


GROUPS = floats(1, 1, 3, 2)


def test_factors_of_groups_stay_small() -> None:
    left = ("mean", "sub", "square", "mean", "add", "rsqrt", "mul", "mul")
    check(Case("groups", group_norm, (f32(B, 5, 3, 2),), left), rtol=1e-5)  # sums of 10 terms
