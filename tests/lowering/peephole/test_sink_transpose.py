"""Transposes sink behind reverses, slices and recurrences; numbers stay, and where it gains nothing nothing happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import Dim, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.simplify.simplify import simplify

X = TensorType((symbol("B"), 5, 3), DType.f32)
TIME_FIRST = [1, 0, 2]


def simplified(function: Callable[..., Any]) -> tuple[Graph, Graph]:
    graph = trace_graph(function, [X])
    return graph, simplify(graph, Context())


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def assert_equal_values(before: Graph, after: Graph) -> None:
    x = np.random.default_rng(0).standard_normal((4, 5, 3)).astype(np.float32)
    for a, b in zip(evaluate(before, [x]), evaluate(after, [x]), strict=True):
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_reverse_between_two_transposes_needs_none() -> None:
    before, after = simplified(lambda x: ops.transpose(ops.reverse_v2(ops.transpose(x, TIME_FIRST), [0]), TIME_FIRST))
    assert names(after) == ["reverse_v2"]
    assert_equal_values(before, after)


@pytest.mark.parametrize("index", [0, -1, 2])
def test_one_step_of_a_transpose_is_a_slice(index: int) -> None:
    end = index + 1 if index != -1 else 5
    before, after = simplified(
        lambda x: ops.strided_slice(
            ops.transpose(x, TIME_FIRST),
            *([index, 0, 0], [end, 0, 0], [1, 1, 1]),
            begin_mask=6,
            end_mask=6,
            shrink_axis_mask=1,
        )
    )
    assert names(after) == ["strided_slice"]
    assert_equal_values(before, after)


def test_axes_that_a_slice_does_not_spell_are_kept() -> None:
    before, after = simplified(
        lambda x: ops.strided_slice(ops.transpose(x, TIME_FIRST), [-1], [0], [1], end_mask=1, shrink_axis_mask=1)
    )
    assert names(after) == ["strided_slice"]
    assert_equal_values(before, after)


def test_what_is_left_of_a_permutation_follows_the_slice() -> None:
    before, after = simplified(
        lambda x: ops.strided_slice(
            ops.transpose(x, [2, 1, 0]), [0, 1, 0], [0, 2, 0], [1, 1, 1], begin_mask=5, end_mask=5, shrink_axis_mask=2
        )
    )
    assert names(after) == ["strided_slice", "transpose"]
    assert_equal_values(before, after)


def test_a_transpose_that_others_read_stays() -> None:
    def function(x: Any) -> Any:
        turned = ops.transpose(x, [2, 1, 0])
        return turned, ops.strided_slice(turned, [0, 1, 0], [0, 2, 0], [1, 1, 1], begin_mask=5, end_mask=5)

    _, after = simplified(function)
    assert names(after) == ["transpose", "strided_slice"]


@pytest.mark.parametrize(("batch", "time_major"), [(1, False), (4, True), (symbol("B"), True)])
def test_one_sequence_needs_no_transposes_and_several_keep_them(batch: Dim, time_major: bool) -> None:
    generator = np.random.default_rng(1)

    def draw(*shape: int) -> np.ndarray:
        return generator.standard_normal(shape).astype(np.float32)

    weights = [draw(2, 3) for _ in range(4)] + [draw(2, 2) for _ in range(4)] + [None] * 3 + [draw(2) for _ in range(4)]

    def function(x: Any, h: Any) -> Any:
        steps = ops.reverse_v2(ops.transpose(x, TIME_FIRST), [0])
        y, _, _ = ops.unidirectional_sequence_lstm(steps, *weights, None, None, h, h, time_major=True)
        return ops.transpose(y, TIME_FIRST)

    before = trace_graph(function, [TensorType((batch, 5, 3), DType.f32), TensorType((batch, 2), DType.f32)])
    after = simplify(before, Context())
    fused = next(eqn for eqn in after.eqns if eqn.op is ops.unidirectional_sequence_lstm)
    assert fused.params["time_major"] is time_major
    wanted = ["reverse_v2", "unidirectional_sequence_lstm"]
    assert names(after) == ([wanted[0], "transpose", wanted[1], "transpose"] if time_major else wanted)
    rows = batch if isinstance(batch, int) else 3
    args = [draw(rows, 5, 3), draw(rows, 2)]
    np.testing.assert_allclose(evaluate(after, args)[0], evaluate(before, args)[0], rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "join",
    [
        lambda y, z: ops.concatenation(y, z, axis=2),
        lambda y, z: ops.concatenation(y, z, axis=-3),
        lambda y, z: ops.add(y, z, fused_activation_function="RELU"),
        ops.mul,
        ops.maximum,
    ],
)
def test_transposes_that_meet_become_one(join: Callable[[Any, Any], Any]) -> None:
    def both(x: Any) -> Any:
        return join(ops.transpose(ops.sin(x), [1, 2, 0]), ops.transpose(ops.cos(x), [1, 2, 0]))

    before, after = simplified(both)
    assert names(after).count("transpose") == 1
    assert names(after)[-1] == "transpose"
    assert_equal_values(before, after)


@pytest.mark.parametrize(
    "join",
    [
        lambda y, z: ops.add(y, ops.transpose(z, [0, 2, 1])),  # another permutation
        lambda y, z: (ops.add(y, ops.transpose(z, [2, 1, 0])), y),  # needed as well
    ],
)
def test_other_transposes_stay(join: Callable[[Any, Any], Any]) -> None:
    cube = TensorType((4, 4, 4), DType.f32)
    graph = trace_graph(lambda x: join(ops.transpose(ops.sin(x), [2, 1, 0]), ops.cos(x)), [cube])
    assert names(simplify(graph, Context())).count("transpose") == 2
