"""Non-maximum suppression against LiteRT's kernel where rules keep away from it: flat boxes and odd thresholds."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.check import check_graph
from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from tests.op_cases.image.detection import drawn, ranked
from tests.verification.runners.running import in_litert

BOXES, SCORES = drawn(30, seed=4), ranked(30, seed=5)
FLAT = BOXES.copy()
FLAT[np.argsort(SCORES)[-3]] = [0.3, 0.2, 0.3, 0.8]
HALVES = np.array([[0, 0, 1, 1], [0, 0, 1, 2]], np.float32)


def f32(value: float) -> np.ndarray:
    return np.asarray(value, np.float32)


@pytest.mark.parametrize(
    ("boxes", "overlap", "sigma"),
    [
        (BOXES, 0.0, 0.0),
        (BOXES, 1.1, 0.0),
        (FLAT, 0.5, 0.0),
        (FLAT, 0.0, 0.0),
        (HALVES, 0.5, 0.0),
        (BOXES, 0.3, 0.5),
        (BOXES, 1.0, 0.1),
    ],
)
def test_the_body_agrees_with_litert(boxes: np.ndarray, overlap: float, sigma: float) -> None:
    scores = SCORES[: len(boxes)]

    def choose(boxes: Any, scores: Any) -> Any:
        return ops.non_max_suppression_v5(boxes, scores, np.int32(12), f32(overlap), f32(0.2), f32(sigma))

    args = [boxes, scores]
    graph = trace_graph(choose, [TensorType(a.shape, DType.of(a.dtype)) for a in args])
    check_graph(graph)
    (places, chosen, count), wanted = evaluate(graph, args), in_litert(graph, args)
    np.testing.assert_array_equal(places, wanted[0])
    np.testing.assert_allclose(chosen, wanted[1], rtol=1e-6)  # factors multiplied in another order
    np.testing.assert_array_equal(count, wanted[2])


def test_wrong_shapes_are_refused() -> None:
    types = [TensorType((5, 3), DType.f32), TensorType((5,), DType.f32)]
    with pytest.raises(TypeMismatch):
        trace_graph(lambda b, s: ops.non_max_suppression_v4(b, s, np.int32(2), f32(0.5), f32(0)), types)
