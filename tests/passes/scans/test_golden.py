"""What each pass over loops does to a small graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph, Program
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.options import Forms
from tests.conftest import Golden
from tests.passes.before_after import before_and_after

B = symbol("B")
KERNEL = np.array([[0.5, 0.25], [-0.5, 1]], np.float32)


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def scanned(step: Callable[..., Any], *states: TensorType, row: TensorType, after: Callable[..., Any]) -> Graph:
    """A scan over four rows; `after` takes its final states and its sequences."""
    body = trace_graph(step, [*states, row], "step")

    def call(*args: Any) -> Any:
        return after(*ops.scan(list(args), [body], consts=0, carries=len(states), length=4, reverse=False))

    return trace_graph(call, [*states, TensorType((4, *row.shape), row.dtype)])


def tf_while() -> Program:
    def call(x: Any) -> Any:
        return tf.scan(lambda h, x: tf.tanh(h + x), x, tf.zeros([2]))

    return jfuse.load(tf.function(call, input_signature=[tf.TensorSpec([4, 2], tf.float32)])).program


def in_16_bits() -> Graph:
    row = TensorType((2,), DType.f16)
    return scanned(lambda h, x: ((n := ops.tanh(ops.add(h, x))), n), row, row=row, after=lambda h, hs: hs)


def written_out() -> Graph:
    def call(x: Any) -> Any:
        h = np.zeros((2, 2), np.float32)
        for row in ops.unpack(x, axis=1):
            h = ops.tanh(ops.add(ops.fully_connected(h, KERNEL, None), row))
        return h

    return trace_graph(call, [f32(2, 6, 2)])


def last_of_sequence() -> Graph:
    def step(h: Any, x: Any) -> Any:
        n = ops.tanh(ops.add(h, x))
        return n, n

    return scanned(step, f32(B, 2), row=f32(B, 2), after=lambda h, hs: ops.gather(hs, np.int32(3), axis=0))


def packed_state() -> Graph:
    def step(state: Any, x: Any) -> Any:
        h, c = ops.split(1, state, num_splits=2)
        c = ops.add(c, x)
        return ops.concatenation(ops.mul(h, c), c, axis=1), c

    return scanned(step, f32(B, 4), row=f32(B, 2), after=lambda state, cs: (state, cs))


def projected_before() -> Graph:
    def step(h: Any, x: Any) -> Any:
        n = ops.tanh(ops.add(ops.fully_connected(h, KERNEL, None), x))
        return n, n

    body = trace_graph(step, [f32(2, 2), f32(2, 2)], "step")

    def call(h: Any, x: Any) -> Any:
        rows = ops.transpose(ops.fully_connected(x, KERNEL[:, :1], KERNEL[0], keep_num_dims=True), (1, 0, 2))
        return ops.scan([h, rows], [body], consts=0, carries=1, length=4, reverse=False)

    return trace_graph(call, [f32(2, 2), f32(2, 4, 1)])


def two_recurrences() -> Graph:
    def step(g: Any, h: Any, x: Any) -> Any:
        g = ops.tanh(ops.add(g, x))
        h = ops.tanh(ops.add(h, ops.fully_connected(g, KERNEL, None)))
        return g, h, h

    return scanned(step, f32(B, 2), f32(B, 2), row=f32(B, 2), after=lambda g, h, hs: hs)


EXAMPLES: dict[str, tuple[Callable[[], Graph | Program], Context]] = {
    "while_to_scan": (tf_while, Context()),
    "promote_loops": (in_16_bits, Context()),
    "reroll": (written_out, Context()),
    "last_steps": (last_of_sequence, Context()),
    "unpack_states": (packed_state, Context()),
    "projections_inside": (projected_before, Context()),
    "split_scans": (two_recurrences, Context()),
    "scan_to_loops": (last_of_sequence, Context(forms=Forms(loop="while"))),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_before_and_after(name: str, golden: Golden) -> None:
    make, ctx = EXAMPLES[name]
    golden.check(before_and_after(name, make(), ctx))
