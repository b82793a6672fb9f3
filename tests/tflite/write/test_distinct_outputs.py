"""Results get tensors of their own, with their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_graphs
from jfuse.kernels import ops
from jfuse.tflite.write.distinct_outputs import prepare_outputs, unprepared
from tests.tflite.programs import f32, i32
from tests.verification.runners.running import in_litert

B, N = symbol("B"), symbol("N")


def prepared(function: Any, *types: TensorType) -> tuple[Graph, Graph]:
    """The graph before and after; the second one checked."""
    before = trace_graph(function, types)
    after = prepare_outputs(before)
    check_graph(after)
    assert unprepared(after) == []
    return before, after


@pytest.mark.parametrize(
    ("type_", "op", "array"),
    [
        (f32(2, 3), "reshape", np.ones((2, 3), np.float32)),
        (f32(B, 3), "reshape", np.ones((4, 3), np.float32)),
        (f32(B, N), "strided_slice", np.ones((4, 2), np.float32)),
        (f32(B, 0), "strided_slice", np.ones((4, 0), np.float32)),
        (f32(), "reshape", np.ones((), np.float32)),
        (i32(2), "reshape", np.array([5, -5], np.int32)),
        (TensorType((B, N), DType.bool), "strided_slice", np.array([[True, False]])),
        (TensorType((2,), DType.string), "reshape", np.array([b"a", b"bcd"], object)),
        (TensorType((B, N, 1), DType.string), "strided_slice", np.array([[[b"a"], [b"bcd"]]], object)),
    ],
)
def test_an_input_is_copied(type_: TensorType, op: str, array: np.ndarray) -> None:
    _, graph = prepared(lambda x: x, type_)
    assert [eqn.op.name for eqn in graph.eqns] == [op]
    assert graph.outputs[0].type == type_
    (found,) = evaluate(graph, [array])
    assert np.array_equal(found, array)
    (found,) = in_litert(graph, [array])
    assert found.shape == array.shape
    assert np.array_equal(found, array)


def test_constants_and_repeated_results_are_copied() -> None:
    def main(x: Any) -> Any:
        y = ops.neg(x)
        return y, np.array([1, 2], np.int64), y, np.array([b"text"], object)

    before, graph = prepared(main, f32(3))
    assert unprepared(before) == [1, 2, 3]
    assert len(graph.eqns) == 4
    assert graph.outputs[0] is before.outputs[0]
    x = np.array([1, 2, 3], np.float32)
    found = in_litert(graph, [x])
    assert [f.tolist() for f in found] == [[-1, -2, -3], [1, 2], [-1, -2, -3], [b"text"]]


def test_what_needs_nothing_is_left_alone() -> None:
    graph = trace_graph(lambda x: (ops.neg(x), ops.add(x, 1.0)), [f32(3)])
    assert prepare_outputs(graph) is graph


def test_a_body_hands_inputs_on_at_their_own_place_only() -> None:
    def body(a: Any, b: Any, c: Any, d: Any) -> Any:
        return b, a, c, np.float32(7)

    def main(*values: Any) -> Any:
        cond = trace_graph(lambda a, b, c, d: ops.less(d, 5.0), [f32()] * 4, "cond")
        return ops.while_(values, [cond, trace_graph(body, [f32()] * 4, "body")])

    before, graph = prepared(main, *[f32()] * 4)
    loop = next(eqn for eqn in graph.eqns if eqn.op is ops.while_)
    assert unprepared(before.eqns[0].bodies[1], is_body=True) == [0, 1]
    assert len(loop.bodies[1].eqns) == 2
    assert loop.bodies[1].outputs[2] is loop.bodies[1].inputs[2]
    found = in_litert(graph, [np.array(v, np.float32) for v in (1, 2, 3, 4)])
    assert [float(f) for f in found] == [2, 1, 3, 7]


def test_branches_may_give_constants() -> None:
    def main(flag: Any, x: Any) -> Any:
        then = trace_graph(lambda v: (ops.neg(v), np.float32(3), np.float32(3)), [f32(2)], "then")
        other = trace_graph(lambda v: (v, np.float32(4), np.float32(5)), [f32(2)], "else")
        return ops.if_([flag, x], [then, other])

    _, graph = prepared(main, TensorType((), DType.bool), f32(2))
    x = np.array([1, 2], np.float32)
    assert [f.tolist() for f in in_litert(graph, [np.array(True), x])] == [[-1, -2], 3, 3]
    assert [f.tolist() for f in in_litert(graph, [np.array(False), x])] == [[1, 2], 4, 5]


def test_shared_bodies_stay_shared() -> None:
    body = trace_graph(lambda x, y: (y, x), [f32(), f32()], "body")
    types = [TensorType((), DType.bool), f32(), f32()]
    graph = trace_graph(lambda flag, x, y: ops.if_([flag, x, y], [body, body]), types)
    after = prepare_outputs(graph)
    assert after.eqns[0].bodies[0] is after.eqns[0].bodies[1]
    assert len(after.eqns[0].bodies[0].eqns) == 2
    assert all(not unprepared(g, is_body=g is not after) for g in all_graphs(after))


def test_inputs_without_elements_and_their_constants() -> None:
    _, graph = prepared(lambda x: (x, np.zeros((0, 2), np.float32)), f32(0, 3))
    assert [f.shape for f in in_litert(graph, [np.zeros((0, 3), np.float32)])] == [(0, 3), (0, 2)]
