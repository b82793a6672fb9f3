"""Operands that the source rounds with a scale of their own, as Keras's int8 layers do, beside what only looks so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.quantize.dynamic_scales import without_dynamic_scales
from jfuse.quantization.recipe import Recipe
from tests.passes.quantize.models import drawn

X = TensorType((5, 2, 8), DType.f32)
WEIGHTS = np.rint(drawn(12, 16) * 40)
SCALES = np.float32(300) + drawn(12)
BOTH_AXES, LAST_AXIS = np.array([1, 2], np.int32), np.array([2], np.int32)
INT8 = Recipe.named("int8")


def rounded(x: Any, axes: np.ndarray = BOTH_AXES, last_step: float = 127.0) -> tuple[Any, Any]:
    """The steps of x, as i8, and what x was multiplied with."""
    largest = ops.reduce_max(ops.abs_(x), axes, keep_dims=True)
    factor = ops.div(np.float32(last_step), ops.add(largest, np.float32(1e-7)))
    steps = ops.minimum(ops.round_(ops.mul(x, factor)), np.float32(last_step))
    return ops.cast(ops.maximum(steps, np.float32(-last_step)), out_data_type=DType.i8), factor


def product(steps: Any) -> Any:
    """Of 16 steps for each row: f32[5,12]."""
    rows = ops.cast(ops.reshape(steps, [5, 16]), out_data_type=DType.f32)
    return ops.fully_connected(rows, WEIGHTS, None)


def as_layer(x: Any) -> Any:
    """As EinsumDense over two axes, with two axes of results: f32[5,3,4]."""
    steps, factor = rounded(x)
    total = ops.cast(ops.reshape(ops.cast(product(steps), out_data_type=DType.i32), [5, 3, 4]), out_data_type=DType.f32)
    return ops.div(total, ops.mul(factor, SCALES.reshape(1, 3, 4)), fused_activation_function="RELU")


def test_the_product_alone_is_left() -> None:
    graph = without_dynamic_scales(trace_graph(as_layer, [X]), INT8)
    made = {eqn.outputs[0]: eqn for eqn in graph.eqns}
    last = made[graph.outputs[0]]  # type: ignore[index]
    total = made[last.inputs[0]]  # type: ignore[index]
    before = made[total.inputs[0]]  # type: ignore[index]
    assert [e.op for e in (before, total, last)] == [ops.reshape, ops.fully_connected, ops.reshape]
    assert before.inputs[0] is graph.inputs[0]
    for seed in range(3):
        x = drawn(5, 2, 8, seed=seed)
        (found,) = evaluate(graph, [x])
        wanted = np.maximum(x.reshape(5, 16) @ (WEIGHTS / SCALES[:, None]).T, 0).reshape(5, 3, 4)
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())  # 16-term sums in f32


def of_another_value(x: Any) -> Any:
    """Divided by the scale of something else."""
    total = product(rounded(x)[0])
    return ops.div(total, ops.mul(ops.reshape(rounded(ops.mul(x, x))[1], [5, 1]), SCALES))


def in_fewer_steps(x: Any) -> Any:
    """Rounded to 31 steps on either side, which is coarser than a kernel."""
    steps, factor = rounded(x, last_step=31.0)
    return ops.div(product(steps), ops.mul(ops.reshape(factor, [5, 1]), SCALES))


def over_half_a_row(x: Any) -> Any:
    """A scale for each half of what a product sums over, of which one is divided by."""
    steps, factor = rounded(x, LAST_AXIS)
    one = ops.strided_slice(factor, [0, 0, 0], [5, 1, 1], [1, 1, 1])
    return ops.div(product(steps), ops.mul(ops.reshape(one, [5, 1]), SCALES))


def also_read(x: Any) -> Any:
    """The sum of integers is read besides."""
    steps, factor = rounded(x)
    total = product(steps)
    return ops.add(ops.div(total, ops.mul(ops.reshape(factor, [5, 1]), SCALES)), total)


@pytest.mark.parametrize("decoy", [of_another_value, in_fewer_steps, over_half_a_row, also_read])
def test_what_only_looks_so_stays(decoy: Callable[[Any], Any]) -> None:
    graph = trace_graph(decoy, [X])
    assert without_dynamic_scales(graph, INT8) is graph


def test_a_recipe_whose_kernels_round_nothing_keeps_them() -> None:
    graph = trace_graph(as_layer, [X])
    assert without_dynamic_scales(graph, Recipe.named("int8_weights")) is graph
