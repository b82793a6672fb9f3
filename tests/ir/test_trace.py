"""Recording: fresh names, equalities of sizes, nesting, places in messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import JfuseError, TypeMismatch
from jfuse.ir import (
    Const,
    Source,
    Var,
    active_trace,
    at_source,
    check_graph,
    is_tracing,
    recording,
    symbol,
    trace_graph,
)
from jfuse.kernels import ops
from tests.ir.graphs import B, T, f32, i32


def test_ops_on_vars_record_and_ops_on_arrays_compute() -> None:
    def main(x: Any) -> Any:
        return ops.add(x, ops.add(np.float32(1), np.float32(2)))

    (eqn,) = trace_graph(main, [f32(2)]).eqns
    assert eqn.op is ops.add
    (constant,) = [a for a in eqn.inputs if isinstance(a, Const)]
    assert constant.array == 3


def test_one_array_is_one_const() -> None:
    weight = np.ones((2,), np.float32)
    graph = trace_graph(lambda x: ops.mul(ops.add(x, weight), weight), [f32(2)])
    first, second = (a for eqn in graph.eqns for a in eqn.inputs if isinstance(a, Const))
    assert first is second
    assert first.array is weight


def test_operands_that_meet_equate_their_symbols() -> None:
    graph = trace_graph(lambda x, y: (ops.add(x, y), ops.neg(y)), [f32(B, 8), f32(T, 8)])
    assert len({str(v.type) for v in (*graph.inputs, *graph.outputs)}) == 1
    check_graph(graph)


def test_a_symbol_that_meets_a_number_becomes_it_everywhere() -> None:
    graph = trace_graph(lambda x, y: (ops.add(x, y), ops.shape(x)), [f32(B, 8), f32(4, 8)])
    assert [str(v.type) for v in graph.inputs] == ["f32[4,8]", "f32[4,8]"]


def test_sizes_that_differ_do_not_meet() -> None:
    with pytest.raises(TypeMismatch, match=r"add does not take these operands(.|\n)*f32\[3\], f32\[4\]"):
        trace_graph(ops.add, [f32(3), f32(4)])


def test_equalities_found_in_a_nested_trace_hold_outside() -> None:
    def main(x: Any, y: Any) -> Any:
        body = trace_graph(ops.add, [x.type, y.type], "body")
        return ops.composite([x, y], [body], name="sum")[0]

    graph = trace_graph(main, [f32(B, 8), f32(T, 8)])
    (eqn,) = graph.eqns
    assert {str(v.type) for v in (*graph.inputs, *graph.outputs, *eqn.bodies[0].inputs)} == {str(graph.inputs[0].type)}
    check_graph(graph)


def test_nested_traces_share_names_and_suspend_the_outer_trace() -> None:
    def inner(x: Any) -> Any:
        assert str(active_trace().names.fresh("N")) == "N1"
        return ops.neg(x)

    def main(x: Any) -> Any:
        assert str(active_trace().names.fresh("N")) == "N"
        body = trace_graph(inner, [x.type])
        assert len(body.eqns) == 1
        return x

    assert trace_graph(main, [f32(B)]).eqns == ()
    assert not is_tracing()


def test_fresh_symbols_keep_clear_of_those_of_the_inputs() -> None:
    def main(x: Any) -> Any:
        assert str(active_trace().names.fresh("N")) == "N1"
        return x

    trace_graph(main, [f32(symbol("N"), 2)])


def test_equations_carry_the_source() -> None:
    def main(x: Any) -> Any:
        with at_source(Source("mul", "Mul", ("outer",))):
            y = ops.neg(x)
        return ops.neg(y)

    first, second = trace_graph(main, [f32(2)]).eqns
    assert str(first.source) == "outer/mul (Mul)"
    assert str(second.source) == ""


def test_errors_tell_the_innermost_source() -> None:
    def main(x: Any) -> Any:
        with at_source(Source("outer", "While")), at_source(Source("inner", "Mul")):
            return ops.add(x, np.zeros(3, np.float32))

    with pytest.raises(TypeMismatch, match=r"at inner \(Mul\)"):
        trace_graph(main, [f32(2)])


def test_vars_outside_of_a_trace_are_refused() -> None:
    with pytest.raises(JfuseError, match="outside of a trace"):
        ops.neg(Var(f32(2)))


def test_a_failed_trace_is_over() -> None:
    with pytest.raises(TypeMismatch):
        trace_graph(ops.add, [f32(3), f32(4)])
    assert not is_tracing()


def test_an_unrelated_trace_shares_nothing_with_the_active_one() -> None:
    with recording() as outer, recording() as inner:
        assert active_trace() is inner
        assert inner.names is not outer.names
        assert inner.sizes is not outer.sizes
    assert not is_tracing()


def test_shape_arithmetic_is_known() -> None:
    def main(x: Any) -> Any:
        return ops.mul(ops.shape(x), np.array([1, 2], np.int32))

    (product,) = trace_graph(main, [f32(B, 8)]).outputs
    assert isinstance(product, Var)
    assert product.type == i32(2)
    assert product.value is not None
    assert product.value.tolist() == [B, 16]
