"""The checker names the equation that is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir import (
    Atom,
    Eqn,
    Graph,
    Op,
    Params,
    Source,
    TensorType,
    Var,
    active_trace,
    check_graph,
    symbol,
    trace_graph,
)
from jfuse.kernels import ops
from tests.ir.graphs import f32, i32, recurrent, weights

HERE = Source("act/mul", "Mul")


def graph_of(*eqns: Eqn, inputs: tuple[Var, ...], outputs: tuple[Var, ...] = ()) -> Graph:
    return Graph("main", inputs, eqns, outputs)


def relu(operand: Var, result: Var) -> Eqn:
    return Eqn(ops.relu, (operand,), (result,), source=HERE)


def test_a_recorded_graph_is_right() -> None:
    check_graph(recurrent(weights(2, 2)))


def test_reading_an_unbound_variable() -> None:
    a, b, stranger = Var(f32(2)), Var(f32(2)), Var(f32(2))
    with pytest.raises(TypeMismatch, match=r"read before it is bound at act/mul \(Mul\)\n(.|\n)*b: f32\[2\] = relu a"):
        check_graph(graph_of(relu(stranger, b), inputs=(a,)))


def test_reading_a_variable_that_is_bound_below() -> None:
    a, b, c = (Var(f32(2)) for _ in range(3))
    graph = graph_of(relu(b, c), relu(a, b), inputs=(a,))
    with pytest.raises(TypeMismatch, match="read before it is bound"):
        check_graph(graph, types=False)
    check_graph(replace(graph, eqns=graph.eqns[::-1]), types=False)


def test_returning_an_unbound_variable() -> None:
    with pytest.raises(TypeMismatch, match="read before it is bound at the results of main"):
        check_graph(graph_of(inputs=(Var(f32(2)),), outputs=(Var(f32(2)),)))


def test_binding_twice() -> None:
    a, b = Var(f32(2)), Var(f32(2))
    with pytest.raises(TypeMismatch, match=r"bound twice at act/mul \(Mul\)"):
        check_graph(graph_of(relu(a, b), relu(a, b), inputs=(a,)))
    with pytest.raises(TypeMismatch, match="bound twice at the inputs of main"):
        check_graph(graph_of(inputs=(a, a)))


@pytest.mark.parametrize("wrong", [f32(3), i32(2), f32(1, 2), f32()])
def test_a_result_of_another_type(wrong: TensorType) -> None:
    a, b = Var(f32(2)), Var(wrong)
    expected = rf"relu has results of other types at act/mul \(Mul\)\n  expected  f32\[2\]\n(.|\n)*{wrong.dtype.value}"
    with pytest.raises(TypeMismatch, match=expected):
        check_graph(graph_of(relu(a, b), inputs=(a,)))
    check_graph(graph_of(relu(a, b), inputs=(a,)), types=False)


def test_sizes_that_may_be_equal_agree() -> None:
    a, b = Var(f32(symbol("B"))), Var(f32(symbol("N")))
    check_graph(graph_of(relu(a, b), inputs=(a,)))
    too_long = Var(f32(symbol("B") + 1))
    with pytest.raises(TypeMismatch, match=r"expected  f32\[B\]\n  found     f32\[B\+1\]"):
        check_graph(graph_of(relu(a, too_long), inputs=(a,)))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_wrong_number_of_operands(count: int) -> None:
    a, b = Var(f32(2)), Var(f32(2))
    eqn = Eqn(ops.maximum, (a,) * count, (b,), source=HERE)
    with pytest.raises(TypeMismatch, match=r"maximum does not take these operands at act/mul \(Mul\)"):
        check_graph(graph_of(eqn, inputs=(a,)))


def test_a_wrong_number_of_results() -> None:
    a = Var(f32(2))
    eqn = Eqn(ops.relu, (a,), (Var(f32(2)), Var(f32(2))), source=HERE)
    with pytest.raises(TypeMismatch, match=r"relu has 1 results, not 2 at act/mul"):
        check_graph(graph_of(eqn, inputs=(a,)))


def test_an_unknown_parameter() -> None:
    a, b = Var(f32(2)), Var(f32(2))
    eqn = Eqn(ops.relu, (a,), (b,), {"beta": 1.0}, source=HERE)
    with pytest.raises(TypeMismatch, match=r"at act/mul (.|\n)*beta"):
        check_graph(graph_of(eqn, inputs=(a,)))


def test_bodies_are_checked() -> None:
    graph = recurrent(weights(2, 2))
    scan = next(eqn for eqn in graph.eqns if eqn.op is ops.scan)
    (body,) = scan.bodies
    broken = replace(body, eqns=(*body.eqns[1:], body.eqns[0]))
    eqns = tuple(replace(eqn, bodies=(broken,)) if eqn is scan else eqn for eqn in graph.eqns)
    with pytest.raises(TypeMismatch, match="read before it is bound"):
        check_graph(replace(graph, eqns=eqns))


def test_bodies_must_fit_the_operands() -> None:
    body = trace_graph(ops.relu, [f32(3)], "body")
    a, b = Var(f32(2)), Var(f32(3))
    eqn = Eqn(ops.composite, (a,), (b,), {"name": "x"}, HERE, (body,))
    with pytest.raises(
        TypeMismatch, match=r"composite does not take these operands at act/mul(.|\n)*f32\[2\] for f32\[3\]"
    ):
        check_graph(graph_of(eqn, inputs=(a,)))


class Compact(Op):
    """Keeps some rows: how many depends on the data."""

    name = "test.compact"

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        return (f32(active_trace().names.fresh("N")),)

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        return active_trace().append(self, inputs, self.infer(inputs, params, bodies), params)


def test_sizes_that_depend_on_data_are_no_contradiction() -> None:
    # The second result is one longer than the first symbol that a checker would hand out.
    a, b = Var(f32(4)), Var(f32(symbol("N") + 1))
    check_graph(graph_of(Eqn(Compact(), (a,), (b,)), inputs=(a,)))
