"""Loops over 16-bit floats compute in f32, operators on types without a kernel in others; nothing is narrowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.passes.context import Context
from jfuse.passes.legalize.legalize_dtypes import legalize_dtypes, promote_loops
from jfuse.passes.scans.from_while.while_to_scan import while_to_scan
from jfuse.running.runner import Runner
from jfuse.tflite.runtime.dtypes import unsupported
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
    return while_to_scan(jfuse.load(function).signature().graph, Context())


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_loops_compute_in_f32(dtype: Any) -> None:
    before, ctx = narrow_loop(dtype), Context()
    after = promote_loops(before, ctx)
    check_graph(after)
    (scan,) = [e for e in all_eqns(after) if e.op.name == "scan"]
    types = {a.type.dtype for e in all_eqns(scan.bodies[0]) for a in (*e.inputs, *e.outputs) if a is not None}
    assert types.isdisjoint(NARROW)
    assert after.outputs[0].type == before.outputs[0].type
    assert ctx.report.notes == ["the loop 'while (StatelessWhile)' computes in f32 instead of 16 bits"]
    x = np.random.default_rng(1).normal(size=(5, 2, 3)).astype(np.float32)
    ours, theirs = (np.asarray(Runner(g, quick=True)([x])[0], np.float32) for g in (after, before))
    assert relative_error(ours, theirs) <= ROUNDING[before.outputs[0].type.dtype]


def test_loops_in_f32_stay() -> None:
    graph, ctx = narrow_loop(tf.float32), Context()
    assert promote_loops(graph, ctx) is graph
    assert ctx.report.notes == []


ONE_ROUND_TRIP = ["cast", "cast"]
AXIS = np.array([1], np.int32)


@pytest.mark.parametrize(
    ("function", "dtype", "added"),
    [
        (lambda x: ops.add(x, x), DType.bf16, ONE_ROUND_TRIP),
        (lambda x: ops.pack(x, x), DType.f16, ONE_ROUND_TRIP),
        (lambda x: ops.add(x, x), DType.f16, []),
        (lambda x: ops.transpose(x, (1, 0)), DType.bf16, []),
        (lambda x: ops.add(x, x), DType.i8, ONE_ROUND_TRIP),
        (lambda x: ops.mul(x, x), DType.u16, ONE_ROUND_TRIP),
        (lambda x: ops.sub(x, ops.mul(x, x)), DType.i16, ["cast", "cast", "cast"]),
        (lambda x: ops.sum_(x, AXIS, keep_dims=False), DType.i8, ONE_ROUND_TRIP),
        (lambda x: ops.maximum(x, x), DType.u32, ONE_ROUND_TRIP),
        (lambda x: ops.less(x, x), DType.u8, ["cast"]),
        (lambda x: ops.pack(x, x), DType.bool, ONE_ROUND_TRIP),
        (lambda x: ops.pack(x, x), DType.f64, ["bitcast", "bitcast"]),
        (lambda x: ops.mul(x, x), DType.u64, ["bitcast", "bitcast"]),
        (lambda x: ops.equal(x, x), DType.u64, ["bitcast"]),
    ],
)
def test_operators_without_a_kernel(function: Callable[[Any], Any], dtype: DType, added: list[str]) -> None:
    graph, ctx = trace_graph(function, [TensorType((2, 3), dtype)]), Context()
    after = legalize_dtypes(graph, ctx)
    check_graph(after)
    assert not any(map(unsupported, after.eqns))
    own = [e.op.name for e in graph.eqns]
    assert sorted(e.op.name for e in after.eqns) == sorted([*own, *added])
    assert len(ctx.report.notes) == bool(added)
    x = extremes(dtype)
    assert np.array_equal(np.asarray(Runner(after, quick=True)([x])[0]), np.asarray(Runner(graph, quick=True)([x])[0]))


def extremes(dtype: DType) -> np.ndarray:
    """Values at the ends of the type, so that overflow shows."""
    if not dtype.is_integer:
        return np.array([[0, -1, 1.5], [2, 0.25, 300]]).astype(dtype.numpy)
    info = np.iinfo(dtype.numpy)
    return np.array([[info.min, info.max, 1], [info.max - 1, 100, info.max // 3]], dtype.numpy)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: ops.add(x, x), DType.f64),  # nothing wider to compute in
        (lambda x: ops.maximum(x, x), DType.u64),
        (lambda x: ops.floor_div(x, x), DType.i64),
        (lambda x: ops.pow_(x, x), DType.i8),  # the runtime's power saturates at 32 bits instead of wrapping
        (lambda x: ops.mean(x, AXIS, keep_dims=False), DType.i8),  # TensorFlow sums in 8 bits
    ],
)
def test_what_no_type_can_do_is_refused(function: Callable[[Any], Any], dtype: DType) -> None:
    graph, ctx = trace_graph(function, [TensorType((2, 3), dtype)]), Context()
    assert legalize_dtypes(graph, ctx) is graph
    assert ctx.report.notes == []
    assert f"not {dtype.value}[" in str(unsupported(graph.eqns[-1]))


def test_sizes_and_choices_keep_their_types() -> None:
    def call(choice: Any, x: Any) -> Any:
        return ops.reverse_sequence(ops.select_v2(choice, x, x), np.array([1, 2], np.int32), seq_dim=1, batch_dim=0)

    graph = trace_graph(call, [TensorType((2, 3), DType.bool), TensorType((2, 3), DType.bool)])
    after = legalize_dtypes(graph, Context())
    check_graph(after)
    assert [e.op.name for e in after.eqns] == ["select_v2", "cast", "reverse_sequence", "cast"]


def test_what_stays_in_another_type_is_not_cast_again() -> None:
    def call(x: Any, y: Any) -> Any:
        greater = ops.maximum(x, y)
        return ops.minimum(ops.pack(greater, x), np.asarray(7, np.uint16))

    graph = trace_graph(call, [TensorType((2, 3), DType.u16)] * 2)
    after = legalize_dtypes(graph, Context())
    check_graph(after)
    assert [e.op.name for e in after.eqns] == ["cast", "cast", "maximum", "pack", "minimum", "cast"]
    x = extremes(DType.u16)
    assert np.array_equal(
        np.asarray(Runner(after, quick=True)([x, x[::-1]])[0]), np.asarray(Runner(graph, quick=True)([x, x[::-1]])[0])
    )


def test_arithmetic_goes_back_to_its_own_type() -> None:
    graph = trace_graph(lambda x: ops.add(ops.add(x, x), x), [TensorType((2, 3), DType.i8)])
    after = legalize_dtypes(graph, Context())
    assert [e.op.name for e in after.eqns] == ["cast", "add", "cast", "cast", "add", "cast"]


def test_bodies_too() -> None:
    body = trace_graph(lambda x: ops.add(x, x), [TensorType((2,), DType.i8)])
    cond = trace_graph(
        lambda x: ops.logical_not(ops.reduce_any(ops.cast(x, out_data_type=DType.bool), AXIS - 1, keep_dims=False)),
        [TensorType((2,), DType.i8)],
    )
    graph = trace_graph(lambda x: while_([x], [cond, body])[0], [TensorType((2,), DType.i8)])
    after = legalize_dtypes(graph, Context())
    check_graph(after)
    assert [e.op.name for e in after.eqns[0].bodies[1].eqns] == ["cast", "add", "cast"]
