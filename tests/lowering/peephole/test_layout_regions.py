"""Channels-first networks: no transposes are left inside, and none are added where they gain nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.lowering.ops.math.elementwise import lower_bias_add
from jfuse.lowering.ops.nn.conv import lower_conv_2d
from jfuse.passes.context import Context
from jfuse.passes.simplify.simplify import simplify
from tests.lowering.peephole.rewriting import B, Case, T, case, check, f32, floats, ints

TO_FIRST, TO_LAST = ints(0, 3, 1, 2), ints(0, 2, 3, 1)
IMAGE = f32(B, 4, 6, 6)
PADDINGS = np.array([(0, 0), (0, 1), (2, 0), (0, 3)], np.int32)


def convolved(x: Any, outputs: int = 4, strides: int = 1, bias: bool = True) -> Any:
    """As TensorFlow's rule spells it for channels-first images."""
    kernel = floats(3, 3, int(x.shape[1]), outputs)
    y = lower_conv_2d(x, kernel, strides=(1, 1, strides, strides), padding="SAME", data_format="NCHW")
    return lower_bias_add(y, floats(outputs), data_format="NCHW") if bias else y


def normed(x: Any) -> Any:
    channels = int(x.shape[1])
    scale, shift = floats(channels, 1, 1) + 3, floats(1, channels, 1, 1)
    return ops.add(ops.mul(x, scale), shift)


def residual(x: Any) -> Any:
    """Two convolutions around which x goes."""
    y = ops.relu(normed(convolved(x)))
    return ops.relu(ops.add(x, normed(convolved(y))))


def gated(x: Any) -> Any:
    """A factor for each channel, computed from what all pixels have in common."""
    mean = ops.reshape(ops.mean(x, ints(2, 3)), ints(-1, 4))
    gate = ops.logistic(ops.fully_connected(mean, floats(4, 4), floats(4)))
    return ops.mul(x, ops.reshape(gate, ints(-1, 4, 1, 1)))


def squeezed(x: Any) -> Any:
    """A factor for each channel, by convolutions of one pixel: their TRANSPOSEs only move sizes of 1."""
    y = convolved(ops.mean(x, ints(2, 3), keep_dims=True))
    return ops.mul(ops.logistic(normed(convolved(ops.relu(y)))), x)


def shuffled(x: Any, *parts: int, order: Any) -> Any:
    """Channels in another order, as groups are mixed."""
    moved = ops.transpose(ops.reshape(x, ints(-1, *parts, 6, 6)), order)
    return ops.reshape(moved, ints(-1, 4, 6, 6))


def deep(x: Any) -> Any:
    for _ in range(30):
        x = residual(x)
    return ops.mean(x, ints(2, 3))


