"""Loops whose frame is that of a scan become one; loops that only resemble them are refused under a name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.ir.check import check_graph
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.scans.from_while.while_to_scan import while_to_scan
from jfuse.running.runner import Runner
from tests.frontends.against_tensorflow import spec
from tests.models import other
from tests.models.decoys import decoys
from tests.models.recurrences.lstm_keras import KerasLstm
from tests.models.recurrences.lstm_written import WRITTEN
from tests.slow import every_other, keras_3, slow_but


def run(source: Any) -> tuple[Graph, Graph, Context]:
    """The imported graph, the same after the pass, and what the pass reported."""
    before, ctx = jfuse.load(source).signature().graph, Context()
    after = while_to_scan(before, ctx)
    check_graph(after)
    return before, after, ctx


def counts(graph: Graph) -> tuple[int, int]:
    names = [eqn.op.name for eqn in all_eqns(graph)]
    return names.count("scan"), names.count("while")


def scans(graph: Graph) -> list[Eqn]:
    return [eqn for eqn in all_eqns(graph) if eqn.op.name == "scan"]


def same_answers(before: Graph, after: Graph, *inputs: np.ndarray) -> bool:
    pairs = zip(Runner(after, quick=True)(inputs), Runner(before, quick=True)(inputs), strict=True)
    return all(relative_error(a, b) <= 1e-6 for a, b in pairs)  # the same operations, perhaps fused otherwise by XLA


def refused(function: Callable[..., Any], *specs: Any) -> list[str]:
    """The conditions under which loops were refused."""
    _, after, ctx = run(tf.function(function, input_signature=list(specs), autograph=False))
    assert counts(after)[0] == 0
    return [refusal.condition for refusal in ctx.report.refused]


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize("library", slow_but(keras_3, ["keras", "tf_keras"]))
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


@pytest.mark.parametrize("name", every_other(WRITTEN))
def test_written_lstms(name: str) -> None:
    _, after, _ = run(WRITTEN[name].build())
    assert counts(after) == (1, 0)
    (scan,) = scans(after)
    assert (scan.params["carries"], len(scan.outputs)) == (2, 3)


def test_an_early_exit() -> None:
    before, after, ctx = run(decoys.build_decoy("early_exit"))
    assert counts(after) == (0, 1)
    assert [(r.rule, r.condition, r.source) for r in ctx.report.refused] == [
        ("while_to_scan", "early_exit", "while (While)")
    ]
    assert same_answers(before, after, decoys.telling_input("early_exit"))


@pytest.mark.parametrize(
    "name", ["start_at_1", "stop_before_the_end", "reversed_read", "read_one_ahead", "counter_in_a_gate"]
)
def test_loops_that_step_otherwise(name: str) -> None:
    before, after, ctx = run(decoys.build_decoy(name))
    assert (counts(after), ctx.report.refused) == ((1, 0), [])
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
        for found, wanted in zip(Runner(after, quick=True)([x]), function(x), strict=True):
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
        (
            lambda x: tf.while_loop(lambda t, _: t < 5, lambda t, v: (t + 1, v + tf.gather(x, t + 1)), (0, x[0]))[1],
            "not_every_step",
        ),
        (
            lambda x: tf.while_loop(lambda t, _: t < 5, lambda t, v: (t - 1, v + x[0]), (0, tf.zeros([3])))[1],
            "not_from_zero",
        ),
        (
            lambda x: tf.while_loop(lambda t, _: t < 5, lambda t, v: (t + 2, v + x[t]), (0, tf.zeros([3])))[1],
            "early_exit",
        ),
        (
            lambda x: tf.while_loop(lambda t, _: t != 5, lambda t, v: (t - 1, v + x[0]), (4, tf.zeros([3])))[1],
            "not_from_zero",
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


def test_rows_of_a_sequence_with_an_open_length_of_its_own() -> None:
    """TensorFlow fails where it is shorter, so it is not; one that surely is stays in the loop."""

    def call(x: Any, y: Any, ahead: int) -> Any:
        step = lambda t, v: (t + 1, v * 0.5 + x[t] + tf.gather(y, t + ahead))  # noqa: E731
        return tf.while_loop(lambda t, _: t < tf.shape(x)[0], step, (0, tf.zeros([3])))[1]

    specs = [spec(None, 3), spec(None, 3)]
    before, after, _ = run(tf.function(lambda x, y: call(x, y, 0), input_signature=specs, autograph=False))
    assert counts(after) == (1, 0)
    assert same_answers(before, after, normal(4, 3), normal(4, 3))
    assert same_answers(before, after, normal(4, 3), normal(6, 3))
    assert refused(lambda x: call(x, x, 1), spec(None, 3)) == ["not_every_step"]


def test_a_limit_of_its_own_beside_an_open_length() -> None:
    """Which of the two ends the loop is known at run time only."""

    def call(x: Any) -> Any:
        more = lambda t, _: tf.logical_and(t < tf.shape(x)[0], t < 3)  # noqa: E731
        return tf.while_loop(more, lambda t, v: (t + 1, v * 0.5 + x[t]), (0, tf.zeros([3])))[1]

    assert refused(call, spec(None, 3)) == ["trip_count_unknown"]


def test_a_list_that_the_step_also_reads() -> None:
    """Fibonacci in a list: the rows that were written are read again, so the list is a state."""

    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 6, element_shape=(3,), clear_after_read=False).write(0, x[0]).write(1, x[1])
        step = lambda t, r: (t + 1, r.write(t + 2, r.read(t) + r.read(t + 1)))  # noqa: E731
        return tf.while_loop(lambda t, _: t < 4, step, (0, rows))[1].stack()

    before, after, _ = run(tf.function(call, input_signature=[spec(5, 3)], autograph=False))
    (scan,) = scans(after)
    assert (scan.params["carries"], len(scan.outputs)) == (1, 1)
    assert same_answers(before, after, normal(5, 3))


STEPPING: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "backwards": (lambda x, n: stepped(x, (0, 1), lambda t: t < n, lambda t: n - 1 - t, lambda t: n - 1 - t), True),
    "counting_down": (lambda x, n: stepped(x, (n - 1, -1), lambda t: t >= 0, lambda t: t, lambda t: t), True),
    "down_to_one_before": (lambda x, n: stepped(x, (n - 1, -1), lambda t: t > -1, lambda t: t, lambda t: t), True),
    "read_backwards": (lambda x, n: stepped(x, (0, 1), lambda t: t < n, lambda t: n - 1 - t, lambda t: t), False),
    "written_backwards": (lambda x, n: stepped(x, (0, 1), lambda t: t < n, lambda t: t, lambda t: n - 1 - t), False),
    "from_seven": (lambda x, n: stepped(x, (7, 1), lambda t: t < n + 7, lambda t: t - 7, lambda t: t - 7), False),
    "limit_first": (lambda x, n: stepped(x, (0, 1), lambda t: n > t, lambda t: t, lambda t: t), False),
    "limit_included": (lambda x, n: stepped(x, (0, 1), lambda t: t <= n - 1, lambda t: t, lambda t: t), False),
    "until_equal": (lambda x, n: stepped(x, (0, 1), lambda t: t != n, lambda t: t, lambda t: t), False),
    "counter_in_the_step": (
        lambda x, n: stepped(
            x, (0, 1), lambda t: t < n, lambda t: t, lambda t: t, lambda t: 1.0 + tf.cast(t, tf.float32)
        ),
        False,
    ),
    "counter_in_the_step_backwards": (
        lambda x, n: stepped(
            x, (n - 1, -1), lambda t: t >= 0, lambda t: t, lambda t: t, lambda t: 1.0 + tf.cast(t, tf.float32)
        ),
        True,
    ),
}


def stepped(
    x: Any,
    counter: tuple[Any, int],
    more: Callable[[Any], Any],
    read: Callable[[Any], Any],
    write: Callable[[Any], Any],
    factor: Callable[[Any], Any] = lambda t: 1.0,
) -> Any:
    """A loop over x[t,3] that keeps a state and collects it: (the last state, the rows)."""
    rows = tf.TensorArray(tf.float32, tf.shape(x)[0], element_shape=(3,))

    def step(t: Any, v: Any, r: Any) -> tuple[Any, ...]:
        v = tf.tanh(v * 0.5 + x[read(t)] * factor(t))
        return t + counter[1], v, r.write(write(t), v)

    _, v, r = tf.while_loop(lambda t, *_: more(t), step, (counter[0], tf.zeros([3]), rows))
    return v, r.stack()


@pytest.mark.parametrize("length", [5, None])
@pytest.mark.parametrize("name", every_other(STEPPING))
def test_ways_to_count(name: str, length: int | None) -> None:
    call, reverse = STEPPING[name]
    function = tf.function(
        lambda x: call(x, length or tf.shape(x)[0]), input_signature=[spec(length, 3)], autograph=False
    )
    _, after, ctx = run(function)
    assert (counts(after), ctx.report.refused) == ((1, 0), [])
    assert [scan.params["reverse"] for scan in scans(after)] == [reverse]
    for rows in (5,) if length else (1, 5):
        x = normal(rows, 3)
        for found, wanted in zip(Runner(after, quick=True)([x]), function(x), strict=True):
            assert relative_error(found, wanted.numpy()) <= 1e-6  # five steps in f32


def part_of_the_rows(x: Any) -> Any:
    rows = tf.TensorArray(tf.float32, 7, element_shape=(3,)).write(0, x[0]).write(6, x[4])
    step = lambda t, v, r: (t + 1, v * 0.5 + x[t + 1], r.write(t + 1, v))  # noqa: E731
    _, v, r = tf.while_loop(lambda t, *_: t < 3, step, (0, x[1], rows))
    return v, r.stack()


FUNCTIONAL: dict[str, Callable[[Any], Any]] = {
    "part_of_the_rows": part_of_the_rows,
    "neighbours": lambda x: tf.while_loop(lambda t, _: t < 4, lambda t, v: (t + 1, v + x[t] * x[t + 1]), (0, x[0]))[1],
    "scan": lambda x: tf.scan(lambda h, v: tf.tanh(h * 0.5 + v), x, tf.ones([3])),
    "scan_from_the_first": lambda x: tf.scan(lambda h, v: tf.tanh(h * 0.5 + v), x),
    "scan_reversed": lambda x: tf.scan(lambda h, v: tf.tanh(h * 0.5 + v), x, tf.ones([3]), reverse=True),
    "scan_reversed_from_the_last": lambda x: tf.scan(lambda h, v: tf.tanh(h * 0.5 + v), x, reverse=True),
    "scan_of_two": lambda x: tf.scan(lambda s, v: (s[0] * 0.5 + v, s[0] + s[1]), x, (tf.ones([3]), tf.zeros([3]))),
    "map_fn": lambda x: tf.map_fn(lambda v: v * tf.reduce_sum(v), x),
    "map_fn_of_two": lambda x: tf.map_fn(lambda v: (v[0] * 2.0 + v[1], v[1]), (x, x * 3.0)),
    "foldl": lambda x: tf.foldl(lambda a, v: tf.tanh(a * 0.5 + v), x),
    "foldr": lambda x: tf.foldr(lambda a, v: tf.tanh(a * 0.5 + v), x),
    "foldl_from_ones": lambda x: tf.foldl(lambda a, v: tf.tanh(a * 0.5 + v), x, tf.ones([3])),
    "foldr_from_ones": lambda x: tf.foldr(lambda a, v: tf.tanh(a * 0.5 + v), x, tf.ones([3])),
}


@pytest.mark.parametrize("name", every_other(FUNCTIONAL))
def test_loops_of_the_library(name: str) -> None:
    function = tf.function(FUNCTIONAL[name], input_signature=[spec(5, 3)], autograph=False)
    _, after, ctx = run(function)
    assert (counts(after), ctx.report.refused) == ((1, 0), [])
    x = normal(5, 3)
    for found, wanted in zip(Runner(after, quick=True)([x]), tf.nest.flatten(function(x)), strict=True):
        assert relative_error(found, wanted.numpy()) <= 1e-6  # five steps in f32


def until_all_ended(x: Any, lengths: Any, fill: float = 0.0, more: Callable[[Any, Any], Any] | None = None) -> Any:
    """A loop over x[t,b,3] that turns until the longest row ends; rows that ended keep their state."""
    rows = tf.TensorArray(tf.float32, 5, element_shape=(2, 3))
    last = tf.reduce_max(lengths) if more is None else more(x, lengths)

    def step(t: Any, v: Any, r: Any) -> tuple[Any, ...]:
        live, new = (t < lengths)[:, None], tf.tanh(v * 0.5 + x[t])
        return t + 1, tf.where(live, new, v), r.write(t, tf.where(live, new, fill * tf.ones_like(new)))

    start = (0, tf.zeros([2, 3]), rows)
    _, v, r = tf.while_loop(lambda t, *_: tf.logical_and(t < 5, t < last), step, start)
    return v, r.stack()


@pytest.mark.parametrize("lengths", [(5, 5), (2, 4), (0, 3), (0, 0)])
def test_a_loop_that_idles_when_all_rows_have_ended(lengths: tuple[int, int]) -> None:
    function = tf.function(until_all_ended, input_signature=[spec(5, 2, 3), spec(2, dtype=tf.int32)], autograph=False)
    _, after, _ = run(function)
    (scan,) = scans(after)
    assert counts(after) == (1, 0)
    assert [v.type.dtype.value for v in scan.bodies[0].inputs] == ["f32", "f32", "bool"]  # the state, x[t], the mask
    x, given = normal(5, 2, 3), np.array(lengths, np.int32)
    for found, wanted in zip(Runner(after, quick=True)([x, given]), function(x, given), strict=True):
        assert relative_error(found, wanted.numpy()) <= 1e-6  # five steps in f32


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: until_all_ended(x, n, fill=1.0),  # rows that are never written stay zeros
        lambda x, n: until_all_ended(x, n, more=lambda x, n: tf.reduce_min(n)),
        lambda x, n: until_all_ended(x, n, more=lambda x, n: tf.reduce_max(n) - 1),
        lambda x, n: until_all_ended(x, n, more=lambda x, n: tf.minimum(tf.reduce_max(n), 3)),
    ],
)
def test_a_loop_that_stops_before_it_idles(call: Callable[..., Any]) -> None:
    assert refused(call, spec(5, 2, 3), spec(2, dtype=tf.int32)) == ["trip_count_unknown"]


RANGES: dict[str, Callable[..., Any]] = {
    "range": lambda x, t: x[:, t : t + 1][:, 0],
    "slice": lambda x, t: tf.slice(x, [0, t, 0], [2, 1, 3])[:, 0],
    "gather": lambda x, t: tf.gather(x, [t], axis=1)[:, 0],
    "broadcast": lambda x, t: x[:, t, 1:2] * x[:, t],
    "backwards": lambda x, t: x[:, 4 - t : 5 - t][:, 0],
}


@pytest.mark.parametrize("read", RANGES)
def test_ranges_of_one_row_are_rows(read: str) -> None:
    """Also where the range is spread over columns, whose number it is not."""

    def loop(x: Any, mask: Any) -> Any:
        def step(t: Any, h: Any) -> Any:
            return t + 1, tf.where(mask[:, t : t + 1] > 0, h, tf.tanh(h + RANGES[read](x, t)))

        return tf.while_loop(lambda t, h: t < 5, step, [0, tf.zeros([2, 3])])[1]

    specs = [spec(2, 5, 3), spec(2, 5)]
    before, after, ctx = run(tf.function(loop, input_signature=specs, autograph=False))
    assert counts(after) == (1, 0)
    assert ctx.report.refused == []
    assert same_answers(before, after, normal(2, 5, 3), normal(2, 5))


def test_a_range_that_leaves_the_sequence_is_no_row() -> None:
    """x[:, 5:6] is empty for 5 steps, where a gathered row would be an error."""

    def loop(x: Any) -> Any:
        def step(t: Any, h: Any) -> Any:
            return t + 1, h + tf.reduce_sum(x[:, t + 1 : t + 2])

        return tf.while_loop(lambda t, h: t < 5, step, [0, 0.0])[1]

    _, after, _ = run(tf.function(loop, input_signature=[spec(2, 5, 3)], autograph=False))
    assert "gather" not in [eqn.op.name for eqn in all_eqns(after)]


@pytest.mark.parametrize("start", [0, 2])
def test_a_list_that_grows_by_a_row_has_the_size_of_its_steps(start: int) -> None:
    def loop(x: Any) -> Any:
        def step(t: Any, rows: Any) -> Any:
            return t + 1, tf.concat([rows, tf.sin(x[t : t + 1])], 0)

        shapes = [tf.TensorShape([]), tf.TensorShape([None, 3])]
        first = [0, tf.ones([start, 3])]
        return tf.while_loop(lambda t, rows: t < tf.shape(x)[0], step, first, shape_invariants=shapes)[1]

    before, after, ctx = run(tf.function(loop, input_signature=[spec(None, 3)], autograph=False))
    assert counts(after) == (1, 0)
    assert ctx.report.refused == []
    (size, _), (rows, _) = after.outputs[0].type.shape, after.inputs[0].type.shape
    assert size == rows + start
    assert same_answers(before, after, normal(4, 3))


def stepped_rows(begin: list[int], change: list[int], steps: int = 4, read: bool = False) -> Graph:
    """A loop that writes sin(h) to a list where a vector of its own says, as jfuse's files have it."""
    rank = len(begin)

    def step(t: Any, place: Any, h: Any, rows: Any) -> Any:
        h = ops.sin(ops.add(h, ops.cast(place, out_data_type=DType.f32)) if read else h)
        rows = ops.dynamic_update_slice(rows, ops.reshape(h, (1,) * rank), place)
        return ops.add(t, np.int32(1)), ops.add(place, np.array(change, np.int32)), h, rows

    shapes = {1: (5,), 3: (5, 1, 1)}
    types = [TensorType((), DType.i32), TensorType((rank,), DType.i32)]
    types += [TensorType((rank,) if read else (1,), DType.f32), TensorType(shapes[rank], DType.f32)]
    bodies = (trace_graph(lambda t, *_: (ops.less(t, np.int32(steps)),), types), trace_graph(step, types))

    def loop(h: Any, rows: Any) -> Any:
        return ops.while_([np.int32(0), np.array(begin, np.int32), h, rows], bodies)[1:]

    return trace_graph(loop, types[2:])


@pytest.mark.parametrize(
    ("begin", "change", "read", "count"),
    [
        ([0, 0, 0], [1, 0, 0], False, 1),
        ([1, 0, 0], [1, 0, 0], False, 1),
        ([3, 0, 0], [-1, 0, 0], False, 1),
        ([0], [1], False, 1),
        ([1], [1], True, 1),
        ([0, 0, 0], [1, 1, 0], False, 0),
        ([0, 0, 0], [2, 0, 0], False, 0),
    ],
    ids=str,
)
def test_a_vector_that_counts_tells_rows(begin: list[int], change: list[int], read: bool, count: int) -> None:
    before = stepped_rows(begin, change, read=read)
    after = while_to_scan(before, Context())
    check_graph(after)
    lists = [eqn for eqn in scans(after) if len(eqn.outputs) > eqn.params["carries"]]
    assert len(lists) == count
    assert same_answers(before, after, normal(1), normal(*before.inputs[1].type.shape))
