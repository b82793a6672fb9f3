"""Loops whose frame is that of a scan become one; loops that only resemble them are refused under a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.walk import all_eqns
from jfuse.model import Runner
from jfuse.passes.context import Context
from jfuse.passes.loops import loops
from jfuse.verification.measure import relative_error
from tests.frontends.against_tensorflow import spec
from tests.models import decoys, other
from tests.models.lstm_keras import KerasLstm
from tests.models.lstm_written import WRITTEN


def run(source: Any) -> tuple[Graph, Graph, Context]:
    """The imported graph, the same after the pass, and what the pass reported."""
    before, ctx = jfuse.load(source).signature().graph, Context()
    after = loops(before, ctx)
    check_graph(after)
    return before, after, ctx


def counts(graph: Graph) -> tuple[int, int]:
    names = [eqn.op.name for eqn in all_eqns(graph)]
    return names.count("scan"), names.count("while")


def scans(graph: Graph) -> list[Eqn]:
    return [eqn for eqn in all_eqns(graph) if eqn.op.name == "scan"]


def same_answers(before: Graph, after: Graph, *inputs: np.ndarray) -> bool:
    pairs = zip(Runner(after)(inputs), Runner(before)(inputs), strict=True)
    return all(relative_error(a, b) <= 1e-6 for a, b in pairs)  # the same operations, perhaps fused otherwise by XLA


def refused(function: Callable[..., Any], *specs: Any) -> list[str]:
    """The conditions under which loops were refused."""
    _, after, ctx = run(tf.function(function, input_signature=list(specs), autograph=False))
    assert counts(after)[0] == 0
    return [refusal.condition for refusal in ctx.report.refused]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
@pytest.mark.parametrize(
    ("model", "results"),
    [
        (KerasLstm(units=4), 0),
        (KerasLstm(units=4, batch=1, return_sequences=True), 1),
        (KerasLstm(units=4, return_state=True), 0),
        (KerasLstm(units=4, go_backwards=True), 0),
        (KerasLstm(units=4, steps=None, return_sequences=True), 1),
        (KerasLstm(units=4, layers=2), 0),
        (KerasLstm(units=4, initial_state="encoder"), 0),
    ],
    ids=str,
)
def test_keras_lstms(library: str, model: KerasLstm, results: int) -> None:
    model = KerasLstm(**{**vars(model), "library": library})
    _, after, ctx = run(model.build())
    assert counts(after) == (model.lstm_count, 0)
    assert ctx.report.refused == []
    last = scans(after)[-1]
    assert (last.params["carries"], len(last.outputs)) == (2, 2 + results)
    assert not last.params["reverse"]


@pytest.mark.parametrize("name", WRITTEN)
def test_written_lstms(name: str) -> None:
    _, after, _ = run(WRITTEN[name].build())
    assert counts(after) == (1, 0)
    (scan,) = scans(after)
    assert (scan.params["carries"], len(scan.outputs)) == (2, 3)


@pytest.mark.parametrize(
    ("name", "condition"),
    [
        ("start_at_1", "not_from_zero"),
        ("stop_before_the_end", "not_every_step"),
        ("early_exit", "early_exit"),
        ("reversed_read", "counter_is_a_value"),
        ("counter_in_a_gate", "counter_is_a_value"),
    ],
)
def test_decoys(name: str, condition: str) -> None:
    before, after, ctx = run(decoys.build_decoy(name))
    assert counts(after) == (0, 1)
    assert [(r.rule, r.condition, r.source) for r in ctx.report.refused] == [("loops", condition, "while (While)")]
    assert same_answers(before, after, decoys.telling_input(name))


@pytest.mark.parametrize("kind", ["gru", "simple_rnn", "bidirectional", "masked"])
def test_other_recurrences(kind: str) -> None:
    before, after, _ = run(other.recurrent(kind))
    assert counts(after) == (2 if kind == "bidirectional" else 1, 0)
    assert same_answers(before, after, normal(3, 6, 5))


def test_a_loop_without_sequences() -> None:
    before, after, _ = run(other.composite_in_loop())
    (scan,) = scans(after)
    assert (scan.params["length"], scan.params["carries"]) == (3, 1)
    assert same_answers(before, after, normal(2, 4))


def test_several_sequences_and_results() -> None:
    def call(x: Any, y: Any) -> Any:
        def step(t: Any, total: Any, sums: Any, products: Any) -> Any:
            return t + 1, total + x[t], sums.write(t, x[t] + y[:, t]), products.write(t, x[t] * y[:, t])

        arrays = [tf.TensorArray(tf.float32, 5, element_shape=(3,)) for _ in range(2)]
        _, total, sums, products = tf.while_loop(lambda t, *_: t < 5, step, (0, tf.zeros([3]), *arrays))
        return total, sums.stack(), products.stack()

    before, after, _ = run(tf.function(call, input_signature=[spec(5, 3), spec(3, 5)], autograph=False))
    (scan,) = scans(after)
    assert (scan.params["carries"], len(scan.inputs), len(scan.outputs)) == (1, 3, 3)  # x is read once, not thrice
    assert same_answers(before, after, normal(5, 3), normal(3, 5))


def test_a_row_that_is_always_the_same() -> None:
    def call(x: Any) -> Any:
        return tf.while_loop(lambda t, _: t < 5, lambda t, v: (t + 1, v * 0.5 + x[2]), (0, tf.zeros([3])))[1]

    before, after, _ = run(tf.function(call, input_signature=[spec(5, 3)], autograph=False))
    (scan,) = scans(after)
    assert (scan.params["consts"], scan.params["carries"]) == (1, 1)
    assert same_answers(before, after, normal(5, 3))


def test_rows_without_axes() -> None:
    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 5, element_shape=())
        return tf.while_loop(lambda t, _: t < 5, lambda t, r: (t + 1, r.write(t, x[t] * 2.0)), (0, rows))[1].stack()

    before, after, _ = run(tf.function(call, input_signature=[spec(5)], autograph=False))
    assert counts(after) == (1, 0)
    assert same_answers(before, after, normal(5))


def test_the_counter_as_a_result() -> None:
    def call(x: Any) -> Any:
        return tf.while_loop(lambda t, _: t < 5, lambda t, v: (t + 1, v * 0.5 + x[t]), (0, tf.zeros([3])))

    before, after, _ = run(tf.function(call, input_signature=[spec(5, 3)], autograph=False))
    assert counts(after) == (1, 0)
    assert same_answers(before, after, normal(5, 3))

    def dynamic(x: Any) -> Any:
        steps = tf.shape(x)[0]
        return tf.while_loop(lambda t, _: t < steps, lambda t, v: (t + 1, v * 0.5 + x[t]), (0, tf.zeros([3])))

    assert refused(dynamic, spec(None, 3)) == ["counter_is_a_result"]


@pytest.mark.parametrize("length", [5, None])
def test_values_that_only_the_last_step_leaves(length: int | None) -> None:
    """They are what they were at the start where an open length turns out to be 0."""

    def call(x: Any) -> Any:
        def step(t: Any, v: Any, *_: Any) -> tuple[Any, ...]:
            new = v * 0.5 + x[t]
            return t + 1, new, new, x[t] * 2.0, 3.0

        start = (0, tf.zeros([3]), tf.ones([3]), tf.ones([3]), tf.constant(1.0))
        return tf.while_loop(lambda t, *_: t < tf.shape(x)[0], step, start)[1:]

    function = tf.function(call, input_signature=[spec(length, 3)], autograph=False)
    _, after, _ = run(function)
    assert counts(after) == (1, 0)
    for rows in (5,) if length else (0, 1, 5):
        x = normal(rows, 3)
        for found, wanted in zip(Runner(after)([x]), function(x), strict=True):
            assert relative_error(found, wanted.numpy()) <= 1e-6  # five steps in f32


def test_loops_in_loops() -> None:
    def call(x: Any) -> Any:
        def inner(row: Any) -> Any:
            return tf.while_loop(lambda j, _: j < 3, lambda j, v: (j + 1, v * 0.5 + row[j]), (0, 0.0))[1]

        def outer(t: Any, r: Any) -> Any:
            return t + 1, r.write(t, inner(x[t]))

        rows = tf.TensorArray(tf.float32, 5, element_shape=())
        return tf.while_loop(lambda t, _: t < 5, outer, (0, rows))[1].stack()

    before, after, _ = run(tf.function(call, input_signature=[spec(5, 3)], autograph=False))
    assert counts(after) == (2, 0)
    assert same_answers(before, after, normal(5, 3))


def rows_of(x: Any, place: Callable[[Any], Any], length: int = 5) -> Any:
    """A loop of 5 steps that writes x[t] at another place."""
    rows = tf.TensorArray(tf.float32, length, element_shape=(3,))
    return tf.while_loop(lambda t, _: t < 5, lambda t, r: (t + 1, r.write(place(t), x[t])), (0, rows))[1].stack()


@pytest.mark.parametrize(
    ("function", "condition"),
    [
        (lambda x: rows_of(x, lambda t: 4 - t), "counter_is_a_value"),
        (lambda x: rows_of(x, lambda t: t, length=6), "counter_is_a_value"),
        (lambda x: rows_of(x, lambda t: t // 2), "counter_is_a_value"),
        (
            lambda x: tf.while_loop(lambda t, _: t < 5, lambda t, v: (t + 2, v + x[t]), (0, tf.zeros([3])))[1],
            "not_from_zero",
        ),
        (
            lambda x: tf.while_loop(lambda t, _: t != 5, lambda t, v: (t + 1, v + x[t]), (0, tf.zeros([3])))[1],
            "early_exit",
        ),
        (
            lambda x: tf.while_loop(
                lambda t, _: t < tf.cast(tf.reduce_sum(x), tf.int32), lambda t, v: (t + 1, v + 1.0), (0, tf.zeros([3]))
            )[1],
            "trip_count_unknown",
        ),
        (
            lambda x: tf.while_loop(lambda t, _: t < 0, lambda t, v: (t + 1, v + x[t]), (0, x[0]))[1],
            "no_steps",
        ),
    ],
)
def test_conditions(function: Callable[[Any], Any], condition: str) -> None:
    assert refused(function, spec(5, 3)) == [condition]


def test_a_limit_of_its_own_beside_an_open_length() -> None:
    """Which of the two ends the loop is known at run time only."""

    def call(x: Any) -> Any:
        more = lambda t, _: tf.logical_and(t < tf.shape(x)[0], t < 3)  # noqa: E731
        return tf.while_loop(more, lambda t, v: (t + 1, v * 0.5 + x[t]), (0, tf.zeros([3])))[1]

    assert refused(call, spec(None, 3)) == ["trip_count_unknown"]


def test_a_list_that_the_step_also_reads() -> None:
    """Fibonacci in a list: the rows that were written are read again, so they are no results of a scan."""

    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 6, element_shape=(3,), clear_after_read=False).write(0, x[0]).write(1, x[1])
        step = lambda t, r: (t + 1, r.write(t + 2, r.read(t) + r.read(t + 1)))  # noqa: E731
        return tf.while_loop(lambda t, _: t < 4, step, (0, rows))[1].stack()

    assert refused(call, spec(5, 3)) == ["counter_is_a_value"]
