"""PAD in front of convolutions and pools: where SAME says the same, and where it does not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, T, case, check, f32, floats
from tests.slow import every_other

KERNELS = {size: floats(2, size, size, 3) for size in (1, 3, 5, 7)}


def padded(x: Any, *sides: tuple[int, int]) -> Any:
    """Zeros above and below, left and right."""
    return ops.pad(x, np.array([(0, 0), *sides, (0, 0)], np.int32))


def convolved(x: Any, size: int, stride: int = 1, dilation: int = 1, padding: str = "VALID") -> Any:
    steps = {"stride_w": stride, "stride_h": stride, "dilation_w_factor": dilation, "dilation_h_factor": dilation}
    return ops.conv_2d(x, KERNELS[size], floats(2), padding=padding, **steps)


def depthwise(x: Any, size: int, stride: int) -> Any:
    weights = floats(1, size, size, 3)
    return ops.depthwise_conv_2d(
        x, weights, floats(3), padding="VALID", stride_w=stride, stride_h=stride, depth_multiplier=1
    )


def pooled(x: Any, size: int = 3, stride: int = 2) -> Any:
    return ops.max_pool_2d(x, padding="VALID", stride_w=stride, stride_h=stride, filter_width=size, filter_height=size)


def least(x: Any, *sides: tuple[int, int], value: float = -np.inf) -> Any:
    return ops.padv2(x, np.array([(0, 0), *sides, (0, 0)], np.int32), np.float32(value))


EVEN, ODD, OPEN = f32(B, 8, 8, 3), f32(B, 7, 7, 3), f32(2, B, T, 3)

ROWS = [
    case("stride-1", lambda x: convolved(padded(x, (1, 1), (1, 1)), 3), EVEN, left="conv_2d"),
    case("open-sizes", lambda x: convolved(padded(x, (2, 2), (2, 2)), 5), OPEN, left="conv_2d"),
    case("dilated", lambda x: convolved(padded(x, (2, 2), (2, 2)), 3, dilation=2), OPEN, left="conv_2d"),
    case("even-by-2", lambda x: convolved(padded(x, (0, 1), (0, 1)), 3, 2), EVEN, left="conv_2d"),
    case("odd-by-2", lambda x: convolved(padded(x, (1, 1), (1, 1)), 3, 2), ODD, left="conv_2d"),
    case("more-than-is-read", lambda x: convolved(padded(x, (0, 2), (0, 2)), 3, 2), EVEN, left="conv_2d"),
    case("depthwise", lambda x: depthwise(padded(x, (1, 2), (1, 2)), 5, 2), EVEN, left="depthwise_conv_2d"),
    case("twice", lambda x: convolved(padded(padded(x, (1, 1), (0, 0)), (0, 0), (1, 1)), 3), EVEN, left="conv_2d"),
    case(
        "read-by-two",
        lambda x: (y := padded(x, (1, 1), (1, 1)), convolved(y, 3), convolved(y, 3, 2))[1:],
        ODD,
        left="conv_2d conv_2d",
    ),
    case("pool-of-least", lambda x: pooled(least(x, (0, 1), (0, 1))), EVEN, left="max_pool_2d"),
    case("pool-behind-relu", lambda x: pooled(padded(ops.relu(x), (0, 1), (0, 1))), EVEN, left="relu max_pool_2d"),
    case(
        "pool-behind-a-clamp",
        lambda x: pooled(padded(ops.add(x, np.float32(1), fused_activation_function="RELU6"), (1, 1), (1, 1))),
        ODD,
        left="add max_pool_2d",
    ),
    case("both-sides-by-2", lambda x: convolved(padded(x, (1, 1), (1, 1)), 3, 2), EVEN, left="pad conv_2d"),
    case("resnet", lambda x: convolved(padded(x, (3, 3), (3, 3)), 7, 2), EVEN, left="pad conv_2d"),
    case("open-sizes-by-2", lambda x: convolved(padded(x, (0, 1), (0, 1)), 3, 2), OPEN, left="pad conv_2d"),
    case("causal", lambda x: convolved(padded(x, (2, 0), (1, 1)), 3), EVEN, left="pad conv_2d"),
    case("too-many", lambda x: convolved(padded(x, (2, 2), (2, 2)), 3), EVEN, left="pad conv_2d"),
    case("same-already", lambda x: convolved(padded(x, (1, 1), (1, 1)), 3, padding="SAME"), EVEN, left="pad conv_2d"),
    case(
        "channels",
        lambda x: convolved(ops.pad(x, np.array([(0, 0), (1, 1), (1, 1), (0, 1)], np.int32)), 3),
        f32(B, 8, 8, 2),
        left="pad conv_2d",
    ),
    case("ones-around", lambda x: convolved(least(x, (1, 1), (1, 1), value=1), 3), EVEN, left="padv2 conv_2d"),
    case("pool-of-zeros", lambda x: pooled(padded(x, (0, 1), (0, 1))), EVEN, left="pad max_pool_2d"),
    case("pool-both-sides", lambda x: pooled(padded(ops.relu(x), (1, 1), (1, 1))), EVEN, left="relu pad max_pool_2d"),
]


@pytest.mark.parametrize("item", every_other(ROWS))
def test_pad(item: Case) -> None:
    check(item, rtol=1e-5)  # sums of up to 147 terms
