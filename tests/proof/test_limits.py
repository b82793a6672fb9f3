"""Each limit of a case distinction has its counterpart, or samples on both sides of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.proof.limits import limits_of
from jfuse.proof.prove import KnownOperands, prove
from tests.cells import BATCH, INPUTS, STEPS, UNITS, B, Loop, R, W, f32, gate, sums, update

ROW = f32(BATCH, 4)


def clipped(x: Array, limit: float) -> Array:
    return ops.minimum(ops.maximum(x, np.float32(-limit)), np.float32(limit))


def condition(body: Callable[..., Any], replacement: Callable[..., Any]) -> str | None:
    """Of the refusal; None where there is none."""
    try:
        prove(trace_graph(body, [ROW]), trace_graph(replacement, [ROW]))
    except NotFused as refusal:
        return refusal.condition
    return None


PAIRS: dict[str, tuple[Callable[[Array], Array], Callable[[Array], Array], str | None]] = {
    "a saturation at 100": (lambda x: ops.minimum(ops.relu(x), np.float32(100)), ops.relu, "not_equal"),
    "another one at 6": (
        lambda x: ops.add(ops.relu6(x), ops.minimum(x, np.float32(100))),
        lambda x: ops.add(ops.relu6(x), x),
        "not_equal",
    ),
    "at 1000": (lambda x: clipped(x, 1000), lambda x: ops.maximum(x, np.float32(-1000)), "not_equal"),
    "of a small part": (
        lambda x: ops.minimum(ops.mul(x, np.float32(0.01)), np.float32(50)),
        lambda x: ops.mul(ops.relu6(ops.mul(x, np.float32(0))), x),
        "not_equal",
    ),
    "never reached": (
        lambda x: ops.add(ops.minimum(ops.tanh(x), np.float32(2)), ops.relu6(x)),
        lambda x: ops.add(ops.tanh(x), ops.relu6(x)),
        "unseen_limit",
    ),
    "what f32 holds": (lambda x: ops.relu6(ops.minimum(x, np.float32(3e38))), ops.relu6, None),
    "spelled otherwise": (lambda x: ops.minimum(ops.relu(x), np.float32(6)), ops.relu6, None),
    "at 6 of a multiple": (
        lambda x: ops.mul(ops.minimum(ops.relu(ops.mul(x, np.float32(0.5))), np.float32(3)), np.float32(2)),
        ops.relu6,
        None,
    ),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_limits(pair: str) -> None:
    body, replacement, wanted = PAIRS[pair]
    assert condition(body, replacement) == wanted


def with_clips(cell: float, output: float) -> Any:
    """An LSTM whose c and h are clipped."""

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_c = clipped(update([i, f, g, o], c)[1], cell)
        new_h = clipped(ops.mul(ops.logistic(o), ops.tanh(new_c)), output)
        return new_h, new_c, new_h

    return Loop(step).graph()


def fused(**options: Any) -> Any:
    w, r, b = ([np.ascontiguousarray(gate(a, k).T) for k in range(4)] for a in (W, R, B))
    unit = np.eye(UNITS, dtype=np.float32)

    def call(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        y, last_h, last_c = ops.unidirectional_sequence_lstm(
            x, *w, *r, None, None, None, *b, unit, None, h, c, time_major=True, **options
        )
        return last_h, last_c, y

    return trace_graph(call, [f32(BATCH, UNITS), f32(BATCH, UNITS), f32(STEPS, BATCH, INPUTS)])


ZERO = KnownOperands(held={0: np.zeros((), np.float32), 1: np.zeros((), np.float32)})
CLIPS = {"larger": (5.0, 0.9, 10.0, 0.9), "smaller": (10.0, 0.9, 3.0, 0.9), "swapped": (0.9, 10.0, 10.0, 0.9)}
CLIPS |= {"a hundred": (100.0, 0.9, 1000.0, 0.9), "none in the source": (100.0, 0.9, 0.0, 0.9)}


@pytest.mark.parametrize("clips", CLIPS)
def test_clips_that_differ(clips: str) -> None:
    cell, output, cell_clip, proj_clip = CLIPS[clips]
    with pytest.raises(NotFused):
        prove(with_clips(cell, output), fused(cell_clip=cell_clip, proj_clip=proj_clip), ZERO)


def test_clips_that_agree() -> None:
    assert prove(with_clips(100.0, 0.9), fused(cell_clip=100.0, proj_clip=0.9), ZERO).error < 1e-9


def test_limits_of_a_body() -> None:
    assert limits_of(with_clips(5.0, 0.9)) == {5.0, float(np.float32(0.9))}
