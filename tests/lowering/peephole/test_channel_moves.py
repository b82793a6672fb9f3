"""Biases, scales and activations behind what moves pixels: where a product takes them in, and where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, case, check, f32, floats, ints

WEIGHTS, VECTOR = floats(8, 1, 1, 3), floats(2)
IMAGE = f32(B, 4, 3, 3)


def convolved(x: Any) -> Any:
    return ops.conv_2d(x, WEIGHTS, floats(8), padding="VALID", stride_w=1, stride_h=1)


def enlarged(x: Any) -> Any:
    return ops.depth_to_space(convolved(x), block_size=2)


def cropped(x: Any) -> Any:
    return ops.strided_slice(enlarged(x), ints(0, 1, 0, 0), ints(0, 0, -1, 0), ints(1, 1, 1, 1), end_mask=11)


def row(x: Any) -> Any:
    return ops.squeeze(convolved(ops.expand_dims(x, 1)), squeeze_dims=(1,))


def pairs(x: Any) -> Any:
    """Each element of the result is followed by its neighbour's."""
    return ops.reshape(row(x), [-1, 16, 2])


def first_channels(x: Any) -> Any:
    return ops.strided_slice(convolved(x), ints(0, 0, 0, 0), ints(0, 0, 0, 2), ints(1, 1, 1, 1), end_mask=7)


def turned(x: Any) -> Any:
    whole = ints(0, 0, 0, 0)
    return ops.strided_slice(enlarged(x), whole, whole, ints(1, 1, 1, -1), begin_mask=15, end_mask=15)


def pixels(x: Any, perm: tuple[int, ...]) -> Any:
    """Four of each, turned."""
    return ops.transpose(ops.reshape(convolved(x), [-1, 4, 3, 4, 2]), ints(*perm))


SEQUENCE = f32(B, 4, 3)

ROWS = [
    case("bias", lambda x: ops.add(enlarged(x), VECTOR), IMAGE, left="conv_2d depth_to_space"),
    case("difference", lambda x: ops.sub(VECTOR, enlarged(x)), IMAGE, left="conv_2d depth_to_space"),
    case(
        "norm",
        lambda x: ops.relu(ops.add(ops.mul(enlarged(x), floats(2)), VECTOR)),
        IMAGE,
        left="conv_2d depth_to_space",
    ),
    case("number", lambda x: ops.mul(enlarged(x), np.float32(3)), IMAGE, left="conv_2d depth_to_space"),
    case("activation", lambda x: ops.relu6(enlarged(x)), IMAGE, left="conv_2d depth_to_space"),
    case("crop", lambda x: ops.relu(ops.add(cropped(x), VECTOR)), IMAGE, left="conv_2d depth_to_space strided_slice"),
    case("sequence", lambda x: ops.relu(ops.add(row(x), floats(8))), SEQUENCE, left="expand_dims conv_2d squeeze"),
    case("pairs", lambda x: ops.add(pairs(x), VECTOR), SEQUENCE, left="expand_dims conv_2d reshape"),
    case(
        "turned-pixels",
        lambda x: ops.relu(ops.add(pixels(x, (0, 1, 3, 2, 4)), VECTOR)),
        IMAGE,
        left="conv_2d reshape transpose",
    ),
    case(
        "turned-channels",
        lambda x: ops.add(pixels(x, (0, 1, 2, 4, 3)), floats(4)),
        IMAGE,
        left="conv_2d reshape transpose add",
    ),
    case("two-readers", lambda x: (y := enlarged(x), ops.add(y, VECTOR)), IMAGE, left="conv_2d depth_to_space add"),
    case(
        "another-axis",
        lambda x: ops.add(enlarged(x), floats(6, 1)),
        IMAGE,
        left="conv_2d depth_to_space add",
    ),
    case("some-channels", lambda x: ops.add(first_channels(x), VECTOR), IMAGE, left="conv_2d strided_slice add"),
    case("turned", lambda x: ops.add(turned(x), VECTOR), IMAGE, left="conv_2d depth_to_space reverse_v2 add"),
    case("not-clamped", lambda x: ops.tanh(enlarged(x)), IMAGE, left="conv_2d depth_to_space tanh"),
    case(
        "no-product",
        lambda x: ops.add(ops.depth_to_space(x, block_size=2), VECTOR),
        f32(B, 4, 3, 8),
        left="depth_to_space add",
    ),
]


@pytest.mark.parametrize("item", ROWS)
def test_moves(item: Case) -> None:
    check(item)