INSIDE = [
    case("convolution", lambda x: ops.relu(normed(convolved(x))), IMAGE, left="transpose conv_2d transpose"),
    case("two", lambda x: convolved(ops.tanh(convolved(x))), IMAGE, left="transpose conv_2d tanh conv_2d transpose"),
    case(
        "residual",
        lambda x: residual(residual(convolved(x))),
        IMAGE,
        left="transpose conv_2d conv_2d conv_2d add conv_2d conv_2d add transpose",
    ),
    case(
        "pooled",
        lambda x: ops.mean(ops.exp(convolved(x)), ints(2, 3)),
        IMAGE,
        left="transpose conv_2d exp mean",
    ),
    case(
        "pooled-with-ones",
        lambda x: convolved(ops.mean(convolved(x), ints(-1, -2), keep_dims=True)),
        IMAGE,
        left="transpose conv_2d mean conv_2d reshape",
    ),
    case(
        "gated",
        lambda x: convolved(gated(convolved(x))),
        IMAGE,
        left="transpose conv_2d mean fully_connected logistic reshape mul conv_2d transpose",
    ),
    case(
        "squeezed",
        lambda x: convolved(squeezed(convolved(x))),
        f32(1, 4, 6, 6),
        left="transpose conv_2d mean conv_2d conv_2d logistic mul conv_2d transpose",
    ),
    case(
        "shuffled",
        lambda x: convolved(shuffled(ops.tanh(convolved(x)), 2, 2, order=ints(0, 2, 1, 3, 4))),
        IMAGE,
        left="transpose conv_2d tanh reshape transpose reshape conv_2d transpose",
    ),
    case(
        "joined",
        lambda x: (y := convolved(x), convolved(ops.concatenation(y, ops.tanh(y), axis=1)))[1],
        IMAGE,
        left="transpose conv_2d tanh concatenation conv_2d transpose",
    ),
    case(
        "halves",
        lambda x: (
            halves := ops.split(np.int32(1), convolved(x), num_splits=2),
            convolved(ops.concatenation(halves[0], ops.tanh(halves[1]), axis=1)),
        )[1],
        IMAGE,
        left="transpose conv_2d split tanh concatenation conv_2d transpose",
    ),
    case(
        "cut",
        lambda x: (
            y := ops.strided_slice(
                convolved(x), ints(0, 1, 0, 2), ints(0, 3, 5, -1), ints(1, 1, 2, 1), begin_mask=5, end_mask=1
            ),
            convolved(ops.tanh(y)),
        )[1],
        IMAGE,
        left="transpose conv_2d strided_slice tanh conv_2d transpose",
    ),
    case(
        "pixels-as-a-sequence",
        lambda x: ops.tanh(ops.transpose(ops.reshape(convolved(x), ints(-1, 4, 36)), ints(0, 2, 1))),
        IMAGE,
        left="transpose conv_2d reshape tanh",
    ),
    case(
        "padded",
        lambda x: (y := ops.tanh(convolved(x)), convolved(ops.pad(y, PADDINGS)))[1],
        IMAGE,
        left="transpose conv_2d tanh pad conv_2d transpose",
    ),
    case(
        "flattened",
        lambda x: ops.fully_connected(ops.reshape(ops.tanh(convolved(x)), ints(-1, 144)), floats(3, 144)),
        IMAGE,
        left="transpose conv_2d tanh fully_connected",
    ),
    case(
        "broadcast",
        lambda x: ops.add(
            ops.transpose(ops.sin(x), TO_LAST),
            ops.transpose(ops.sum_(ops.cos(x), ints(2), keep_dims=True), TO_LAST),
        ),
        IMAGE,
        left="sin cos sum add transpose",
    ),
    case(
        "result-on-the-way",
        lambda x: (y := ops.tanh(convolved(x)), convolved(y)),
        IMAGE,
        left="transpose conv_2d tanh transpose conv_2d transpose",
    ),
]

OTHERS = [
    case(
        "shuffled-across-axes",
        lambda x: shuffled(convolved(x), 2, 2, order=ints(0, 3, 1, 2, 4)),
        IMAGE,
        left="transpose conv_2d transpose reshape transpose reshape",
    ),
    case(
        "ones-for-elements",
        lambda x, y, z: ops.mul(ops.mul(ops.transpose(x, TO_FIRST), ops.transpose(y, TO_FIRST)), z),
        *(f32(1, 1, 1, 4), f32(1, 1, 1, 4), f32(1, 4, 6, 6)),
        left="reshape reshape mul mul",
    ),
    case("nothing-gained", lambda x: ops.tanh(ops.transpose(x, TO_LAST)), IMAGE, left="transpose tanh"),
    case(
        "two-layouts-meet",
        lambda x, y: ops.add(ops.transpose(x, TO_LAST), y),
        IMAGE,
        f32(B, 6, 6, 4),
        left="transpose add",
    ),
    case(
        "broadcast-from-a-vector",
        lambda x, y: ops.transpose(ops.add(ops.transpose(x, TO_LAST), y), TO_FIRST),
        IMAGE,
        f32(4),
        left="transpose add transpose",
    ),
    case(
        "reduction-that-turns",
        lambda x: ops.mean(ops.tanh(ops.transpose(x, TO_LAST)), ints(2)),
        IMAGE,
        left="transpose tanh mean",
    ),
    case(
        "rows-chosen",
        lambda x: ops.transpose(ops.select(np.array([True, False]), *[ops.transpose(x, TO_LAST)] * 2), TO_FIRST),
        f32(2, 4, 6, 6),
        left="transpose select transpose",
    ),
    case(
        "flattened-with-the-batch",
        lambda x: ops.fully_connected(ops.reshape(ops.transpose(x, ints(1, 0, 2)), ints(-1, 4)), floats(3, 4)),
        f32(B, 2, 4),
        left="transpose fully_connected",
    ),
]


@pytest.mark.parametrize("item", INSIDE)
def test_no_transpose_is_left_inside(item: Case) -> None:
    check(item, rtol=1e-5)  # sums of up to 144 terms


