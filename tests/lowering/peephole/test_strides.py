"""Slices of every n-th pixel of a convolution: where they are its strides, and where they stay."""

from __future__ import annotations

from typing import Any

import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, T, case, check, f32, floats, ints
from tests.slow import every_other

WEIGHTS, EACH = floats(5, 3, 3, 4), floats(1, 3, 3, 4)


def convolved(x: Any, padding: str = "SAME", stride: int = 1, dilation: int = 1) -> Any:
    steps = {"stride_w": stride, "stride_h": stride, "dilation_w_factor": dilation, "dilation_h_factor": dilation}
    return ops.conv_2d(x, WEIGHTS, floats(5), padding=padding, **steps)


def depthwise(x: Any) -> Any:
    steps = {"stride_w": 1, "stride_h": 1, "dilation_w_factor": 2, "dilation_h_factor": 2}
    return ops.depthwise_conv_2d(x, EACH, floats(4), padding="SAME", depth_multiplier=1, **steps)


def every(x: Any, *strides: int, begin: int = 0, end_mask: int = 15) -> Any:
    first = ints(0, begin, 0, 0)
    return ops.strided_slice(x, first, ints(0, 4, 0, 0), ints(*strides), begin_mask=13, end_mask=end_mask)


ODD, EVEN, OPEN = f32(B, 9, 9, 4), f32(B, 8, 8, 4), f32(2, B, T, 4)

ROWS = [
    case("valid", lambda x: every(convolved(x, "VALID"), 1, 2, 2, 1), EVEN, left="conv_2d"),
    case("same-odd", lambda x: every(convolved(x), 1, 2, 2, 1), ODD, left="conv_2d"),
    case("same-even", lambda x: every(convolved(x), 1, 2, 2, 1), EVEN, left="pad conv_2d"),
    case("same-open", lambda x: every(convolved(x), 1, 2, 2, 1), OPEN, left="pad conv_2d"),
    case("one-axis", lambda x: every(convolved(x, "VALID"), 1, 1, 3, 1), EVEN, left="conv_2d"),
    case("dilated", lambda x: every(depthwise(x), 1, 2, 2, 1), ODD, left="depthwise_conv_2d"),
    case("activation", lambda x: every(ops.relu(convolved(x)), 1, 2, 2, 1), ODD, left="conv_2d"),
    case("strides-already", lambda x: every(convolved(x, stride=2), 1, 2, 2, 1), ODD, left="conv_2d strided_slice"),
    case("channels", lambda x: every(convolved(x), 1, 1, 1, 2), ODD, left="conv_2d strided_slice"),
    case("later", lambda x: every(convolved(x), 1, 2, 2, 1, begin=1), ODD, left="conv_2d strided_slice"),
    case("until", lambda x: every(convolved(x), 1, 2, 2, 1, end_mask=13), ODD, left="conv_2d strided_slice"),
    case("two-readers", lambda x: (y := convolved(x), every(y, 1, 2, 2, 1)), ODD, left="conv_2d strided_slice"),
]


@pytest.mark.parametrize("item", every_other(ROWS))
def test_strides(item: Case) -> None:
    check(item, rtol=1e-5)  # sums of up to 36 terms
