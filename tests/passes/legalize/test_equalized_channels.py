"""Equalization: the same function, with channels of like ranges, where nothing but RELU stands between products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.passes.legalize.equalized_channels import equalized
from jfuse.quantization.recipe import QuantizeRule, Recipe
from tests.passes.quantize.models import calibrated, drawn, in_litert, program_of, quantized, snr_db
from tests.tflite.programs import f32

WIDE = np.logspace(-2, 2, 16).astype(np.float32)
"""Of the channels between: some are ten thousand times as wide as others."""
CONV = {"padding": "SAME", "stride_w": 1, "stride_h": 1}


def dense(x: Any, *, activation: str = "RELU", weights: np.ndarray = WIDE[:, None]) -> Any:
    """Two dense layers."""
    h = ops.fully_connected(x, drawn(16, 8) * weights, drawn(16) * WIDE, fused_activation_function=activation)
    return ops.fully_connected(h, drawn(5, 16) / WIDE, drawn(5))


def images(x: Any) -> Any:
    """A convolution, one of each channel by itself, and one of pixels, whose factors depend on each other."""
    h = ops.conv_2d(
        x, drawn(16, 3, 3, 4) * WIDE[:, None, None, None], drawn(16), fused_activation_function="RELU", **CONV
    )
    h = ops.depthwise_conv_2d(h, drawn(1, 3, 3, 16), drawn(16), depth_multiplier=1, **CONV)
    return ops.conv_2d(h, drawn(6, 1, 1, 16) / WIDE, None, **CONV)


def read_twice(x: Any) -> Any:
    """What is between is a result, too."""
    h = ops.fully_connected(x, drawn(16, 8), None)
    return ops.fully_connected(h, drawn(5, 16), None), h


CASES: dict[str, tuple[Callable[[Any], Any], TensorType, int]] = {
    "dense": (dense, f32(3, 8), 1),
    "linear": (lambda x: dense(x, activation="NONE"), f32(3, 8), 1),
    "images": (images, f32(1, 6, 6, 4), 2),
    "a channel that is zero": (
        lambda x: dense(x, weights=np.where(WIDE < 1, 0, WIDE)[:, None].astype(np.float32)),
        f32(3, 8),
        1,
    ),
    "cut off": (lambda x: dense(x, activation="RELU6"), f32(3, 8), 0),
    "read twice": (read_twice, f32(3, 8), 0),
    "flattened": (lambda x: dense(ops.reshape(x, np.array([4, 8], np.int32))), f32(2, 2, 8), 1),
    "others' channels": (
        lambda x: ops.fully_connected(ops.conv_2d(x, drawn(4, 1, 1, 4), None, **CONV), drawn(5, 16), None),
        f32(1, 2, 2, 4),
        0,
    ),
}


def values(graph: Graph, x: np.ndarray) -> np.ndarray:
    """The first result, in float."""
    return np.asarray(evaluate(graph, [x])[0])


@pytest.mark.parametrize("name", CASES)
def test_the_function_is_the_same(name: str) -> None:
    function, given, pairs = CASES[name]
    graph = trace_graph(function, [given])
    new, found = equalized(graph, lambda eqn: True)
    assert found == pairs
    x = drawn(*(int(d) for d in given.shape), seed=1)
    wanted = values(graph, x)
    np.testing.assert_allclose(values(new, x), wanted, rtol=0, atol=2e-6 * np.abs(wanted).max())  # sums in f32
    assert (new is graph) == (pairs == 0)


def test_the_largest_weights_are_alike() -> None:
    graph, _ = equalized(trace_graph(dense, [f32(3, 8)]), lambda eqn: True)
    first, second = (_largest(eqn, axis) for eqn, axis in zip(graph.eqns, (1, 0), strict=True))
    np.testing.assert_allclose(first, second, rtol=1e-5)


def _largest(eqn: Eqn, axis: int) -> np.ndarray:
    weights = eqn.inputs[1]
    assert isinstance(weights, Const)
    return np.asarray(np.abs(weights.array).max(axis))


def test_a_recipe_wants_it_and_the_report_says_what_it_did() -> None:
    """Integers lose channels that are narrow beside others, which count as much."""
    program, calls = program_of(dense, f32(3, 8)), [{"x0": drawn(3, 8, seed=s)} for s in range(8)]
    wanted = np.stack(in_litert(quantized(program, None), calls, delegates=True))
    found = []
    for equalization in (False, True):
        recipe = Recipe((QuantizeRule("integer", min_elements=0),), equalization=equalization)
        model = calibrated(program, recipe, calls)
        found.append(snr_db(np.stack(in_litert(model, calls, delegates=True)), wanted))
        assert [note for note in model.report.notes if "1 pairs of products" in note] or not equalization
    assert found[1] > found[0] + 10
