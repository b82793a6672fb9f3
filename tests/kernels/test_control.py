"""scan, while, if and composite: on arrays, under jit, recorded; against plain loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir import DType, Graph, TensorType, check_graph, evaluate, trace_graph
from jfuse.ir.evaluate import with_constants
from jfuse.ir.graph import Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import depends_on_data
from tests.ir.graphs import B, T, f32, i32, weights

BOOL = TensorType((), DType.bool)
Run = Callable[[Graph, Sequence[Any]], tuple[Any, ...]]


def jitted(graph: Graph, args: Sequence[Any]) -> tuple[Any, ...]:
    results: tuple[Any, ...] = jax.jit(lambda *a: evaluate(graph, a))(*args)
    return results


def recorded_again(graph: Graph, args: Sequence[Any]) -> tuple[Any, ...]:
    inlined = trace_graph(lambda *a: evaluate(graph, a), [v.type for v in graph.inputs])
    check_graph(inlined)
    return evaluate(inlined, args)


every_way = pytest.mark.parametrize("run", [evaluate, jitted, recorded_again])


def assert_equal(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for f, w in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(f, w)
        assert f.dtype == w.dtype


def test_what_a_loop_carries_unchanged_is_known_in_it() -> None:
    """A size that is counted to must be a number, under jax as well."""
    count, known = i32(), np.array(3, object)
    turns = trace_graph(lambda i, total, n: ops.less(i, np.int32(2)), [i32(), i32(), count], "turns")
    inputs = [Var(i32()), Var(i32()), Var(count, value=known)]

    def step(i: Any, total: Any, n: Any) -> tuple[Any, ...]:
        added = ops.sum_(ops.range_(np.int32(0), n, np.int32(1)), np.zeros(1, np.int32))
        return ops.add(i, np.int32(1)), ops.add(total, added), n

    body = trace_graph(step, inputs, "step")
    found = jax.jit(lambda i: ops.while_([i, np.int32(0), np.int32(3)], [turns, body]))(np.int32(0))
    assert [int(v) for v in found] == [2, 6, 3]


def running_sum(steps: Any, *, reverse: bool) -> Graph:
    """scale * x added up over the steps, and each partial sum with its index."""

    def step(scale: Any, total: Any, count: Any, x: Any) -> tuple[Any, ...]:
        total = ops.add(total, ops.mul(scale, x))
        return total, ops.add(count, np.int32(1)), total, count

    body = trace_graph(step, [f32(), f32(B), i32(), f32(B)], "step")

    def main(scale: Any, total: Any, xs: Any) -> tuple[Any, ...]:
        operands = [scale, total, np.int32(0), xs]
        results: tuple[Any, ...] = ops.scan(operands, [body], consts=1, carries=2, length=steps, reverse=reverse)
        return results

    return trace_graph(main, [f32(), f32(B), f32(steps, B)])


@every_way
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("steps", "batch"), [(4, 3), (1, 1), (0, 2)])
def test_scan(run: Run, steps: int, batch: int, reverse: bool) -> None:
    scale, start, xs = np.float32(2), weights(batch), weights(steps, batch, start=3)
    graph = running_sum(T if steps else 0, reverse=reverse)
    check_graph(graph)
    total, sums, counts = start, np.zeros((steps, batch), np.float32), np.zeros(steps, np.int32)
    for count, t in enumerate(reversed(range(steps)) if reverse else range(steps)):
        total = total + scale * xs[t]
        sums[t], counts[t] = total, count
    assert_equal(run(graph, [np.asarray(scale), start, xs]), (total, np.asarray(steps, np.int32), sums, counts))


def test_scan_on_numpy_gives_numpy() -> None:
    graph = running_sum(3, reverse=False)
    results = evaluate(graph, [np.ones((), np.float32), weights(2), weights(3, 2)])
    assert all(isinstance(r, np.ndarray) for r in results)


def test_scan_over_nothing_but_a_length() -> None:
    body = trace_graph(lambda h: (ops.add(h, h), h), [f32(2)], "step")
    doubled, rows = ops.scan([np.ones(2, np.float32)], [body], consts=0, carries=1, length=3)
    assert_equal([doubled, rows], [np.full(2, 8, np.float32), np.array([[1, 1], [2, 2], [4, 4]], np.float32)])


def test_scan_refuses_steps_of_another_number() -> None:
    body = trace_graph(lambda h, x: ops.add(h, x), [f32(2), f32(2)], "step")
    with pytest.raises(TypeMismatch, match=r"scan does not take these operands(.|\n)*f32\[4,2\] for 3 steps"):
        trace_graph(lambda h, xs: ops.scan([h, xs], [body], consts=0, carries=1, length=3), [f32(2), f32(4, 2)])


def test_scan_refuses_a_carry_that_changes_its_type() -> None:
    body = trace_graph(lambda h: ops.concatenation(h, h, axis=0), [f32(2)], "step")
    with pytest.raises(TypeMismatch, match=r"carried value 0: f32\[4\] for f32\[2\]"):
        trace_graph(lambda h: ops.scan([h], [body], consts=0, carries=1, length=3), [f32(2)])


def test_parameters_without_default_are_required() -> None:
    with pytest.raises(TypeMismatch, match=r"scan needs the parameters \['carries', 'length'\]"):
        ops.scan([], [], consts=0)


def power_below(limit: int, weight: np.ndarray | None = None) -> Graph:
    """x doubled (or multiplied by a weight) until the count reaches n or its first element the limit."""
    factor = np.float32(2) if weight is None else weight

    def going_on(count: Any, n: Any, x: Any) -> Any:
        small = ops.less(ops.reduce_max(x, np.array([0], np.int32)), np.float32(limit))
        return ops.logical_and(ops.less(count, n), small)

    def step(count: Any, n: Any, x: Any) -> tuple[Any, ...]:
        return ops.add(count, np.int32(1)), n, ops.mul(x, factor)

    types = [i32(), i32(), f32(100 if weight is not None else B)]
    bodies = [trace_graph(going_on, types, "cond"), trace_graph(step, types, "body")]

    def main(n: Any, x: Any) -> tuple[Any, ...]:
        count, _, x = ops.while_([np.int32(0), n, x], bodies)
        return count, x

    return trace_graph(main, types[1:])


@every_way
@pytest.mark.parametrize("n", [0, 1, 5])
@pytest.mark.parametrize("start", [1.0, 30.0])
def test_while(run: Run, n: int, start: float) -> None:
    graph = power_below(100)
    check_graph(graph)
    x, count = np.array([start, -1], np.float32), 0
    want = x
    while count < n and want.max() < 100:
        want, count = want * np.float32(2), count + 1
    assert_equal(run(graph, [np.asarray(n, np.int32), x]), [np.asarray(count, np.int32), want])


def test_while_turns_to_jax_where_only_the_weights_are_traced() -> None:
    weight = np.full(100, 2, np.float32)
    graph = power_below(1000, weight)
    run = with_constants(graph, [weight])
    args = (np.asarray(6, np.int32), np.ones(100, np.float32))
    program = jax.jit(lambda value: run([value], args))
    assert_equal(program(weight), [np.int32(6), np.full(100, 64, np.float32)])
    assert_equal(program(weight * 8), [np.int32(3), np.full(100, 4096, np.float32)])  # 16, 256, 4096


def test_while_on_numpy_takes_a_body_whose_carry_grows() -> None:
    """What jax cannot trace still runs equation by equation."""
    grow = trace_graph(lambda x: ops.concatenation(x, x, axis=0), [f32(B)], "body")
    short = trace_graph(lambda x: ops.less(ops.sum_(x, np.array([0], np.int32)), np.float32(7)), [f32(B)], "cond")
    (grown,) = ops.while_([np.ones(2, np.float32)], [short, grow])
    assert_equal([grown], [np.ones(8, np.float32)])


def test_while_refuses_a_condition_that_is_no_flag() -> None:
    body = trace_graph(ops.neg, [f32(2)], "body")
    with pytest.raises(TypeMismatch, match=r"the condition gives f32\[2\], not one bool"):
        trace_graph(lambda x: ops.while_([x], [body, body]), [f32(2)])


def either() -> Graph:
    then = trace_graph(lambda x, y: (ops.add(x, y), x), [f32(B), f32(B)], "then")
    other = trace_graph(lambda x, y: (ops.sub(x, y), y), [f32(B), f32(B)], "else")
    return trace_graph(lambda flag, x, y: ops.if_([flag, x, y], [then, other]), [BOOL, f32(B), f32(B)])


@every_way
@pytest.mark.parametrize("flag", [False, True])
def test_if(run: Run, flag: bool) -> None:
    graph = either()
    check_graph(graph)
    x, y = weights(3), weights(3, start=2)
    assert_equal(run(graph, [np.asarray(flag), x, y]), (x + y, x) if flag else (x - y, y))


def test_branches_of_unequal_size_give_a_size_known_at_run_time() -> None:
    then = trace_graph(ops.neg, [f32(2)], "then")
    other = trace_graph(lambda x: ops.concatenation(x, x, axis=0), [f32(2)], "else")
    graph = trace_graph(lambda flag, x: ops.if_([flag, x], [then, other]), [BOOL, f32(2)])
    check_graph(graph)
    assert [str(a.type) for a in graph.outputs] == ["f32[N]"]
    assert depends_on_data(graph.eqns[0])
    assert [evaluate(graph, [np.asarray(f), weights(2)])[0].size for f in (True, False)] == [2, 4]


def test_if_refuses_branches_of_unequal_type() -> None:
    then = trace_graph(ops.neg, [f32(2)], "then")
    other = trace_graph(lambda x: ops.expand_dims(x, 0), [f32(2)], "else")
    with pytest.raises(TypeMismatch, match=r"branch result 0: f32\[2\] for f32\[1,2\]"):
        trace_graph(lambda flag, x: ops.if_([flag, x], [then, other]), [BOOL, f32(2)])


def test_a_while_whose_carry_grows() -> None:
    """The body's own symbol stands for the size in each step."""
    grow = trace_graph(lambda x: ops.concatenation(x, np.ones(1, np.float32), axis=0), [f32(B)], "body")
    short = trace_graph(lambda x: ops.less(ops.sum_(x, np.array([0], np.int32)), np.float32(7)), [f32(B)], "cond")
    graph = trace_graph(lambda x: ops.while_([x], [short, grow]), [f32(2)])
    check_graph(graph)
    assert [str(a.type) for a in graph.outputs] == ["f32[N]"]
    assert depends_on_data(graph.eqns[0])
    assert_equal(evaluate(graph, [np.ones(2, np.float32)]), [np.ones(7, np.float32)])