@pytest.mark.parametrize("item", OTHERS)
def test_transposes_stay(item: Case) -> None:
    check(item)


def test_a_deep_network_is_simplified_in_a_few_sweeps() -> None:
    """Residual connections hold transposes in place, one by one: 30 of them need no more than one does."""
    graph = simplify(trace_graph(deep, [IMAGE]), Context())
    names = [eqn.op.name for eqn in graph.eqns]
    assert names.count("transpose") == 1
    assert names.count("conv_2d") == 60


SEQUENCE = f32(B, T, 4)
PLAIN: dict[str, Any] = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
STEPS_BEFORE = np.array([(0, 0), (2, 0), (0, 0)], np.int32)


def over_steps(x: Any) -> Any:
    """A convolution over a sequence."""
    y = ops.conv_2d(ops.expand_dims(x, np.int32(1)), floats(4, 1, 3, int(x.shape[-1])), **PLAIN)
    return ops.squeeze(y, squeeze_dims=(1,))


def steps(name: str, function: Any, left: str) -> Any:
    """A row between two convolutions over a sequence."""
    between = f"expand_dims conv_2d {left} conv_2d squeeze"
    return case(name, lambda x: over_steps(function(over_steps(x))), SEQUENCE, left=between)


SEQUENCES = [
    steps("activated", ops.tanh, left="tanh"),
    steps("residual", lambda x: ops.add(x, ops.tanh(over_steps(x))), left="conv_2d tanh add"),
    steps("padded", lambda x: ops.pad(ops.exp(x), STEPS_BEFORE), left="exp pad"),
    steps("joined", lambda x: ops.concatenation(x, ops.exp(x), axis=-1), left="exp concatenation"),
    steps("normed", lambda x: ops.sub(x, ops.mean(x, ints(2), keep_dims=True)), left="mean sub"),
    steps("dense", lambda x: ops.fully_connected(x, floats(4, 4), None, keep_num_dims=True), left="fully_connected"),
    steps("softmax", ops.softmax, left="softmax"),
    steps("with-a-vector", lambda x: ops.maximum(x, floats(4)), left="maximum"),
    case("mean", lambda x: ops.mean(ops.tanh(over_steps(x)), ints(1)), SEQUENCE, left="expand_dims conv_2d tanh mean"),
    case(
        "power",
        lambda x: ops.squeeze(
            ops.add(*(ops.square(ops.expand_dims(y, np.int32(1))) for y in (x, ops.sin(x)))), squeeze_dims=(1,)
        ),
        SEQUENCE,
        left="sin square square add",
    ),
]

STAY = [
    case(
        "result-on-the-way",
        lambda x: (y := ops.tanh(over_steps(x)), over_steps(y)),
        SEQUENCE,
        left="expand_dims conv_2d tanh squeeze conv_2d squeeze",
    ),
    case("beside-another", lambda x: ops.add(x, over_steps(x)), SEQUENCE, left="expand_dims conv_2d squeeze add"),
    case(
        "widened-by-broadcasting",
        lambda x, y: ops.squeeze(
            ops.mean(ops.add(ops.expand_dims(x, np.int32(1)), y), ints(1), keep_dims=True), squeeze_dims=(1,)
        ),
        f32(B, 5, 4),
        f32(B, 2, 5, 4),
        left="expand_dims add mean",
    ),
]


@pytest.mark.parametrize("item", SEQUENCES)
def test_sequences_stay_images_between_convolutions(item: Case) -> None:
    check(item, rtol=1e-5)  # sums of up to 48 terms


@pytest.mark.parametrize("item", STAY)
def test_sequences_are_sequences_where_nothing_is_gained(item: Case) -> None:
    check(item, rtol=1e-5)


def test_a_region_that_reads_itself_turned_settles() -> None:
    """A rank-one update x - r * r' reads a row and the same row as a column, which no layout saves."""

    def reduced(x: Any) -> Any:
        for i in range(3):
            row = ops.strided_slice(x, [i, 0], [i + 1, 4], [1, 1])
            x = ops.sub(x, ops.mul(row, ops.transpose(row, ints(1, 0))))
        return ops.add(x, ops.transpose(x, ints(1, 0)))

    ctx = Context()
    graph = simplify(trace_graph(reduced, [f32(4, 4)]), ctx)
    assert not ctx.report.notes
    assert [e.op.name for e in graph.eqns].count("reshape") == 3
