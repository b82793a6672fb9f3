"""Loops over 16-bit floats compute in f32, operators without a 16-bit kernel too; nothing is narrowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.model import Runner
from jfuse.passes.context import Context
from jfuse.passes.looping.loops import loops
from jfuse.passes.widen import widen, widen_loops
from jfuse.verification.measure import relative_error
from tests.frontends.against_tensorflow import spec

ROUNDING = {DType.f16: 2**-9, DType.bf16: 2**-6}  # a few roundings of half a step each
NARROW = [DType.f16, DType.bf16]


def narrow_loop(dtype: Any) -> Graph:
    """A recurrence over x f32[5,2,3] in 16 bits, with a product that is computed in f32 on the way."""
    kernel = np.random.default_rng(0).normal(size=(3, 3)).astype(np.float32)

    def call(x: Any) -> Any:
        narrow = tf.cast(x, dtype)

        def step(t: Any, h: Any) -> Any:
            wide = tf.cast(h, tf.float32) @ kernel
            return t + 1, tf.tanh(tf.cast(wide, dtype) * 0.5 + narrow[t])

        return tf.while_loop(lambda t, _: t < 5, step, (0, tf.zeros([2, 3], dtype)))[1]

    function = tf.function(call, input_signature=[spec(5, 2, 3)], autograph=False)
    return loops(jfuse.load(function).signature().graph, Context())


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_loops_compute_in_f32(dtype: Any) -> None:
    before, ctx = narrow_loop(dtype), Context()
    after = widen_loops(before, ctx)
    check_graph(after)
    (scan,) = [e for e in all_eqns(after) if e.op.name == "scan"]
    types = {a.type.dtype for e in all_eqns(scan.bodies[0]) for a in (*e.inputs, *e.outputs) if a is not None}
    assert types.isdisjoint(NARROW)
    assert after.outputs[0].type == before.outputs[0].type
    assert ctx.report.notes == ["the loop 'while (StatelessWhile)' computes in f32 instead of 16 bits"]
    x = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    ours, theirs = (np.asarray(Runner(g)([x])[0], np.float32) for g in (after, before))
    assert relative_error(ours, theirs) <= ROUNDING[before.outputs[0].type.dtype]


def test_loops_in_f32_stay() -> None:
    graph, ctx = narrow_loop(tf.float32), Context()
    assert widen_loops(graph, ctx) is graph
    assert ctx.report.notes == []


@pytest.mark.parametrize(
    ("function", "dtype", "names"),
    [
        (lambda x: ops.add(x, x), DType.bf16, ["cast", "add", "cast"]),
        (lambda x: ops.pack(x, x), DType.f16, ["cast", "pack", "cast"]),
        (lambda x: ops.add(x, x), DType.f16, ["add"]),
        (lambda x: ops.transpose(x, (1, 0)), DType.bf16, ["transpose"]),
    ],
)
def test_operators_without_a_kernel(function: Callable[[Any], Any], dtype: DType, names: list[str]) -> None:
    graph, ctx = trace_graph(function, [TensorType((2, 3), dtype)]), Context()
    after = widen(graph, ctx)
    check_graph(after)
    found = [e.op.name for e in after.eqns]
    assert sorted(set(found)) == sorted(set(names))
    assert len(ctx.report.notes) == (1 if "cast" in names else 0)
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(dtype.numpy)
    assert np.array_equal(np.asarray(Runner(after)([x])[0]), np.asarray(Runner(graph)([x])[0]))
