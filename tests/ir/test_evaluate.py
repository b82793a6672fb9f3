"""Running graphs: on NumPy, under jit, on Vars, with weights as arguments."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir import (
    Atom,
    Const,
    DType,
    Eqn,
    Graph,
    Op,
    Params,
    Source,
    TensorType,
    Var,
    at_source,
    check_graph,
    evaluate,
    format_graph,
    symbol,
    trace_graph,
)
from jfuse.ir.evaluate import large_constants, with_constants
from jfuse.kernels import ops
from jfuse.kernels.array.lists import reserve
from tests.ir.graphs import B, T, assert_same, f32, recurrent, weights


def by_hand(weight: np.ndarray, h: np.ndarray, xs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rows = []
    for x in xs:
        h = np.maximum(h @ weight, 0) - x
        rows.append(h)
    return h, np.stack(rows)


def states(batch: int, steps: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    return weights(batch, size, start=1), weights(steps, batch, size, start=3)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize(("batch", "steps"), [(1, 1), (3, 4)])
def test_numpy_and_jit_compute_the_same(batch: int, steps: int, x64: bool) -> None:
    weight = weights(2, 2, start=5)
    graph = recurrent(weight)
    args = states(batch, steps, 2)
    with jax.enable_x64(x64):
        on_numpy = evaluate(graph, args)
        jitted = jax.jit(lambda *a: evaluate(graph, a))(*args)
    assert all(isinstance(r, np.ndarray) for r in on_numpy)
    for results in (on_numpy, jitted):
        for found, wanted in zip(
            results, (*by_hand(weight, *args), np.array([steps, batch, 2], np.int32)), strict=True
        ):
            np.testing.assert_array_equal(found, wanted)  # whole numbers: exact in every order of summation
            assert found.dtype == wanted.dtype


def test_on_vars_it_records_the_same_graph() -> None:
    graph = recurrent(weights(2, 2))
    again = trace_graph(lambda *a: evaluate(graph, a), [v.type for v in graph.inputs])
    assert_same(again, graph)


def test_on_vars_sizes_are_those_of_the_caller() -> None:
    graph = recurrent(weights(2, 2))
    inlined = trace_graph(lambda *a: evaluate(graph, a), [f32(3, 2), f32(symbol("S"), 3, 2)])
    check_graph(inlined)
    scan = next(eqn for eqn in inlined.eqns if eqn.op is ops.scan)
    assert str(scan.params["length"]) == "S"
    assert [str(v.type) for v in scan.bodies[0].inputs] == ["f32[3,2]", "f32[3,2]"]
    args = states(3, 4, 2)
    for found, wanted in zip(evaluate(inlined, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_on_vars_sources_survive() -> None:
    def main(x: Any) -> Any:
        with at_source(Source("node", "Neg")):
            return ops.neg(x)

    graph = trace_graph(main, [f32(2)])
    (eqn,) = trace_graph(lambda x: evaluate(graph, [x]), [f32(2)]).eqns
    assert eqn.source == Source("node", "Neg")


def zeros_like_input() -> Graph:
    """x + reserve[shape=(B, 2)]: a symbol in a parameter, and no operand that shows it."""
    (x, zeros, out) = (Var(f32(B, 2)) for _ in range(3))
    make = Eqn(reserve, (), (zeros,), {"shape": (B, 2), "dtype": DType.f32})
    return Graph("main", (x,), (make, Eqn(ops.sub, (zeros, x), (out,), ops.sub.bind_options({}))), (out, zeros))


@pytest.mark.parametrize("batch", [1, 3])
def test_symbols_in_parameters_take_the_sizes_of_the_arguments(batch: int) -> None:
    x = weights(batch, 2)
    graph = zeros_like_input()
    for results in (evaluate(graph, [x]), jax.jit(lambda a: evaluate(graph, [a]))(x)):
        np.testing.assert_array_equal(results[0], -x)
        assert results[1].shape == (batch, 2)


def test_symbols_in_bodies_take_sizes_from_outside() -> None:
    (flag, rows, out) = (Var(f32()), Var(f32(T, 2)), Var(f32(T, 2)))

    def inner(count: int) -> Graph:
        zeros = Var(f32(T, 2))
        eqn = Eqn(reserve, (), (zeros,), {"shape": (T, 2), "dtype": DType.f32})
        return Graph("inner", (Var(f32()),) * count, (eqn,), (zeros,))

    eqn = Eqn(ops.composite, (flag,), (out,), {"name": "zeros"}, bodies=(inner(1),))
    graph = Graph("main", (flag, rows), (eqn,), (out,))
    assert evaluate(graph, [np.float32(1), weights(5, 2)])[0].shape == (5, 2)


def test_a_size_that_no_shape_gives_is_refused() -> None:
    x, zeros = Var(f32(2 * B)), Var(f32(B))
    eqn = Eqn(reserve, (), (zeros,), {"shape": (B,), "dtype": DType.f32}, Source("zeros", "Fill"))
    with pytest.raises(JfuseError, match=r"a parameter of reserve needs the size B, which no shape gives at zeros"):
        evaluate(Graph("main", (x,), (eqn,), (zeros,)), [np.zeros(4, np.float32)])


def test_a_wrong_number_of_arguments_is_refused() -> None:
    with pytest.raises(JfuseError, match=r"graph main takes 2 inputs\n  found     1"):
        evaluate(recurrent(weights(2, 2)), [weights(1, 2)])


def test_errors_name_the_equation() -> None:
    x, y = Var(f32(B)), Var(f32(B))
    eqn = Eqn(ops.while_, (x,), (y,), {}, Source("loop", "While"), ())
    with pytest.raises(JfuseError, match=r"at loop \(While\)"):
        trace_graph(lambda a: evaluate(Graph("main", (x,), (eqn,), (y,)), [a]), [f32(2)])


def test_observe_sees_each_equation_of_the_graph_itself() -> None:
    graph = recurrent(weights(2, 2))
    seen: list[Eqn] = []
    evaluate(graph, states(2, 3, 2), observe=lambda eqn, results: seen.append(eqn))
    assert seen == list(graph.eqns)


def test_constants_and_omitted_results_are_returned_as_they_are() -> None:
    array = np.arange(3, dtype=np.int64)
    (result,) = evaluate(Graph("main", (), (), (Const(array),)), [])
    assert result is array


def test_large_constants_are_floats_listed_once_and_found_in_bodies() -> None:
    weight, other = weights(9, 9), weights(9, 9, start=1)

    def main(h: Any) -> Any:
        body = trace_graph(lambda a: ops.batch_matmul(ops.batch_matmul(a, other), weight), [h.type], "body")
        picked = ops.gather(h, np.zeros(100, np.int32), axis=0)
        product = ops.batch_matmul(ops.batch_matmul(h, weight), weights(9, 1))
        return ops.composite([h], [body], name="x")[0], picked, product

    found = large_constants(trace_graph(main, [f32(2, 9)]))
    assert [id(a) for a in found] == [id(weight), id(other)]


def test_one_program_serves_graphs_that_differ_in_weights_alone() -> None:
    first, second = recurrent(weights(9, 9)), recurrent(weights(9, 9, start=3))
    keys = [format_graph(g, sources=False, hoisted=large_constants(g)) for g in (first, second)]
    assert keys[0] == keys[1]
    assert str(first) != str(second)
    traces: list[int] = []
    run = with_constants(first, large_constants(first))

    @jax.jit
    def program(values: Any, args: Any) -> Any:
        traces.append(1)
        return run(values, args)

    args = states(2, 3, 9)
    for graph in (first, second):
        for found, wanted in zip(program(large_constants(graph), args), evaluate(graph, args), strict=True):
            np.testing.assert_array_equal(found, wanted)
    assert len(traces) == 1
    different = [bool(np.any(a != b)) for a, b in zip(evaluate(first, args), evaluate(second, args), strict=True)]
    assert any(different)


class Pause(Op):
    """The identity; somebody else may do something in the middle of a run."""

    name = "test.pause"

    def __init__(self, meanwhile: Callable[[], None]) -> None:
        self.meanwhile = meanwhile

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        return tuple(a.type for a in inputs if a is not None)

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        self.meanwhile()
        return tuple(inputs)


def test_stand_ins_end_with_the_call_and_stay_in_their_thread() -> None:
    weight, x = weights(9, 9), weights(1, 9, start=2)
    product = trace_graph(lambda a: ops.batch_matmul(a, weight), [f32(1, 9)])
    elsewhere: list[np.ndarray] = []

    def meanwhile() -> None:
        thread = threading.Thread(target=lambda: elsewhere.extend(evaluate(product, [x])))
        thread.start()
        thread.join()

    (a,), middle = product.inputs, Var(f32(1, 9))
    paused = Graph("main", (a,), (Eqn(Pause(meanwhile), (a,), (middle,)), *product.eqns), product.outputs)
    (doubled,) = with_constants(paused, [weight])([2 * weight], [x])
    np.testing.assert_array_equal(doubled, 2 * (x @ weight))
    np.testing.assert_array_equal(elsewhere, [x @ weight])
    np.testing.assert_array_equal(evaluate(product, [x])[0], x @ weight)
