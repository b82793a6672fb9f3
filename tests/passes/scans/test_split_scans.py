"""Scans taken apart: one recurrence each, and the rest on all steps at once; against the same steps in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.scans.fission.split_scans import hoisted, split_scans
from jfuse.running.runner import Runner
from tests.passes.scans.steps import (
    BIAS,
    RNG,
    WIDTH,
    B,
    Loop,
    T,
    U,
    V,
    W,
    apart,
    arguments,
    check,
    expect,
    f32,
    hoist,
    inside,
    names,
    scans,
    softmax,
)
from tests.slow import every_other, slow_but

NARROW = RNG.standard_normal((3, WIDTH)).astype(np.float32)


def cell(h: Any, x: Any, u: np.ndarray = U) -> Any:
    return ops.tanh(ops.add(ops.fully_connected(h, u), ops.fully_connected(x, W, BIAS)))


def written_cell(h: np.ndarray, x: np.ndarray, u: np.ndarray = U) -> np.ndarray:
    return np.asarray(np.tanh(h @ u.T + x @ W.T + BIAS))


def stacked(g: Any, h: Any, x: Any) -> Any:
    first = cell(g, x)
    second = cell(h, first, V)
    return first, second, second


def lstm(h: Any, c: Any, x: Any) -> Any:
    gate = ops.logistic(cell(h, x))
    c = ops.add(ops.mul(gate, c), x)
    h = ops.mul(gate, ops.tanh(c))
    return h, c, h


def written_lstm(h: Any, c: Any, x: Any) -> Any:
    gate = 1 / (1 + np.exp(-written_cell(h, x)))
    c = gate * c + x
    h = gate * np.tanh(c)
    return h, c, h


# Loops of several recurrences: the numbers of carries of the scans that come out.
SEVERAL = {
    "stacked": (
        Loop(stacked, lambda g, h, x: ((f := written_cell(g, x)), (s := written_cell(h, f, V)), s)),
        [1, 1],
    ),
    "independent": (
        Loop(
            lambda g, h, x, y: (cell(g, x), cell(h, y, V), ops.add(g, h)),
            lambda g, h, x, y: (written_cell(g, x), written_cell(h, y, V), g + h),
            sequences=2,
        ),
        [1, 1],
    ),
    "reads-the-old-value": (
        Loop(lambda g, h, x: (cell(g, x), cell(h, g, V)), lambda g, h, x: (written_cell(g, x), written_cell(h, g, V))),
        [1, 1],
    ),
    "second-stands-first": (
        Loop(
            lambda h, g, x: (cell(h, f := cell(g, x), V), f, h),
            lambda h, g, x: (written_cell(h, f := written_cell(g, x), V), f, h),
        ),
        [1, 1],
    ),
    "nonlinear-between": (
        Loop(
            lambda g, h, x: ((f := cell(g, x)), cell(h, ops.relu(f), V)),
            lambda g, h, x: ((f := written_cell(g, x)), written_cell(h, np.maximum(f, 0), V)),
        ),
        [1, 1],
    ),
    "three-of-which-two-need-each-other": (
        Loop(
            lambda g, h, k, x: (cell(h, x), cell(g, x, V), cell(k, h), k),
            lambda g, h, k, x: (written_cell(h, x), written_cell(g, x, V), written_cell(k, h), k),
            states=3,
        ),
        [2, 1],
    ),
    "delayed-input": (
        Loop(lambda h, d, x: (cell(h, d), x, h), lambda h, d, x: (written_cell(h, d), x, h)),
        [1],
    ),
    "delayed-twice": (
        Loop(lambda h, d, e, x: (cell(h, e), x, d), lambda h, d, e, x: (written_cell(h, e), x, d), states=3),
        [1],
    ),
    "delayed-result": (
        Loop(lambda h, d, x: ((n := cell(h, x)), n, d), lambda h, d, x: ((n := written_cell(h, x)), n, d)),
        [1],
    ),
    "changing-places": (
        Loop(lambda g, h, x: (h, g, ops.mul(g, x), h), lambda g, h, x: (h, g, g * x, h)),
        [2],
    ),
}

# Loops of one recurrence, and what stands outside of it, by op.
AROUND = {
    "dense-on-the-result": (
        Loop(
            lambda h, x: ((n := cell(h, x)), ops.softmax(ops.fully_connected(n, NARROW))),
            lambda h, x: ((n := written_cell(h, x)), softmax(n @ NARROW.T)),
            states=1,
        ),
        ["scan", "fully_connected", "softmax"],
    ),
    "residual": (
        Loop(
            lambda h, x: ((n := cell(h, x)), ops.add(n, x)),
            lambda h, x: ((n := written_cell(h, x)), n + x),
            states=1,
        ),
        ["scan", "add"],
    ),
    "nonlinear-input": (
        Loop(
            lambda h, x: (cell(h, ops.relu(ops.fully_connected(x, V))), h),
            lambda h, x: (written_cell(h, np.maximum(x @ V.T, 0)), h),
            states=1,
        ),
        ["fully_connected", "relu", "scan", "expand_dims", "concatenation", "strided_slice"],
    ),
    "sum-of-two-inputs": (
        Loop(
            lambda h, x, y: (cell(h, ops.add(x, y)),),
            lambda h, x, y: (written_cell(h, x + y),),
            states=1,
            sequences=2,
        ),
        ["add", "scan"],  # two step inputs would be one too many for `recover`
    ),
    "input-handed-on": (
        Loop(lambda h, x: (cell(h, x), x), lambda h, x: (written_cell(h, x), x), states=1),
        ["scan"],
    ),
    "no-carry": (
        Loop(
            lambda x: (ops.tanh(ops.fully_connected(x, W, BIAS)),),
            lambda x: (np.tanh(x @ W.T + BIAS),),
            states=0,
        ),
        ["fully_connected", "tanh"],
    ),
    "constant-result": (
        Loop(lambda h, x: (cell(h, x), BIAS), lambda h, x: (written_cell(h, x), BIAS), states=1),
        ["scan", "shape", "strided_slice", "pack", "broadcast_to"],
    ),
    "unchanged-carry": (
        Loop(lambda h, g, x: (cell(h, ops.mul(x, g)), g), lambda h, g, x: (written_cell(h, x * g), g), states=2),
        ["scan"],
    ),
}

# What is one recurrence and nothing else stays as it is.
WHOLE = {
    "lstm": Loop(lstm, written_lstm),
    "carries-that-meet": Loop(
        lambda g, h, x: (cell(h, x), n := cell(g, x, V), n),
        lambda g, h, x: (written_cell(h, x), n := written_cell(g, x, V), n),
    ),
    "held-result": Loop(  # Keras repeats the last output where a mask says so
        lambda h, last, x: ((n := cell(h, x)), (o := ops.select_v2(ops.greater(x, 0.0), n, last)), o),
        lambda h, last, x: ((n := written_cell(h, x)), (o := np.where(x > 0, n, last)), o),
    ),
}


@pytest.mark.parametrize("reverse", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", every_other(SEVERAL))
def test_several_recurrences(name: str, reverse: bool) -> None:
    loop, carries = SEVERAL[name]
    graph = apart(loop.graph(reverse=reverse))
    assert [eqn.params["carries"] for eqn in scans(graph)] == carries
    assert all(eqn.params["reverse"] is reverse for eqn in scans(graph))
    check(loop, graph, reverse=reverse, litert=not reverse)


@pytest.mark.parametrize("name", every_other(AROUND))
def test_around_a_recurrence(name: str) -> None:
    loop, wanted = AROUND[name]
    graph = apart(loop.graph())
    assert names(graph) == wanted
    check(loop, graph)
    check(loop, apart(loop.graph(reverse=True)), reverse=True, litert=False)


@pytest.mark.parametrize("name", WHOLE)
def test_one_recurrence_stays(name: str) -> None:
    loop = WHOLE[name]
    graph = apart(loop.graph())
    assert [eqn.params["carries"] for eqn in scans(graph)] == [2]
    assert set(names(graph)) <= {"greater", "scan"}
    check(loop, graph, litert=False)


@pytest.mark.parametrize("name", slow_but(list(SEVERAL)[::2].__contains__, [*SEVERAL, *AROUND, *WHOLE]))
def test_hoisted(name: str) -> None:
    loop = SEVERAL[name][0] if name in SEVERAL else AROUND[name][0] if name in AROUND else WHOLE[name]
    for reverse in (False, True):
        check(loop, hoist(loop.graph(reverse=reverse)), reverse=reverse, litert=False)
    graph = hoist(loop.graph(length=5, batch=2))
    args = arguments(graph, {}, 0)
    expect(Runner(graph, quick=True)(args), loop.results(args, reverse=False))


def test_projection_of_the_input_is_hoisted() -> None:
    graph = hoist(WHOLE["lstm"].graph())
    (loop,) = scans(graph)
    assert names(graph) == ["fully_connected", "scan"]
    assert inside(loop).count("fully_connected") == 1


def test_what_all_steps_share_is_hoisted() -> None:
    types = [f32(WIDTH), f32(B, WIDTH), f32(B, WIDTH)]
    body = trace_graph(lambda s, h, x: (ops.add(ops.mul(h, ops.tanh(ops.exp(s))), x),), types)

    def function(s: Any, h: Any, x: Any) -> Any:
        return ops.scan([s, h, x], [body], consts=1, carries=1, length=T, reverse=False)

    graph = hoist(trace_graph(function, [f32(WIDTH), f32(B, WIDTH), f32(T, B, WIDTH)]))
    assert names(graph) == ["exp", "tanh", "scan"]
    s, h, x = args = arguments(graph, {"T": 3, "B": 2}, 0)
    for row in x:
        h = h * np.tanh(np.exp(s)) + row
    expect(Runner(graph, quick=True)(args), [h])


def test_affine_inputs_stay_with_their_recurrence() -> None:
    graph = apart(SEVERAL["stacked"][0].graph())
    assert all(inside(eqn).count("fully_connected") == 2 for eqn in scans(graph))
    assert all(eqn.params["consts"] == 0 and len(eqn.inputs) == 2 for eqn in scans(graph))


def test_ids_are_looked_up_at_once() -> None:
    table = RNG.standard_normal((10, WIDTH)).astype(np.float32)
    body = trace_graph(lambda h, i: (cell(h, ops.gather(table, i)),), [f32(B, WIDTH), TensorType((B,), DType.i32)])

    def function(h: Any, ids: Any) -> Any:
        return ops.scan([h, ids], [body], consts=0, carries=1, length=T, reverse=False)

    graph = apart(trace_graph(function, [f32(B, WIDTH), TensorType((T, B), DType.i32)]))
    assert names(graph) == ["gather", "scan"]
    h, ids = np.zeros((2, WIDTH), np.float32), RNG.integers(0, 10, (4, 2)).astype(np.int32)
    found = Runner(graph, quick=True)([h, ids])
    for row in table[ids]:
        h = written_cell(h, row)
    expect(found, [h])


def with_inner_loop(h: Any, x: Any) -> Any:
    """A step that runs a loop of its own over x: no op for all steps at once."""
    inner = trace_graph(lambda s, r: (ops.tanh(ops.add(s, r)),), [f32(B), f32(B)])
    columns = ops.transpose(x, (1, 0))
    start = ops.sum_(ops.mul(x, 0.0), (1,))
    (total,) = ops.scan([start, columns], [inner], consts=0, carries=1, length=WIDTH, reverse=False)
    n = cell(h, x)
    return n, ops.mul(total, 2.0), n


def written_with_inner_loop(h: np.ndarray, x: np.ndarray) -> Any:
    total = np.zeros(len(x), np.float32)
    for column in x.T:
        total = np.tanh(total + column)
    n = written_cell(h, x)
    return n, total * 2, n


def test_what_is_for_single_steps_only_is_a_loop_of_its_own() -> None:
    loop = Loop(with_inner_loop, written_with_inner_loop, states=1)
    graph = apart(loop.graph())
    outer = {eqn.params["carries"]: inside(eqn) for eqn in graph.eqns if eqn.op is ops.scan}
    assert outer[0].count("scan") == 1
    assert outer[1].count("scan") == 0
    check(loop, graph)


def test_loops_in_bodies_are_taken_apart() -> None:
    loop = SEVERAL["stacked"][0]
    whole = loop.graph(length=3, batch=2)
    types = [v.type for v in whole.inputs]
    then = trace_graph(lambda *args: evaluate(whole, args), types, "then")
    flag = TensorType((), DType.bool)
    graph = apart(trace_graph(lambda f, *args: ops.if_([f, *args], [then, then]), [flag, *types]))
    assert len(scans(graph)) == 4
    args = arguments(whole, {}, 0)
    expect(Runner(graph, quick=True)([np.array(True), *args]), loop.results(args, reverse=False))


def test_annotated_composites_are_left_alone() -> None:
    whole = SEVERAL["stacked"][0].graph(length=3, batch=2)
    types = [v.type for v in whole.inputs]
    graph = trace_graph(lambda *args: ops.composite(list(args), [whole], name="acme.stack"), types)
    assert split_scans(graph, Context()) is graph


def one_step_late(g: Any, h: Any, x: Any) -> Any:
    """The second recurrence reads what the first was before the step."""
    return cell(g, x), cell(h, g, V), h


def written_one_step_late(g: np.ndarray, h: np.ndarray, x: np.ndarray) -> Any:
    return written_cell(g, x), written_cell(h, g, V), h


@pytest.mark.parametrize(("state", "loops"), [("source", 2), ("reset", 2), ("keep", 1), ("io", 1)])
def test_old_values_stay_in_the_loop_where_its_states_become_inputs(state: str, loops: int) -> None:
    """Outside they are the initial state and all rows but the last: the initial state would be fixed there."""
    loop = Loop(one_step_late, written_one_step_late)
    graph = apart(loop.graph(), state)
    assert len(scans(graph)) == loops
    check(loop, graph, litert=False)


def effect(eqn: Eqn) -> Eqn:
    return Eqn(eqn.op, eqn.inputs, eqn.outputs, eqn.params, eqn.source, eqn.bodies, ("state",))


def test_loops_with_effects_stay() -> None:
    graph = SEVERAL["stacked"][0].graph()
    (loop,) = graph.eqns
    (body,) = loop.bodies
    touched = Graph(body.name, body.inputs, tuple(map(effect, body.eqns)), body.outputs)
    loop = Eqn(loop.op, loop.inputs, loop.outputs, loop.params, loop.source, (touched,))
    graph = Graph(graph.name, graph.inputs, (loop,), graph.outputs)
    assert split_scans(graph, Context()) is graph
    assert hoisted(loop) is None


def random_step(rng: np.random.Generator, states: int) -> Any:
    """A step of a dozen ops on whatever there is, with any next states and results."""
    makers = [
        lambda a, b: ops.tanh(ops.fully_connected(a, U)),
        lambda a, b: ops.fully_connected(a, V, BIAS),
        lambda a, b: ops.tanh(ops.add(a, b)),
        lambda a, b: ops.mul(ops.logistic(a), b),
        lambda a, b: ops.concatenation(*ops.split(1, a, num_splits=2)[::-1], axis=1),
        lambda a, b: ops.softmax(a),
        lambda a, b: ops.select_v2(ops.greater(ops.sum_(a, (1,), keep_dims=True), 0.0), a, b),
        lambda a, b: ops.minimum(ops.abs_(a), 0.5),
        lambda a, b: ops.dynamic_update_slice(a, np.ones((1, 2), np.float32), np.array([0, 1], np.int32)),
    ]

    def step(*args: Any) -> Any:
        pool = list(args)
        for _ in range(rng.integers(3, 12)):
            a, b = (pool[rng.integers(len(pool))] for _ in range(2))
            pool.append(makers[rng.integers(len(makers))](a, b))
        following = [pool[-1 - rng.integers(min(len(pool), 8))] for _ in range(states)]
        return (*following, *(pool[rng.integers(len(pool))] for _ in range(2)))

    return step


@pytest.mark.parametrize("seed", slow_but(lambda seed: seed < 4, range(16)))
def test_any_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    states = int(rng.integers(0, 5))
    loop = Loop(random_step(rng, states), lambda: (), states=states)
    graph = loop.graph(length=4, batch=2, reverse=bool(seed % 2))
    args = arguments(graph, {}, seed)
    wanted = Runner(graph, quick=True)(args)  # the scan as it was written, by jax's own scan
    for changed in (apart(graph), hoist(graph)):
        expect(Runner(changed, quick=True)(args), wanted)
