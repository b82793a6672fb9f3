"""Sizes in operators whose kernels LiteRT runs when it allocates."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from jfuse.lowering.rule_tools.shape_tensors import size_of
from tests.lowering.peephole.rewriting import B, Case, T, case, check, f32, i32


def of_pairs(x: Any) -> Any:
    return ops.reshape(x, ops.pack(size_of(x, 0), size_of(x, 1), np.int32(2), np.int32(-1)))


def out_of_order(x: Any) -> Any:
    return ops.fill(ops.pack(size_of(x, 1), size_of(x, 0)), np.float32(1))


def multiplied(x: Any) -> Any:
    return ops.fill(ops.pack(ops.mul(size_of(x, 0), size_of(x, 1)), size_of(x, 1)), np.float32(1))


ROWS = [
    case("parts", of_pairs, f32(B, T, 4), left="shape strided_slice concatenation reshape"),
    case(
        "whole", lambda x: ops.fill(ops.pack(size_of(x, 0), size_of(x, 1)), np.float32(1)), f32(B, T), left="shape fill"
    ),
    case(
        "product",
        multiplied,
        f32(B, T),
        left="shape strided_slice strided_slice mul reshape strided_slice concatenation fill",
    ),
    case("order", out_of_order, f32(B, T), left="shape strided_slice strided_slice concatenation fill"),
]


@pytest.mark.parametrize("item", ROWS)
def test_shapes(item: Case) -> None:
    check(item)


def of_renamed(x: Any) -> Any:
    size = ops.squeeze(
        ops.mul(ops.strided_slice(ops.shape(x), [0], [1], [1]), np.array([2], np.int32)), squeeze_dims=(0,)
    )
    return ops.add(size, np.int32(1)), ops.expand_dims(size, np.int32(0))


@pytest.mark.parametrize(
    "item",
    [
        case("values", lambda x: ops.pack(ops.reduce_max(x, [0]), np.int32(3)), i32(4), left="reduce_max pack"),
        case(
            "not-then",
            lambda x: ops.pack(ops.add(size_of(x, 0), np.int32(1))),
            i32(B),
            left="shape reshape add pack",
        ),
        case("renamed", of_renamed, i32(B), left="shape mul reshape add"),
    ],
)
def test_others(item: Case) -> None:
    check(item)
