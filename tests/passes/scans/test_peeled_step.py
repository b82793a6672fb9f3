"""First steps that converters peel off unrolled loops, and what only resembles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.passes.scans.reroll.reroll import reroll
from jfuse.running.runner import Runner

STEPS, FEATURES, UNITS = 6, 3, 4
RNG = np.random.default_rng(0)
W, R = (RNG.standard_normal((4 * UNITS, n)).astype(np.float32) for n in (FEATURES, UNITS))
BIAS = RNG.standard_normal(4 * UNITS).astype(np.float32)

First = Callable[[Sequence[Any]], tuple[Any, Any]]


def gates(z: Any, c: Any | None) -> tuple[Any, Any]:
    i, f, g, o = ops.split(np.int32(1), z, num_splits=4)
    new = ops.mul(ops.logistic(i), ops.tanh(g))
    if c is not None:
        new = ops.add(ops.mul(ops.logistic(f), c), new)
    return ops.mul(ops.logistic(o), ops.tanh(new)), new


def peeled(rows: Sequence[Any]) -> tuple[Any, Any]:
    """A step of the LSTM from zeros, without what multiplies them, its bias within the product."""
    return gates(ops.fully_connected(rows[0], W, BIAS), None)


def other_bias(rows: Sequence[Any]) -> tuple[Any, Any]:
    return gates(ops.fully_connected(rows[0], W, BIAS + np.float32(0.01)), None)


def later_row(rows: Sequence[Any]) -> tuple[Any, Any]:
    return gates(ops.fully_connected(rows[1], W, BIAS), None)


def no_cell(rows: Sequence[Any]) -> tuple[Any, Any]:
    h, _ = peeled(rows)
    return h, np.zeros((1, UNITS), np.float32)


def unrolled(first: First, all_rows: bool) -> Graph:
    def call(x: Any) -> Any:
        rows = ops.unpack(x, axis=1)
        h, c = first(rows)
        hs = [h]
        for row in rows[1:]:
            z = ops.add(ops.fully_connected(row, W, None), ops.fully_connected(h, R, None))
            h, c = gates(ops.add(z, BIAS), c)
            hs.append(h)
        return ops.pack(*hs, axis=1) if all_rows else h

    return trace_graph(call, [TensorType((1, STEPS, FEATURES), DType.f32)])


def by_formula(x: np.ndarray) -> np.ndarray:
    """All h of the LSTM in float64."""
    h = c = np.zeros((1, UNITS))
    found = []
    for row in np.swapaxes(x.astype(np.float64), 0, 1):
        i, f, g, o = np.split(row @ W.T + h @ R.T + BIAS, 4, axis=1)
        i, f, o = (1 / (1 + np.exp(-z)) for z in (i, f, o))
        c = f * c + i * np.tanh(g)
        h = o * np.tanh(c)
        found.append(h)
    return np.stack(found, axis=1)


def lengths(graph: Graph) -> list[int]:
    return [eqn.params["length"] for eqn in all_eqns(graph) if eqn.op.name == "scan"]


@pytest.mark.parametrize("all_rows", [False, True])
def test_a_peeled_step_is_taken_back(all_rows: bool) -> None:
    graph = reroll(unrolled(peeled, all_rows))
    assert lengths(graph) == [STEPS]
    assert [eqn.op.name for eqn in graph.eqns].count("tanh") == 0, "nothing of the first step is left"
    x = np.random.default_rng(1).standard_normal((1, STEPS, FEATURES)).astype(np.float32)
    (found,) = Runner(graph, quick=True)([x])
    wanted = by_formula(x)
    # 6 steps of sums of 7 terms in f32
    np.testing.assert_allclose(found, wanted if all_rows else wanted[:, -1], atol=2e-6)


@pytest.mark.parametrize("first", [other_bias, later_row, no_cell])
def test_what_resembles_a_first_step_stays(first: First) -> None:
    graph = unrolled(first, True)
    rolled = reroll(graph)
    assert lengths(rolled) == [STEPS - 1]
    x = np.random.default_rng(2).standard_normal((1, STEPS, FEATURES)).astype(np.float32)
    (found,), (wanted,) = (Runner(g, quick=True)([x]) for g in (rolled, graph))
    np.testing.assert_allclose(found, wanted, atol=2e-6)
    assert np.abs(found - by_formula(x)).max() > 1e-3, "the decoy computes something else"
