"""Tensors with one value everywhere, and operands that are broadcast anyway."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, case, check, f32, ints


def ones(x: Any) -> Any:
    return ops.add(ops.zeros_like(x), np.float32(1))


def counts(x: Any) -> Any:
    """How many elements each row of x has, as weights of moments are summed up."""
    return ops.sum_(ops.reshape(ones(x), ints(-1, 6, 2)), ints(1, 2), keep_dims=True)


def mean(x: Any) -> Any:
    """As tf.nn.weighted_moments computes it, nothing where there are no weights."""
    y, count = ops.reshape(x, ints(-1, 6, 2)), counts(x)
    quotient = ops.div(ops.sum_(y, ints(1, 2), keep_dims=True), count)
    return ops.select_v2(ops.equal(count, np.float32(0)), np.float32(0), quotient)


UNIFORM = [
    case("weights", lambda x: ops.mul(ones(x), x), f32(B, 4)),
    case("weighted-mean", mean, f32(B, 12), left="reshape mean"),
    case(
        "thirds",
        lambda x: ops.sub(x, ops.sum_(ops.div(ones(x), np.float32(3)), ints(1), keep_dims=True)),
        f32(B, 2),
        left="zeros_like add div sum sub",
    ),
    case("alone", ones, f32(B, 4), left="zeros_like add"),
    case("broadcast", lambda x, y: ops.add(ones(x), y), f32(B, 4), f32(4), left="zeros_like add add"),
]

AXES = [
    case("leading", lambda x, y: ops.add(x, ops.expand_dims(y, np.int32(0))), f32(5, B, 4), f32(B, 4), left="add"),
    case("reshaped", lambda x, y: ops.mul(ops.reshape(y, ints(1, 3, 4)), x), f32(B, 3, 4), f32(3, 4), left="mul"),
    case(
        "not-first",
        lambda x, y: ops.add(x, ops.expand_dims(y, np.int32(1))),
        f32(B, 3, 4),
        f32(B, 4),
        left="expand_dims add",
    ),
    case(
        "both",
        lambda x, y: ops.add(ops.reshape(x, ints(1, 4)), ops.reshape(y, ints(1, 4))),
        f32(4),
        f32(4),
        left="add expand_dims",
    ),
]


@pytest.mark.parametrize("item", UNIFORM)
def test_uniform_operands_are_scalars(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("item", AXES)
def test_operands_need_no_leading_axes(item: Case) -> None:
    check(item)