def test_while_refuses_a_carry_whose_size_changes_although_it_is_known() -> None:
    grow = trace_graph(lambda x: ops.concatenation(x, x, axis=0), [f32(2)], "body")
    flag = trace_graph(lambda x: ops.less(ops.sum_(x, np.array([0], np.int32)), np.float32(7)), [f32(2)], "cond")
    with pytest.raises(TypeMismatch, match=r"carried value 0: f32\[4\] for f32\[2\]"):
        trace_graph(lambda x: ops.while_([x], [flag, grow]), [f32(2)])


def test_if_refuses_a_number_as_its_flag() -> None:
    then = trace_graph(ops.neg, [f32(2)], "then")
    with pytest.raises(TypeMismatch, match=r"the condition is i32\[\], not one bool"):
        trace_graph(lambda flag, x: ops.if_([flag, x], [then, then]), [i32(), f32(2)])


@every_way
def test_composite(run: Run) -> None:
    body = trace_graph(lambda x, y: (ops.mul(x, y), ops.neg(x)), [f32(B, 2), f32(2)], "body")
    graph = trace_graph(lambda x: ops.composite([x, weights(2)], [body], name="acme.Cell"), [f32(B, 2)])
    check_graph(graph)
    (eqn,) = graph.eqns
    assert eqn.params == {"name": "acme.Cell", "arguments": (), "attributes": ()}
    x = weights(3, 2, start=1)
    assert_equal(run(graph, [x]), (x * weights(2), -x))


def test_composite_refuses_operands_that_its_body_does_not_take() -> None:
    body = trace_graph(ops.neg, [f32(2)], "body")
    with pytest.raises(TypeMismatch, match=r"operand: 2 values for 1"):
        trace_graph(lambda x: ops.composite([x, x], [body], name="acme.Cell"), [f32(2)])


def test_equalities_of_sizes_reach_the_bodies() -> None:
    """A body of a loop may be made before its sizes are found to be equal."""

    def main(x: Any, y: Any) -> Any:
        body = trace_graph(ops.neg, [y.type], "body")
        z = ops.add(x, y)
        return ops.composite([z], [body], name="neg")[0]

    graph = trace_graph(main, [f32(4, 2), f32(B, 2)])
    check_graph(graph)
    assert [str(v.type) for v in graph.eqns[-1].bodies[0].inputs] == ["f32[4,2]"]
