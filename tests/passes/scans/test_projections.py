"""Which products of whole sequences go into the step of a loop, and which stay before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.scans.fission.projections import projections_inside
from jfuse.running.runner import Runner

STEPS, FEATURES, UNITS = 5, 3, 4
W = np.random.default_rng(0).standard_normal((UNITS, FEATURES)).astype(np.float32)
BIAS = np.arange(UNITS, dtype=np.float32)
MOVES = {
    "none": lambda p: p,
    "transpose": lambda p: ops.transpose(ops.transpose(p, (1, 0, 2)), (1, 0, 2)),
    "reverse": lambda p: ops.reverse_v2(p, [0]),
    "reshape": lambda p: ops.reshape(ops.reshape(p, (STEPS, 2, 1, UNITS)), (STEPS, 2, UNITS)),
    "rows": lambda p: ops.strided_slice(p, [0], [STEPS], [1]),
}


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def step(h: Any, x: Any) -> tuple[Any, Any]:
    n = ops.tanh(ops.add(h, x))
    return n, n


BODY = trace_graph(step, [f32(2, UNITS), f32(2, UNITS)], "step")


def loop(h: Any, rows: Any) -> Any:
    return ops.scan([h, rows], [BODY], consts=0, carries=1, length=STEPS, reverse=False)


def projected(move: str = "none", **params: Any) -> Graph:
    def call(h: Any, x: Any) -> Any:
        return loop(h, MOVES[move](ops.fully_connected(x, W, BIAS, keep_num_dims=True, **params)))

    return trace_graph(call, [f32(2, UNITS), f32(STEPS, 2, FEATURES)])


def is_inside(graph: Graph) -> bool:
    return "fully_connected" not in [eqn.op.name for eqn in graph.eqns]


@pytest.mark.parametrize("move", MOVES)
def test_a_product_goes_into_the_step(move: str) -> None:
    graph = projections_inside(projected(move))
    assert is_inside(graph)
    rng = np.random.default_rng(1)
    h, x = (rng.standard_normal(v.type.shape).astype(np.float32) for v in graph.inputs)
    last, all_of_them = Runner(graph, quick=True)([h, x])
    wanted = []
    for row in x[::-1] if move == "reverse" else x:
        h = np.tanh(h + row @ W.T + BIAS)
        wanted.append(h)
    np.testing.assert_allclose(all_of_them, wanted, atol=1e-6)  # sums of 4 terms in f32
    np.testing.assert_allclose(last, wanted[-1], atol=1e-6)


def test_a_product_with_an_activation_stays() -> None:
    assert not is_inside(projections_inside(projected(fused_activation_function="RELU")))


def test_a_product_that_something_else_reads_stays() -> None:
    def call(h: Any, x: Any) -> Any:
        rows = ops.fully_connected(x, W, BIAS, keep_num_dims=True)
        return (*loop(h, rows), ops.tanh(rows))

    assert not is_inside(projections_inside(trace_graph(call, [f32(2, UNITS), f32(STEPS, 2, FEATURES)])))


def test_a_product_that_makes_rows_shorter_stays() -> None:
    weights = np.ones((UNITS, 2 * UNITS), np.float32)

    def call(h: Any, x: Any) -> Any:
        return loop(h, ops.fully_connected(x, weights, None, keep_num_dims=True))

    assert not is_inside(projections_inside(trace_graph(call, [f32(2, UNITS), f32(STEPS, 2, 2 * UNITS)])))
