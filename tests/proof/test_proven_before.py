"""A pair of graphs is proven once in a process; another constant or another kernel is proven anew."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.base.memo import Memo
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.proof import proven_before
from jfuse.proof.prove import NOTHING_KNOWN, TOLERANCE, KnownOperands, Proof
from jfuse.proof.proven_before import prove_once
from tests.cells import BATCH, f32

WEIGHTS = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


def product(weights: np.ndarray) -> Graph:
    return trace_graph(lambda x: ops.tanh(ops.fully_connected(x, weights, None)), [f32(BATCH, 8)])


def spelled(weights: np.ndarray) -> Graph:
    return trace_graph(
        lambda x: ops.fully_connected(x, weights, None, fused_activation_function="TANH"), [f32(BATCH, 8)]
    )


@pytest.fixture
def proofs(monkeypatch: pytest.MonkeyPatch) -> list[Graph]:
    """The bodies that were proven, in order."""
    bodies: list[Graph] = []
    prove: Callable[..., Proof] = vars(proven_before)["prove"]

    def counted(body: Graph, *rest: Any, **options: Any) -> Proof:
        bodies.append(body)
        return prove(body, *rest, **options)

    monkeypatch.setattr(proven_before, "prove", counted)
    monkeypatch.setattr(proven_before, "_PROOFS", Memo(8))
    return bodies


def test_equal_graphs_are_proven_once(proofs: list[Graph]) -> None:
    first, again = (prove_once(product(w), spelled(w), NOTHING_KNOWN, tolerance=TOLERANCE) for w in (WEIGHTS, +WEIGHTS))
    assert first == again
    assert len(proofs) == 1


def test_another_weight_is_proven_anew(proofs: list[Graph]) -> None:
    prove_once(product(WEIGHTS), spelled(WEIGHTS), NOTHING_KNOWN, tolerance=TOLERANCE)
    other = WEIGHTS.copy()
    other[3, 5] += 0.1
    with pytest.raises(NotFused, match="not_equal"):
        prove_once(product(WEIGHTS), spelled(other), NOTHING_KNOWN, tolerance=TOLERANCE)
    assert len(proofs) == 2


def test_another_constant_operand_is_proven_anew(proofs: list[Graph]) -> None:
    body = trace_graph(lambda x, y: ops.mul(x, y), [f32(BATCH, 8), f32(8)])
    twice = trace_graph(lambda x, y: ops.add(x, x), [f32(BATCH, 8), f32(8)])
    prove_once(body, twice, KnownOperands([None, np.full(8, 2, np.float32)]), tolerance=TOLERANCE)
    with pytest.raises(NotFused, match="not_equal"):
        prove_once(body, twice, KnownOperands([None, np.full(8, 3, np.float32)]), tolerance=TOLERANCE)
    assert len(proofs) == 2


def test_another_kernel_is_proven_anew(proofs: list[Graph], monkeypatch: pytest.MonkeyPatch) -> None:
    pair = product(WEIGHTS), spelled(WEIGHTS)
    prove_once(*pair, NOTHING_KNOWN, tolerance=TOLERANCE)
    monkeypatch.setattr(ops.tanh, "body", lambda x: x)
    with pytest.raises(NotFused, match="not_equal"):
        prove_once(*pair, NOTHING_KNOWN, tolerance=TOLERANCE)
    assert len(proofs) == 2
