"""Questions and small rewrites on graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir import Const, DType, Eqn, Graph, Var, check_graph, evaluate, trace_graph
from jfuse.ir.dims import symbols_in
from jfuse.ir.walk import (
    all_eqns,
    all_graphs,
    live_eqns,
    producers,
    rename_dims,
    substitute_graph,
    use_counts,
    users,
    with_float,
)
from jfuse.kernels import ops
from tests.ir.graphs import f32, known, recurrent, weights


def diamond() -> Graph:
    """a -> b = -a; c = exp b; d = b + b; returns d, d."""

    def main(a: Any) -> Any:
        b = ops.neg(a)
        ops.exp(b)
        d = ops.add(b, b)
        return d, d

    return trace_graph(main, [f32(2)])


def constants(graph: Graph) -> list[Const]:
    return [a for eqn in all_eqns(graph) for a in eqn.inputs if isinstance(a, Const)]


def variables(graph: Graph) -> list[Var]:
    return [v for g in all_graphs(graph) for v in (*g.inputs, *(v for eqn in g.eqns for v in eqn.outputs))]


def test_producers_users_and_counts() -> None:
    graph = diamond()
    neg, exp, add = graph.eqns
    (a,), (b,), (d,) = graph.inputs, neg.outputs, add.outputs
    assert producers(graph) == {b: neg, exp.outputs[0]: exp, d: add}
    assert users(graph) == {a: [neg], b: [exp, add, add]}
    assert use_counts(graph) == {a: 1, b: 3, d: 2}


def test_live_eqns_keep_what_is_wanted_or_has_an_effect() -> None:
    graph = diamond()
    neg, exp, add = graph.eqns
    assert live_eqns(graph, graph.outputs) == (neg, add)
    assert live_eqns(graph, []) == ()
    writing = replace(exp, effects=("state",))
    assert live_eqns(replace(graph, eqns=(neg, writing, add)), []) == (neg, writing)


def test_live_eqns_keep_an_equation_for_any_of_its_results() -> None:
    graph = recurrent(weights(2, 2))
    scan = next(eqn for eqn in graph.eqns if eqn.op is ops.scan)
    assert live_eqns(graph, [scan.outputs[1]]) == (scan,)


def test_substitute_graph_replaces_uses_and_keeps_binders() -> None:
    graph = diamond()
    neg, exp, add = graph.eqns
    (b,), (d,) = neg.outputs, add.outputs
    renewed = substitute_graph(graph, {b: graph.inputs[0], d: b})
    assert [eqn.inputs for eqn in renewed.eqns] == [(graph.inputs[0],), (graph.inputs[0],), (graph.inputs[0],) * 2]
    assert [eqn.outputs for eqn in renewed.eqns] == [(b,), exp.outputs, (d,)]
    assert renewed.outputs == (b, b)
    assert substitute_graph(graph, {}) is graph


def test_rename_dims_reaches_types_bodies_parameters_and_values() -> None:
    graph = recurrent(weights(2, 2))
    assert [known(v) for v in graph.outputs if isinstance(v, Var)][-1] == [*graph.inputs[1].type.shape]
    renamed = rename_dims(graph, {"B": 3, "T": 5})
    assert all(v.type.is_static for v in variables(renamed))
    assert all(not symbols_in(eqn.params) for eqn in all_eqns(renamed))
    shape = renamed.outputs[-1]
    assert isinstance(shape, Var)
    assert known(shape) == [5, 3, 2]
    check_graph(renamed)
    assert rename_dims(graph, {}) is graph


def test_with_float_retypes_everything_and_keeps_shared_constants_shared() -> None:
    weight = weights(2, 2)

    def twice(x: Any) -> Any:
        return ops.batch_matmul(ops.batch_matmul(x, weight), weight)

    def main(x: Any) -> Any:
        body = trace_graph(twice, [x.type], "body")
        return ops.cast(ops.mul(ops.composite([x], [body], name="twice")[0], 0.5), out_data_type=DType.f32)

    graph = trace_graph(main, [f32(3, 2)])
    wide = with_float(graph, DType.f64)
    check_graph(wide)
    assert {v.type.dtype for v in variables(wide)} == {DType.f64}
    inner = [c for c in constants(wide) if c.array.size == weight.size]
    assert len(inner) == 2
    assert inner[0] is inner[1]
    assert constants(graph)[0].type.dtype is DType.f32
    x = weights(3, 2, start=2)
    np.testing.assert_array_equal(evaluate(wide, [x.astype(np.float64)])[0], x @ weight @ weight * 0.5)


def test_with_float_leaves_integers_alone() -> None:
    def main(x: Any) -> Any:
        return ops.gather(x, np.array([1, 0], np.int32), axis=0)

    wide = with_float(trace_graph(main, [f32(3, 2)]), DType.f64)
    check_graph(wide)
    assert [c.type.dtype for c in constants(wide)] == [DType.i32]


def test_rebuilt_constants_keep_their_names() -> None:
    graph = diamond()
    (a,) = graph.inputs
    out = Var(a.type)
    named = Graph("main", (a,), (Eqn(ops.add, (a, Const(np.ones(2, np.float32), "bias")), (out,), {}),), (out,))
    (constant,) = constants(with_float(named, DType.f16))
    assert (constant.name, constant.type.dtype) == ("bias", DType.f16)
