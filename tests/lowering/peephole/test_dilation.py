"""A convolution between SPACE_TO_BATCH_ND and BATCH_TO_SPACE_ND: where it is a dilated one, and where it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import same
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.lowering.ops.image.blocks import lower_batch_to_space_nd, lower_space_to_batch_nd
from tests.lowering.peephole.rewriting import B, Case, T, case, check, compare, f32, floats, ints
from tests.slow import every_other

WINDOW, ROW, EACH = floats(5, 3, 3, 4), floats(5, 1, 3, 4), floats(1, 3, 2, 4)
Pairs = tuple[tuple[int, int], ...]


def convolved(x: Any, weights: Any = WINDOW, **options: Any) -> Any:
    settings = {"padding": "VALID", "stride_w": 1, "stride_h": 1, **options}
    return ops.conv_2d(x, weights, floats(5), **settings)


def depthwise(x: Any) -> Any:
    return ops.depthwise_conv_2d(x, EACH, floats(4), padding="VALID", stride_w=1, stride_h=1, depth_multiplier=1)


def parted(x: Any, between: Any, blocks: tuple[int, ...], paddings: Pairs, crops: Pairs, back: Any = None) -> Any:
    parts = ops.space_to_batch_nd(x, ints(*blocks), np.array(paddings, np.int32))
    return ops.batch_to_space_nd(between(parts), ints(*(back or blocks)), np.array(crops, np.int32))


def sequence(x: Any, paddings: Pairs, crops: Pairs, axis: int = 1, weights: Any = ROW) -> Any:
    def between(parts: Any) -> Any:
        row = convolved(ops.expand_dims(parts, axis), weights)
        return ops.squeeze(row, squeeze_dims=(axis,))

    return parted(x, between, (2,), paddings, crops)


IMAGE = f32(B, 8, 8, 4)
NONE: Pairs = ((0, 0), (0, 0))
KEPT = "space_to_batch_nd conv_2d batch_to_space_nd"

ROWS = [
    case("valid", lambda x: parted(x, convolved, (2, 2), NONE, NONE), IMAGE, left="conv_2d"),
    case("same", lambda x: parted(x, convolved, (2, 2), ((2, 2),) * 2, NONE), IMAGE, left="conv_2d"),
    case(
        "same-and-cropped", lambda x: parted(x, convolved, (3, 3), ((3, 4),) * 2, ((0, 1),) * 2), IMAGE, left="conv_2d"
    ),
    case("rates", lambda x: parted(x, convolved, (2, 1), NONE, NONE), IMAGE, left="conv_2d"),
    case("one-side", lambda x: parted(x, convolved, (2, 2), ((4, 0), (0, 2)), NONE), IMAGE, left="pad conv_2d"),
    case(
        "cropped-first",
        lambda x: parted(x, convolved, (2, 2), ((4, 0),) * 2, ((1, 0),) * 2),
        IMAGE,
        left="pad conv_2d",
    ),
    case("depthwise", lambda x: parted(x, depthwise, (2, 2), NONE, NONE), IMAGE, left="depthwise_conv_2d"),
    case(
        "activation", lambda x: parted(x, lambda y: ops.relu(convolved(y)), (2, 2), NONE, NONE), IMAGE, left="conv_2d"
    ),
    case("sequence", lambda x: sequence(x, ((0, 1),), ((0, 1),)), f32(B, 9, 4), left="expand_dims conv_2d squeeze"),
    case(
        "sequence-as-column",
        lambda x: sequence(x, ((2, 2),), ((0, 0),), axis=2, weights=ROW.swapaxes(1, 2)),
        f32(B, 8, 4),
        left="expand_dims conv_2d squeeze",
    ),
    case(
        "causal",
        lambda x: sequence(x, ((4, 1),), ((0, 1),)),
        f32(B, 9, 4),
        left="expand_dims pad conv_2d squeeze",
    ),
    case("crops-too-many", lambda x: parted(x, convolved, (2, 2), NONE, ((0, 1),) * 2), IMAGE, left=KEPT),
    case(
        "other-blocks",
        lambda x: parted(x, convolved, (2, 2), NONE, NONE, back=(4, 1)),
        f32(B, 12, 12, 4),
        left=KEPT,
    ),
    case(
        "strides",
        lambda x: parted(x, lambda y: convolved(y, stride_w=2, stride_h=2), (2, 2), NONE, NONE),
        f32(B, 12, 12, 4),
        left=KEPT,
    ),
    case("padded", lambda x: parted(x, lambda y: convolved(y, padding="SAME"), (2, 2), NONE, NONE), IMAGE, left=KEPT),
]


@pytest.mark.parametrize("item", every_other(ROWS))
def test_dilation(item: Case) -> None:
    check(item, rtol=1e-5)  # sums of up to 36 terms


@pytest.mark.parametrize("causal", [False, True])
def test_an_open_length_keeps_its_name(causal: bool) -> None:
    """TensorFlow pads to a multiple of the rate and crops again: both are computed from the length."""

    def model(x: Any) -> Any:
        padded = ops.pad(x, np.array([(0, 0), (4, 0), (0, 0)], np.int32)) if causal else x
        length = ops.strided_slice(ops.shape(padded), ints(1), ints(2), ints(1))
        extra = ops.floor_mod(ops.sub(ints(2), ops.floor_mod(length, ints(2))), ints(2))
        crops = ops.reshape(ops.concatenation(ints(0), extra, axis=0), [1, 2])
        sides = crops if causal else ops.add(crops, np.array([[2, 2]], np.int32))
        parts = lower_space_to_batch_nd(padded, ints(2), sides)
        row = ops.squeeze(convolved(ops.expand_dims(parts, 1), ROW), squeeze_dims=(1,))
        return lower_batch_to_space_nd(row, ints(2), crops)

    graph = trace_graph(model, [f32(B, T, 4)])
    assert same(graph.outputs[0].type.shape[1], T)
    assert "batch_to_space_nd" not in str(graph)
    plain = trace_graph(lambda x: dilated_row(x, causal), [f32(B, T, 4)])
    compare(plain, graph, rtol=1e-6)


def dilated_row(x: Any, causal: bool) -> Any:
    """The formula: y[t] is the sum over k of x[t + 2 * k - before] times w[k]."""
    before = 4 if causal else 2
    padded = ops.pad(x, np.array([(0, 0), (before, 4 - before), (0, 0)], np.int32))
    parts = [
        ops.strided_slice(padded, ints(0, 2 * k, 0), ints(0, 2 * k - 4, 0), ints(1, 1, 1), begin_mask=5, end_mask=end)
        for k, end in enumerate((5, 5, 7))
    ]
    terms = [ops.batch_matmul(part, np.ascontiguousarray(ROW[:, 0, k].T)) for k, part in enumerate(parts)]
    return ops.add(ops.add(ops.add(terms[0], terms[1]), terms[2]), floats(5))
