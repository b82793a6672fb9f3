"""Sizes that a model computes in double precision, in integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.ops.math.elementwise import lower_cast
from tests.end_to_end.invokes import Arrays, check_invokes

_SIZES = [*range(300), 999, 1000, 4096, 32767]


def graph_of(formula: Callable[[Any], Any]) -> Graph:
    """From a size i32[] to what a cast to i32 makes of the formula of it in f64."""
    return trace_graph(
        lambda n: lower_cast(formula(ops.cast(n, out_data_type=DType.f64)), DstT=DType.i32), [TensorType((), DType.i32)]
    )


def border(fraction: float) -> Callable[[Any], Any]:
    """As tf.image.central_crop computes it."""
    return lambda n: ops.div(ops.sub(n, ops.mul(n, np.float64(fraction))), np.float64(2))


@pytest.mark.parametrize("fraction", [0.5, 0.7, 0.8, 0.875, 1.0, 1 / 3, float(np.float32(0.33)), 0.123456789])
def test_integers_give_what_double_precision_gives(fraction: float) -> None:
    graph = graph_of(border(fraction))
    left = [e.op.name for e in graph.eqns if any(a is not None and a.type.dtype is DType.i32 for a in e.inputs)]
    assert left == ["cast", "mul", "floor_div"]
    for n in _SIZES:
        (found,) = evaluate(graph, [np.int32(n)])
        assert found == np.int32((n - n * fraction) / 2)


@pytest.mark.parametrize(
    "formula",
    [
        lambda n: ops.div(ops.add(n, np.float64(1)), np.float64(2)),  # no multiple of the size
        lambda n: ops.mul(n, n),
        lambda n: ops.sub(np.float64(5), n),
        lambda n: ops.sqrt(n),
    ],
)
def test_other_formulas_stay(formula: Callable[[Any], Any]) -> None:
    assert [e.op.name for e in graph_of(formula).eqns][-1] == "cast"


def images(seed: int) -> Arrays:
    shape = ((1, 10, 20, 3), (2, 7, 5, 3), (4, 64, 33, 3), (1, 1, 2, 3))[seed % 4]
    return {"x": np.random.default_rng(seed).random(shape, np.float32)}


def test_the_centre_of_images_of_open_height_and_width() -> None:
    spec = tf.TensorSpec([None, None, None, 3], tf.float32, name="x")
    crop = tf.function(lambda x: tf.image.central_crop(x, 0.7), input_signature=[spec], autograph=False)
    lite = jfuse.convert(crop)
    assert lite.report.operators["floor_div"] == 2
    check_invokes(lite, images)
