"""Single steps of a recurrence, with their states as inputs and results of the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites import recurrent
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.recover.cells.rnn import recover_rnn
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.recover.cells.svdf import recover_svdf
from jfuse.lowering.rules import Rule, RuleSet
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.fuse.single_steps import recover_single_steps
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.running.runner import Runner
from tests import cells
from tests.cells import BATCH, INPUTS, UNITS, Loop, dense, f32, gate, weights
from tests.passes.fuse.composites import check_made

RULES: list[Rule] = [
    recover_lstm,
    recover_rnn,
    recover_svdf,
    recurrent.fuse_lstm,
    recurrent.fuse_rnn,
    recurrent.fuse_svdf,
]
STATE, X = f32(BATCH, UNITS), f32(BATCH, INPUTS)
FILTERS, MEMORY, OUTPUTS = 4, 3, 2
FEATURE, TIME, BIAS = weights(INPUTS, FILTERS), weights(FILTERS, MEMORY), weights(OUTPUTS)


def fused(graph: Graph) -> tuple[list[str], Graph]:
    """The names of the operators after recovery and fusion, nothing refused, and the graph."""
    ctx = Context(rules=RuleSet().extended(RULES), sub=SUB_PASSES)
    result = fuse(recover(graph, ctx), ctx)
    check_graph(result, types=True)
    check_made(ctx, RULES)
    assert ctx.report.refused == []
    return [e.op.name for e in result.eqns], result


def check_same(graph: Graph, result: Graph) -> None:
    random = np.random.default_rng(1)
    shapes = [[3 if d is BATCH else d for d in v.type.shape] for v in graph.inputs]
    args = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    for found, wanted in zip(Runner(result, quick=True)(args), Runner(graph, quick=True)(args), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)  # f32, one step


LSTMS: dict[str, Callable[..., Any]] = {
    "plain": lambda x, h, c: cells.keras(h, c, x),
    "swapped": lambda x, h, c: cells.keras(h, c, x)[1::-1],
    "peepholes": lambda x, h, c: cells.peepholes(h, c, x),
    "with_more": lambda x, h, c: [ops.square(v) if k == 2 else v for k, v in enumerate(cells.keras(h, c, ops.tanh(x)))],
}


@pytest.mark.parametrize("name", LSTMS)
def test_lstm(name: str) -> None:
    graph = trace_graph(lambda *args: tuple(LSTMS[name](*args)), [X, STATE, STATE])
    names, result = fused(graph)
    assert names.count("lstm") == 1
    assert "logistic" not in names
    check_same(graph, result)


def test_two_layers() -> None:
    def model(x: Array, h: Array, c: Array, h2: Array, c2: Array) -> tuple[Array, ...]:
        h, c, _ = cells.keras(h, c, x)
        z = ops.add(dense(h, cells.R, cells.B), dense(h2, cells.R))
        h2, c2 = cells.update(ops.split(1, z, num_splits=4), c2)
        return dense(h2, cells.R), h, c, h2, c2

    graph = trace_graph(model, [X, STATE, STATE, STATE, STATE])
    names, result = fused(graph)
    assert names.count("lstm") == 2
    assert "logistic" not in names
    check_same(graph, result)


def test_rnn() -> None:
    graph = trace_graph(lambda x, h: cells.simple(ops.relu)(h, x), [X, STATE])
    names, result = fused(graph)
    assert names.count("rnn") == 1
    check_same(graph, result)


def svdf(act: Callable[[Array], Array] = ops.relu, *, oldest_last: bool = False) -> Callable[..., tuple[Array, ...]]:
    """Two filters for each output over the last three steps; the state is f[b, filters * memory]."""

    def step(x: Array, state: Array) -> tuple[Array, ...]:
        memory = ops.reshape(state, [-1, FILTERS, MEMORY])
        newest = ops.expand_dims(dense(x, FEATURE), 2)
        if oldest_last:
            kept = ops.strided_slice(memory, [0, 0, 0], [0, 0, -1], [1, 1, 1], begin_mask=7, end_mask=3)
            window, time = ops.concatenation(newest, kept, axis=2), TIME[:, ::-1]
        else:
            kept = ops.strided_slice(memory, [0, 0, 1], [0, 0, 0], [1, 1, 1], begin_mask=3, end_mask=7)
            window, time = ops.concatenation(kept, newest, axis=2), TIME
        found = ops.sum_(ops.mul(window, np.ascontiguousarray(time)), [2])
        y = ops.sum_(ops.reshape(found, [-1, OUTPUTS, FILTERS // OUTPUTS]), [2])
        return act(ops.add(y, BIAS)), ops.reshape(window, [-1, FILTERS * MEMORY])

    return step


@pytest.mark.parametrize("act", [ops.relu, ops.tanh, lambda z: z], ids=["relu", "tanh", "none"])
@pytest.mark.parametrize("oldest_last", [False, True])
def test_svdf(act: Any, oldest_last: bool) -> None:
    graph = trace_graph(svdf(act, oldest_last=oldest_last), [X, f32(BATCH, FILTERS * MEMORY)])
    names, result = fused(graph)
    assert names.count("svdf") == 1
    assert names.count("gather") == (2 if oldest_last else 0)
    assert not {"mul", "relu", "concatenation"} & set(names)
    (eqn,) = [e for e in result.eqns if e.op is ops.svdf]
    assert eqn.params["rank"] == FILTERS // OUTPUTS
    check_same(graph, result)


def skipped(x: Array, h: Array) -> Array:
    """A residual connection."""
    return ops.add(dense(x, gate(cells.W, 0)), h)


def without_input(h: Array) -> Array:
    return ops.tanh(dense(h, gate(cells.R, 0)))


def old_window(x: Array, state: Array) -> tuple[Array, ...]:
    """The output is of the steps before."""
    memory = ops.reshape(state, [-1, FILTERS, MEMORY])
    y = ops.relu(ops.sum_(ops.mul(memory, TIME), [2]))
    return y, svdf()(x, state)[1]


def added(x: Array, h: Array) -> Array:
    """The input as it is, to which a product of the state is added."""
    return ops.tanh(ops.add(x, dense(h, gate(cells.R, 0))))


OTHERS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "residual": (skipped, [X, STATE]),
    "input_without_weights": (added, [STATE, STATE]),
    "state_without_weights": (lambda x, h: ops.relu(ops.add(dense(x, gate(cells.W, 0)), h)), [X, STATE]),
    "no_weights": (lambda x, h: ops.relu(ops.sub(x, h)), [STATE, STATE]),
    "diagonal_lstm": (lambda x, h, c: cells.diagonal(h, c, x), [X, STATE, STATE]),
    "without_input": (without_input, [STATE]),
    "gru": (lambda x, h: cells.gru(reset_after=True)(h, x)[0], [X, STATE]),
    "old_window": (old_window, [X, f32(BATCH, FILTERS * MEMORY)]),
    "other_type": (lambda x, h: ops.tanh(ops.add(dense(x, cells.W), dense(h, cells.R))), [X, STATE]),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_graphs_stay_as_they_are(name: str) -> None:
    graph = eliminate_dead_code(trace_graph(*OTHERS[name]))
    ctx = Context(rules=RuleSet().extended(RULES), sub=SUB_PASSES)
    assert recover(graph, ctx) is graph
    assert ctx.report.refused == []


def test_a_single_step_that_weighs_nothing_is_refused_by_name() -> None:
    def step(state: Array, x: Array) -> tuple[Array, ...]:
        return (ops.relu(ops.add(x, state)),)

    loop = Loop(step, carries=[STATE], xs=[STATE]).eqn()
    with pytest.raises(NotFused, match="single_step_weights: want weights of the input"):
        recover_rnn(Step(loop, one_step=True))


def test_svdf_has_no_form_for_sequences() -> None:
    def step(state: Array, x: Array) -> tuple[Array, ...]:
        return svdf()(x, state)[::-1]

    with pytest.raises(NotFused, match="single_step: want one step"):
        recover_svdf(Step(Loop(step, carries=[f32(BATCH, FILTERS * MEMORY)]).eqn()))


def test_what_is_no_svdf_is_refused_by_name() -> None:
    def step(state: Array, x: Array) -> tuple[Array, ...]:
        return ops.add(dense(state, gate(cells.R, 0)), dense(x, gate(cells.W, 0))), ops.tanh(state)

    with pytest.raises(NotFused, match=r"not_svdf: .* got a state that moves otherwise"):
        recover_svdf(Step(Loop(step, carries=[STATE]).eqn(), one_step=True))


def test_fused_recurrences_are_no_part_of_a_step() -> None:
    """Reading a step computes its constants: a fused recurrence in it would be compiled for each pair of states."""
    tried: list[Eqn] = []

    def read(eqn: Eqn) -> None:
        tried.append(eqn)

    graph = trace_graph(lambda *args: tuple(LSTMS["plain"](*args)), [X, STATE, STATE])
    _, made = fused(graph)
    assert recover_single_steps(graph, read) is graph
    assert tried
    tried.clear()
    assert recover_single_steps(made, read) is made
    assert tried == []


def test_a_long_computation_is_given_up_early() -> None:
    """Read as a tree it would have 2**60 leaves."""

    def doubled(x: Array, h: Array) -> Array:
        for _ in range(60):
            h = ops.add(ops.mul(h, h), ops.mul(ops.tanh(h), 0.5))
        return ops.add(h, dense(x, gate(cells.W, 0)))

    graph = trace_graph(doubled, [X, STATE])
    assert recover(graph, Context(rules=RuleSet().extended(RULES), sub=SUB_PASSES)) is graph
