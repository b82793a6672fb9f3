"""Steps that are written out become a scan; what differs in anything but its place in a sequence does not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.text import format_graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.walk import all_eqns, all_graphs
from jfuse.kernels import ops
from jfuse.passes.scans.reroll.reroll import reroll
from jfuse.running.runner import Runner
from tests import cells
from tests.conftest import Golden
from tests.frontends.against_tensorflow import spec
from tests.ir.graphs import B, f32, weights
from tests.models.keras_libraries import LIBRARIES, awake
from tests.models.recurrences import unrolled
from tests.models.recurrences.unrolled import DECOYS, KERAS, WRITTEN, Loop, Written
from tests.slow import every_other

TOLERANCE = 1e-6  # the same operations on the same numbers, perhaps fused otherwise by XLA


def rolled(graph: Graph) -> Graph:
    after = reroll(graph)
    check_graph(after, types=True)
    return after


def scans(graph: Graph) -> list[Eqn]:
    return [eqn for eqn in all_eqns(graph) if eqn.op.name == "scan"]


def loop_of(scan: Eqn) -> Loop:
    sequences = len(scan.inputs) - scan.params["consts"] - scan.params["carries"]
    return scan.params["carries"], sequences, scan.params["length"]


def check(source: Any, loops: Sequence[Loop], function: Any = None, shapes: Any = None) -> Graph:
    """The rolled graph, after its loops and its answers were compared with what is expected."""
    graph = jfuse.load(source).signature().graph
    after = rolled(graph)
    assert sorted(map(loop_of, scans(after))) == sorted(loops)
    on_xla = Runner(after, quick=True)
    for seed, batch in enumerate((1, 3)):
        rng = np.random.default_rng(seed)
        shapes_of = shapes or [v.type.shape for v in graph.inputs]
        known = [[d if isinstance(d, int) else batch for d in shape] for shape in shapes_of]
        inputs = [rng.standard_normal(shape).astype(np.float32) for shape in known]
        wanted = tf.nest.flatten(function(*map(tf.constant, inputs)))
        for found, value in zip(on_xla(inputs), wanted, strict=True):
            assert relative_error(np.asarray(found), value.numpy()) <= TOLERANCE
    return after


def check_written(model: Written) -> Graph:
    function = model.build()
    return check(function, model.loops, function, model.shapes)


@pytest.mark.parametrize("name", every_other(WRITTEN))
def test_written(name: str) -> None:
    check_written(WRITTEN[name])


@pytest.mark.parametrize("name", DECOYS)
def test_decoys(name: str) -> None:
    check_written(DECOYS[name])


def keras_rows() -> Iterator[Any]:
    """Each model with each batch and both libraries; the default suite has open batches, and one of the first model."""
    for (i, name), (j, batch) in product(enumerate(KERAS), enumerate((None, 1, 2))):
        library = "keras" if batch is None else list(LIBRARIES)[(i + j) % 2]
        usual = library == "keras" and (batch is None or i == 0)
        yield pytest.param(library, name, batch, marks=() if usual else pytest.mark.slow)


@pytest.mark.parametrize(("library", "name", "batch"), [*keras_rows()])
def test_keras(library: str, name: str, batch: int | None) -> None:
    """Nothing of the steps is left, the folded first one of a fixed batch included."""
    model = awake(unrolled.keras_model(LIBRARIES[library], name, batch))
    fixed = None if batch is None else [(batch, unrolled.STEPS, unrolled.FEATURES)]
    after = check(model, KERAS[name][1], lambda x: model(x, training=False), fixed)
    assert not {"tanh", "logistic", "split", "fully_connected"} & {e.op.name for e in after.eqns}


def test_time_distributed() -> None:
    model = awake(unrolled.time_distributed(LIBRARIES["keras"], None))
    check(model, [(0, 1, unrolled.STEPS)], lambda x: model(x, training=False))


def test_static_rnn() -> None:
    function = unrolled.static_rnn()
    after = check(function, unrolled.ONE_LSTM, function)
    assert all(eqn.op is not ops.unpack for eqn in after.eqns)  # not even for the shape of the first step


def test_a_loop_in_a_loop() -> None:
    """The inner one is written out, the outer one is a while."""

    def call(x: Any) -> Any:
        def step(t: Any, h: Any) -> Any:
            for i in range(4):
                h = tf.tanh(x[:, i] @ unrolled.W_RNN + h @ unrolled.U_RNN)
            return t + 1, h

        return tf.while_loop(lambda t, _: t < 3, step, (0, tf.ones([2, unrolled.UNITS])))[1]

    function = tf.function(call, input_signature=[spec(2, 4, 3)], autograph=False)
    check(function, [(1, 1, 4)], function)


def unrolled_rnn(steps: int, state: np.ndarray) -> Graph:
    """h' = relu(h @ u) + x, from a state that is a constant."""
    u = weights(2, 2, start=3)

    def main(x: Any) -> Any:
        found = []
        h: Any = state
        for row in ops.unpack(x, axis=1):
            h = ops.add(row, ops.relu(ops.fully_connected(h, u, None)))
            found.append(h)
        return ops.pack(*found, axis=1)

    return trace_graph(main, [f32(len(state), steps, 2)])


def test_folded_first_step(golden: Golden) -> None:
    """What RELU and the product made of the zeros is a constant, and the same as in a step from zeros."""
    graph = unrolled_rnn(4, np.zeros((2, 2), np.float32))
    golden.check(rolled(graph))


def test_first_step_from_another_state(golden: Golden) -> None:
    """The constant of the first step is none that follows from zeros, so that step stays before the loop."""
    graph = unrolled_rnn(4, np.full((2, 2), 0.5, np.float32))
    golden.check(rolled(graph))


def test_open_batch_and_no_memory(golden: Golden) -> None:
    u = weights(2, 2)

    def main(x: Any) -> Any:
        return ops.pack(*(ops.fully_connected(row, u, None) for row in ops.unpack(x, axis=1)), axis=1)

    golden.check(format_graph(rolled(trace_graph(main, [f32(B, 3, 2)]))))


def test_two_steps_are_a_pair_of_anything() -> None:
    graph = unrolled_rnn(2, np.zeros((2, 2), np.float32))
    assert scans(rolled(graph)) == []


def test_a_graph_without_steps_is_the_same_object() -> None:
    graph = trace_graph(lambda x: ops.relu(ops.add(x, x)), [f32(B, 3)])
    assert reroll(graph) is graph


def test_weights_are_never_copied() -> None:
    graph = unrolled_rnn(5, np.zeros((2, 2), np.float32))

    def arrays(graph: Graph) -> set[int]:
        atoms = [a for g in all_graphs(graph) for e in g.eqns for a in e.inputs if e.op is ops.fully_connected]
        return {id(a.array) for a in atoms if isinstance(a, Const)}

    assert arrays(rolled(graph)) <= arrays(graph)


def test_many_steps_take_little_time() -> None:
    """A walk that is quadratic in the number of equations takes long here."""

    def main(x: Any) -> Any:
        h: Any = np.zeros((2, cells.UNITS), np.float32)
        c: Any = h
        found = []
        for row in ops.unpack(x, axis=1):
            h, c, _ = cells.keras(h, c, row)
            found.append(h)
        return ops.pack(*found, axis=1)

    graph = trace_graph(main, [f32(2, 200, cells.INPUTS)])
    assert len(graph.eqns) > 2500
    started = time.perf_counter()
    assert [loop_of(s) for s in scans(reroll(graph))] == [(2, 1, 200)]
    assert time.perf_counter() - started < 10  # 0.2 s on an idle machine
