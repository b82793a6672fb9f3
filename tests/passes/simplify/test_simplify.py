"""Simplification: what is dropped, shared, folded and bound, and that nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from jfuse.base.errors import TypeMismatch
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph, Source, Var
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.lowering.peephole import PEEPHOLE_RULES, GraphView, PeepholeRule
from jfuse.passes.context import Context
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.passes.simplify.simplify import simplify
from tests.conftest import Golden

B, T = symbol("B"), symbol("T")


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


FLAG = TensorType((), DType.bool)
COUNTER = TensorType((), DType.i32)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def simplified(function: Callable[..., Any], *inputs: TensorType) -> Graph:
    graph = trace_graph(function, inputs)
    simple = simplify(graph, Context())
    check_graph(simple)
    return simple


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def only(graph: Graph, name: str) -> Eqn:
    (eqn,) = [e for e in graph.eqns if e.op.name == name]
    return eqn


def with_effect(graph: Graph, name: str) -> Graph:
    """The graph with an effect on its equations of that op."""
    return replace(graph, eqns=tuple(replace(e, effects=("s",)) if e.op.name == name else e for e in graph.eqns))


def small_model(x: Any) -> Any:
    weights = np.arange(8, dtype=np.float32).reshape(2, 4)
    y = ops.relu(ops.add(ops.fully_connected(x, weights), np.array([1, 2], np.float32)))
    ops.exp(y)
    rows = ops.strided_slice(ops.shape(y), ints(0), ints(1), ints(1), shrink_axis_mask=1)
    z = ops.reshape(y, ops.pack(rows, np.int32(1), np.int32(2)))
    return ops.squeeze(z, squeeze_dims=(1,)), ops.mul(ops.tanh(y), ops.tanh(y))


def test_small_model(golden: Golden) -> None:
    golden.check(simplified(small_model, f32(B, 4)))


# Drop


def test_unread_equations_are_dropped_but_effects_stay() -> None:
    graph = trace_graph(lambda x: (ops.exp(ops.log(x)), ops.neg(ops.sin(x)))[0], [f32(2)])
    assert names(simplify(graph, Context())) == ["log", "exp"]
    assert names(simplify(with_effect(graph, "neg"), Context())) == ["log", "exp", "sin", "neg"]


def test_an_effect_stays_where_a_merge_takes_its_last_reader() -> None:
    graph = trace_graph(lambda x: ops.squeeze(ops.expand_dims(x, 0), squeeze_dims=(0,)), [f32(2)])
    assert names(simplify(graph, Context())) == []
    assert names(simplify(with_effect(graph, "expand_dims"), Context())) == ["expand_dims"]


def while_loop(x: Any, y: Any, z: Any) -> Any:
    """Carries a counter, x (read), y and w (needed by x, w two turns later) and z (needed by nobody)."""
    types = [COUNTER, *[f32(2)] * 4]
    cond = trace_graph(lambda i, *values: ops.less(i, np.int32(3)), types, "cond")
    body = trace_graph(
        lambda i, x, y, w, z: (
            ops.add(i, np.int32(1)),
            ops.add(x, y),
            ops.mul(y, w),
            ops.neg(w),
            ops.exp(ops.sub(z, x)),
        ),
        types,
        "body",
    )
    return ops.while_([np.int32(0), x, y, y, z], [cond, body])[1]


def test_dead_carried_values_of_while_are_dropped() -> None:
    graph = trace_graph(while_loop, [f32(2)] * 3)
    simple = simplify(graph, Context())
    check_graph(simple)
    loop = only(simple, "while")
    assert len(loop.inputs) == len(loop.outputs) == 4
    assert names(loop.bodies[1]) == ["add", "add", "mul", "neg"]
    x, y, z = (np.array([0.5, -1], np.float32) * k for k in (1, 2, 3))
    np.testing.assert_allclose(evaluate(simple, [x, y, z])[0], x + y + y * y - y**3, rtol=1e-6)


def test_carried_values_that_effects_read_stay() -> None:
    graph = trace_graph(while_loop, [f32(2)] * 3)
    loop = only(graph, "while")
    acting = replace(loop, bodies=(loop.bodies[0], with_effect(loop.bodies[1], "exp")))
    simple = simplify(replace(graph, eqns=(acting,)), Context())
    assert len(only(simple, "while").inputs) == 5


def test_unread_loops_whose_bodies_have_effects_stay() -> None:
    graph = trace_graph(while_loop, [f32(2)] * 3)
    loop = only(graph, "while")
    acting = replace(loop, bodies=(loop.bodies[0], with_effect(loop.bodies[1], "exp")))
    assert names(eliminate_dead_code(replace(graph, eqns=(loop,), outputs=()))) == []
    assert names(eliminate_dead_code(replace(graph, eqns=(acting,), outputs=()))) == ["while"]


def scan_loop(h: Any, g: Any, x: Any, k: Any) -> Any:
    """Of two carries, two step inputs, one constant and two stacked results only half are needed."""
    body = trace_graph(
        lambda k, h, g, x, y: (ops.add(h, x), ops.mul(g, k), ops.exp(h), ops.add(g, y)), [f32(2)] * 5, "body"
    )
    results = ops.scan([k, h, g, x, x], [body], consts=1, carries=2, length=x.shape[0], reverse=False)
    return results[0], results[2]


def test_dead_parts_of_scan_are_dropped() -> None:
    graph = trace_graph(scan_loop, [f32(2), f32(2), f32(3, 2), f32(2)])
    simple = eliminate_dead_code(graph)
    check_graph(simple)
    loop = only(simple, "scan")
    assert (loop.params["consts"], loop.params["carries"], len(loop.inputs), len(loop.outputs)) == (0, 1, 2, 2)
    rng = np.random.default_rng(1)
    args = [rng.standard_normal([int(d) for d in v.type.shape]).astype(np.float32) for v in graph.inputs]
    for found, wanted in zip(evaluate(simple, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_scan_of_unknown_length_keeps_a_step_input() -> None:
    body = trace_graph(lambda h, x: ops.add(h, np.float32(1)), [f32(2)] * 2, "body")
    graph = trace_graph(
        lambda h, x: ops.scan([h, x], [body], consts=0, carries=1, length=x.shape[0], reverse=False)[0],
        [f32(2), f32(T, 2)],
    )
    simple = simplify(graph, Context())
    (result,) = evaluate(simple, [np.zeros(2, np.float32), np.zeros((4, 2), np.float32)])
    np.testing.assert_array_equal(result, [4, 4])


def test_results_of_if_that_nobody_reads_are_dropped() -> None:
    def function(flag: Any, x: Any, y: Any, z: Any) -> Any:
        then = trace_graph(lambda x, y, z: (ops.exp(x), ops.sin(y)), [f32(2)] * 3, "then")
        other = trace_graph(lambda x, y, z: (ops.neg(z), ops.cos(y)), [f32(2)] * 3, "other")
        return ops.if_([flag, x, y, z], [then, other])[0]

    simple = simplified(function, FLAG, f32(2), f32(2), f32(2))
    branch = only(simple, "if")
    assert branch.inputs == (simple.inputs[0], simple.inputs[1], simple.inputs[3])
    assert [names(b) for b in branch.bodies] == [["exp"], ["neg"]]


def test_composites_keep_their_operands_and_results() -> None:
    def function(x: Any, y: Any) -> Any:
        body = trace_graph(lambda x, y: (ops.exp(x), ops.sin(x)), [f32(2)] * 2, "body")
        return ops.composite([x, y], [body], name="acme.pair", arguments=("x", "y"), attributes=())[0]

    cell = only(simplified(function, f32(2), f32(2)), "composite")
    assert len(cell.inputs) == len(cell.outputs) == len(cell.bodies[0].outputs) == 2


# Share


def shared(function: Callable[..., Any], *inputs: TensorType) -> Counter[str]:
    return Counter(names(simplified(function, *inputs)))


def test_equal_equations_are_computed_once() -> None:
    assert shared(lambda x: ops.add(ops.exp(x), ops.sqrt(ops.exp(x))), f32(2)) == {"exp": 1, "sqrt": 1, "add": 1}


def test_equal_small_constants_are_one() -> None:
    def function(x: Any) -> Any:
        return ops.mul(ops.maximum(x, np.float32(2)), ops.exp(ops.maximum(x, np.array(2, np.float32))))

    assert shared(function, f32(2))["maximum"] == 1


def test_large_constants_are_compared_by_their_memory() -> None:
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    copy, turned = weights.copy(), weights.T

    def function(x: Any) -> Any:
        return [ops.fully_connected(x, w) for w in (weights, weights, weights[:], copy, turned, weights[::-1][::-1].T)]

    graph = simplified(function, f32(1, 64))
    assert names(graph) == ["fully_connected"] * 3
    assert [
        eqn.inputs[1].array is w  # type: ignore[union-attr]
        for eqn, w in zip(graph.eqns, (weights, copy, turned), strict=True)
    ] == [True, True, True]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (ops.leaky_relu(x, alpha=0.1), ops.leaky_relu(x, alpha=0.2)),
        lambda x: (ops.leaky_relu(x, alpha=0.0), ops.leaky_relu(x, alpha=-0.0)),
        lambda x: (ops.sub(x, np.float32(1)), ops.sub(x, np.float32(2))),
        lambda x: (ops.div(x, ops.exp(x)), ops.div(ops.exp(x), x)),
    ],
    ids=["parameter", "signed-zero", "constant", "order"],
)
def test_different_equations_are_not_shared(function: Callable[..., Any]) -> None:
    (count,) = {n for name, n in shared(function, f32(2)).items() if name != "exp"}
    assert count == 2


def test_equations_with_effects_are_not_shared() -> None:
    graph = trace_graph(lambda x: ops.add(ops.exp(x), ops.exp(x)), [f32(2)])
    assert names(simplify(with_effect(graph, "exp"), Context())) == ["exp", "exp", "add"]


# Fold and bind


def test_equations_on_constants_fold() -> None:
    def function(x: Any) -> Any:
        loop = trace_graph(lambda c: ops.transpose(c, ints(1, 0)), [f32(2, 3)], "body")
        (swapped,) = ops.if_([x, np.arange(6, dtype=np.float32).reshape(2, 3)], [loop, loop])
        return swapped

    branch = only(simplified(function, FLAG), "if")
    assert [names(b) for b in branch.bodies] == [[], []]
    assert len(branch.inputs) == 1


def test_results_much_larger_than_their_operands_do_not_fold() -> None:
    def function(flag: Any, size: int) -> Any:
        body = trace_graph(lambda c: ops.broadcast_to(c, ints(size)), [f32(1)], "body")
        return ops.if_([flag, np.ones(1, np.float32)], [body, body])

    for size, left in ((16_384, []), (16_385, ["broadcast_to"])):
        branch = only(simplified(lambda flag, size=size: function(flag, size), FLAG), "if")
        assert names(branch.bodies[0]) == left


def test_if_of_a_constant_is_its_branch() -> None:
    def function(x: Any) -> Any:
        then = trace_graph(lambda x: ops.exp(x), [f32(2)], "then")
        other = trace_graph(lambda x: ops.sin(x), [f32(2)], "other")
        return [ops.if_([np.array(flag), x], [then, other])[0] for flag in (True, False, False)]

    simple = simplified(function, f32(2))
    assert names(simple) == ["exp", "sin"]
    assert simple.outputs[1] is simple.outputs[2]


def three_turns(x: Any, y: Any, c: Any) -> Any:
    """x * y + c, three times over, and exp of the y that comes out of the loop."""
    types = [COUNTER, f32(2), f32(2), f32(2)]
    cond = trace_graph(lambda i, x, y, c: ops.less(i, np.int32(3)), types, "cond")
    body = trace_graph(lambda i, x, y, c: (ops.add(i, np.int32(1)), ops.add(ops.mul(x, y), c), y, c), types, "body")
    results = ops.while_([np.int32(0), x, y, c], [cond, body])
    return results[1], ops.exp(results[2])


@pytest.mark.parametrize("bound", [True, False], ids=["constant", "input"])
def test_unchanging_carried_values_are_bound(bound: bool) -> None:
    ones = np.ones(2, np.float32)
    simple = simplified(lambda x, y, c: three_turns(x, y, ones if bound else c), *[f32(2)] * 3)
    assert len(only(simple, "while").inputs) == (3 if bound else 4)
    assert only(simple, "exp").inputs == (simple.inputs[1],)
    found, _ = evaluate(simple, [0 * ones, 2 * ones, ones])
    np.testing.assert_array_equal(found, [7, 7])  # ((0*2+1)*2+1)*2+1


def test_unchanging_carries_of_scan_become_constants() -> None:
    weights = np.full(2, 3, np.float32)

    def function(h: Any, g: Any, x: Any) -> Any:
        body = trace_graph(lambda w, g, h, x: (g, ops.add(ops.mul(h, w), ops.add(g, x)), g), [f32(2)] * 4, "body")
        return ops.scan([weights, g, h, x], [body], consts=1, carries=2, length=x.shape[0], reverse=False)

    graph = trace_graph(function, [f32(2), f32(2), f32(3, 2)])
    simple = simplify(graph, Context())
    check_graph(simple)
    loop = only(simple, "scan")
    assert (loop.params["consts"], loop.params["carries"]) == (1, 1)
    assert loop.inputs == (graph.inputs[1], graph.inputs[0], graph.inputs[2])
    assert simple.outputs[0] is graph.inputs[1]
    rng = np.random.default_rng(1)
    args = [rng.standard_normal([int(d) for d in v.type.shape]).astype(np.float32) for v in graph.inputs]
    for found, wanted in zip(evaluate(simple, args), evaluate(graph, args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


# What stays


def test_a_graph_without_anything_to_do_is_returned_as_it_is() -> None:
    graph = trace_graph(lambda x: ops.exp(ops.sin(x)), [f32(2)])
    assert simplify(graph, Context()) is graph


def test_replaced_equations_keep_source_and_names() -> None:
    def function(x: Any) -> Any:
        with at_source(Source("layer/Add", "AddV2", ("model",))):
            y = ops.add(x, np.float32(2))
        with at_source(Source("layer/Relu", "Relu", ("model",))):
            return ops.relu(y)

    graph = trace_graph(function, [Var(f32(2), "x")])
    result = Var(f32(2), "scores")
    last = replace(graph.eqns[-1], outputs=(result,))
    simple = simplify(replace(graph, eqns=(*graph.eqns[:-1], last), outputs=(result,)), Context())
    assert names(simple) == ["add"]
    assert simple.inputs == graph.inputs
    assert simple.outputs == (result,)
    assert simple.eqns[0].source == Source("layer/Relu", "Relu", ("model",))


def test_constants_keep_their_objects() -> None:
    graph = trace_graph(lambda x: ops.relu(ops.fully_connected(x, np.ones((2, 4), np.float32))), [f32(B, 4)])
    constant = replace(graph.eqns[0].inputs[1], name="layer/kernel")  # type: ignore[type-var]
    dense = replace(graph.eqns[0], inputs=(graph.inputs[0], constant, None))
    simple = simplify(replace(graph, eqns=(dense, *graph.eqns[1:])), Context())
    assert names(simple) == ["fully_connected"]
    assert simple.eqns[0].inputs[1] is constant


STEPS: dict[str, Callable[[Any, Any], Any]] = {
    "twice": lambda x, y: ops.add(x, x),
    "add": lambda x, y: ops.add(x, y),
    "add-0": lambda x, y: ops.add(x, np.float32(0)),
    "add-1": lambda x, y: ops.add(np.float32(1), x),
    "mul-1": lambda x, y: ops.mul(x, np.ones((2, 3, 1), np.float32)),
    "relu": lambda x, y: ops.relu(x),
    "relu6": lambda x, y: ops.relu6(x),
    "tanh": lambda x, y: ops.tanh(x),
    "there-and-back": lambda x, y: ops.reshape(ops.reshape(x, ints(-1)), ints(2, 3, 4)),
    "turned": lambda x, y: ops.transpose(ops.transpose(x, ints(1, 2, 0)), ints(2, 0, 1)),
    "expanded": lambda x, y: ops.squeeze(ops.expand_dims(x, 1), squeeze_dims=(1,)),
    "dense": lambda x, y: ops.fully_connected(x, np.eye(4, dtype=np.float32) * 2, keep_num_dims=True),
    "bias": lambda x, y: ops.sub(x, np.arange(4, dtype=np.float32)),
    "first": lambda x, y: ops.sub(x, ops.gather(x, ints(0), axis=1)),
    "same": lambda x, y: ops.cast(x, out_data_type=DType.f32),
}


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 99), st.integers(0, 99)), max_size=14),
    st.integers(0, 99),
)
def test_random_graphs_keep_types_and_numbers(steps: list[tuple[str, int, int]], result: int) -> None:
    def function(x: Any, y: Any) -> Any:
        values = [x, y]
        for name, i, j in steps:
            values.append(STEPS[name](values[-1 - i % len(values)], values[j % len(values)]))
        return values[-1], values[result % len(values)]

    graph = trace_graph(function, [f32(2, 3, 4)] * 2)
    simple = simplify(graph, Context())
    check_graph(simple)
    assert simple.inputs == graph.inputs
    assert [o.type for o in simple.outputs] == [o.type for o in graph.outputs]
    assert len(simple.eqns) <= len(graph.eqns)
    args = [np.random.default_rng(s).standard_normal((2, 3, 4)).astype(np.float32) for s in (1, 2)]
    for found, wanted in zip(evaluate(simple, args), evaluate(graph, args), strict=True):
        # 1e-5: biases of up to 14 f32 terms are summed in another order
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5 * float(np.max(np.abs(wanted))))


# The driver


def chain(length: int) -> Graph:
    def function(x: Any) -> Any:
        for i in range(length // 5):
            y = ops.relu(ops.add(x, np.float32(i)))
            y = ops.reshape(ops.reshape(y, ints(8)), ints(2, 4))
            x = ops.tanh(y)
        return x

    return trace_graph(function, [f32(2, 4)])


def rule_calls(graph: Graph) -> tuple[int, int]:
    """How often simplify tries a rule on the graph, and how many equations are left."""
    calls = 0

    def counted(rule: PeepholeRule) -> PeepholeRule:
        def call(eqn: Eqn, view: GraphView) -> Any:
            nonlocal calls
            calls += 1
            return rule(eqn, view)

        return call

    simple = simplify(graph, Context(), {op: tuple(map(counted, rules)) for op, rules in PEEPHOLE_RULES.items()})
    return calls, len(simple.eqns)


def test_the_work_is_linear_in_equations() -> None:
    (small, left), (large, more) = rule_calls(chain(500)), rule_calls(chain(5000))
    assert (left, more) == (200, 2000)
    assert large <= 10.1 * small


def test_rules_that_undo_each_other_are_named() -> None:
    def doubled(eqn: Eqn, view: Any) -> Any:
        return ops.add(ops.neg(eqn.inputs[0]), np.float32(1))

    def halved(eqn: Eqn, view: Any) -> Any:
        made_by = view.producer(eqn.inputs[0])
        return ops.exp(made_by.inputs[0]) if made_by is not None and made_by.op is ops.neg else None

    ctx, graph = Context(), trace_graph(ops.exp, [f32(2)])
    simple = simplify(graph, ctx, {ops.exp: (doubled,), ops.add: (halved,)})
    assert [e.op.name for e in simple.eqns] == ["exp"]  # the shorter of the two
    (note,) = ctx.report.notes
    assert "simplify found no end in graph main" in note
    assert note.endswith("doubled, halved")


def test_a_rule_of_another_type_is_refused() -> None:
    graph = trace_graph(ops.exp, [f32(2)])
    with pytest.raises(TypeMismatch, match="exp was replaced by a result of another type"):
        simplify(graph, Context(), {ops.exp: (lambda eqn, view: ops.expand_dims(eqn.inputs[0], 0),)})


def test_a_rule_may_not_assume_equal_sizes() -> None:
    graph = trace_graph(lambda x, y: (ops.exp(x), y), [f32(B, 2), f32(T, 2)])
    other = graph.inputs[1]
    simple = simplify(graph, Context(), {ops.exp: (lambda eqn, view: ops.add(eqn.inputs[0], other),)})
    assert simple is graph


def test_shared_bodies_stay_shared() -> None:
    def function(flag: Any, x: Any) -> Any:
        body = trace_graph(lambda x: ops.relu(ops.add(x, np.float32(1))), [f32(2)], "body")
        (y,) = ops.if_([flag, x], [body, body])
        return ops.if_([flag, y], [body, body])

    simple = simplified(function, FLAG, f32(2))
    bodies = {id(body) for eqn in simple.eqns for body in eqn.bodies}
    assert len(bodies) == 1
    assert [e.op.name for e in all_eqns(simple)] == ["if", "if", "add"]
