"""Whether a fusion pays: operators, bytes and time beside those of plain ops, and the preference for speed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import keras as k
import numpy as np
import pytest

import jfuse
from jfuse.base.errors import JfuseError, NotFused
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import FuseRule
from jfuse.passes.context import Context
from jfuse.passes.fuse.profitability import Cost, Costs, compare, is_asked_for
from jfuse.passes.pipeline import SUB_PASSES, as_lowered
from jfuse.passes.scans.to_loops.fused_cost import fused_microseconds
from tests.cells import INPUTS, UNITS, Loop, f32, keras
from tests.end_to_end.invokes import check_invokes
from tests.models.recurrences.lstm_keras import KerasLstm


def fused(steps: int, units: int = UNITS, inputs: int = INPUTS) -> Graph:
    def run(x: Array, h: Array, c: Array) -> Array:
        weights, recurrent = (np.ones((units, n), np.float32) for n in (inputs, units))
        bias = np.zeros(units, np.float32)
        gates = (*[weights] * 4, *[recurrent] * 4, None, None, None, *[bias] * 4, None, None, h, c)
        return ops.unidirectional_sequence_lstm(x, *gates, time_major=True)[0]

    return trace_graph(run, [f32(steps, 1, inputs), f32(1, units), f32(1, units)])


def need_worth(body: Graph, replacement: Graph, prefer: str) -> None:
    costs = Costs.of(body, replacement, context())
    assert costs is not None
    costs.need_worth(prefer)


def context() -> Context:
    return Context(sub=SUB_PASSES)


def cost(graph: Graph) -> Cost:
    return Cost.of(as_lowered(graph, context(), True))


def test_costs_grow_with_steps_and_units() -> None:
    def time(steps: int, units: int) -> float:
        return fused_microseconds(fused(steps, units).eqns[-1])

    assert time(20, 16) == pytest.approx(2 * time(10, 16), rel=0.25)
    assert 5 < time(20, 16) < time(20, 64) < time(20, 256)
    few, many = (cost(Loop(keras, batch=1, steps=steps).graph()) for steps in (5, 50))
    assert few.loops
    assert 0 < 5 * few.microseconds < many.microseconds
    assert 0 < 5 * few.operators < many.operators


def test_the_cost_of_straight_code_is_that_of_its_operators() -> None:
    weights = np.ones((8, 4), np.float32)

    def run(x: Array) -> Array:
        return ops.tanh(ops.fully_connected(x, weights, None))

    found = cost(trace_graph(run, [f32(1, 4)]))
    assert (found.operators, found.bytes, found.loops) == (2, weights.nbytes, False)


def test_the_states_of_a_single_step_cost_a_writer_each() -> None:
    weights, recurrent = np.ones((UNITS, INPUTS), np.float32), np.ones((UNITS, UNITS), np.float32)

    def run(x: Array, h: Array) -> Array:
        return ops.rnn(x, weights, recurrent, np.zeros(UNITS, np.float32), h)[0]

    assert cost(trace_graph(run, [f32(1, INPUTS), f32(1, UNITS)])).operators == 2


@pytest.mark.parametrize(
    ("name", "numbers", "after", "prefer"),
    [
        ("more_operators", "3 instead of 2", {"operators": 3}, "fused"),
        ("more_bytes", "6001 bytes of constants instead of 4000", {"bytes": 6001}, "fused"),
        (
            "plain_is_faster",
            "at most 16 us, 8 times what plain ops take.* about 16.5 us",
            {"microseconds": 16.5},
            "fused",
        ),
        ("plain_is_faster", "at most 2 us, as plain ops take.* about 2.1 us", {"microseconds": 2.1}, "speed"),
    ],
)
def test_what_costs_more_is_refused_with_both_numbers(name: str, numbers: str, after: Any, prefer: str) -> None:
    before = Cost(2, 4000, 2.0)
    compare(before, before, prefer)
    with pytest.raises(NotFused, match=f"^{name}: .*{numbers}"):
        compare(before, replace(before, **after), prefer)


def test_a_loop_excuses_larger_weights() -> None:
    before = Cost(2, 4000, 2.0, loops=True)
    compare(before, replace(before, bytes=9000), "fused")
    with pytest.raises(NotFused, match="more_bytes"):
        compare(before, replace(before, bytes=9100), "fused")


def test_a_loop_that_is_faster_is_kept_where_speed_is_preferred() -> None:
    """64 units, 10 steps: bench/recurrent.py found plain steps side by side at 0.6 of the time."""
    loop = Loop(keras, batch=1, steps=10).graph()
    with pytest.raises(NotFused, match="loop_is_faster"):
        need_worth(loop, fused(10, 20, INPUTS), "speed")
    need_worth(loop, fused(10), "fused")


def test_a_long_loop_of_a_small_cell_is_slower() -> None:
    need_worth(Loop(keras, batch=1, steps=1000).graph(), fused(1000), "speed")


def test_rules_of_the_user_on_functions_of_the_user_are_not_asked() -> None:
    def written_here(x: Array) -> Array:
        return x

    shipped = default_rules().fuses["embedding_lookup"]
    for prefer in ("fused", "speed"):
        ctx = Context(rules=default_rules())
        assert is_asked_for("acme.step", FuseRule(("acme.step",), written_here), ctx, prefer)
        found = FuseRule(("jfuse.rnn",), written_here)  # in a loop that nobody marked, whoever reads it
        assert not is_asked_for("jfuse.rnn", found, ctx, prefer)
        assert is_asked_for("embedding_lookup", shipped, ctx, prefer) == (prefer == "fused")


def test_a_model_with_the_preference() -> None:
    """64 units, 20 steps: 88 us side by side and 138 us fused for 50 steps (bench/recurrent.py)."""
    model = KerasLstm(batch=1, units=64, features=32, steps=20).build()
    lite = jfuse.convert(model, forms=jfuse.Forms(prefer="speed"))
    assert [r.condition for r in lite.report.refused] == ["loop_is_faster"]
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    check_invokes(lite)


@pytest.mark.parametrize(
    ("layer", "is_kept"), [("LSTM", False), pytest.param("SimpleRNN", True, marks=pytest.mark.slow)]
)
def test_the_report_says_what_the_preference_would_choose(layer: str, is_kept: bool) -> None:
    """50 steps of 8 units: a fused LSTM takes 1.2 times as long as straight code, a fused RNN 0.7 of its time."""
    x = k.Input((50, 16), batch_size=1)
    model = k.Model(x, getattr(k.layers, layer)(8, return_sequences=True)(x))
    (fusion,) = jfuse.convert(model, verify=False).report.fused
    assert fusion.speed is not None
    assert fusion.speed.is_kept == is_kept
    assert (1.1 if is_kept else 0.6) < fusion.speed.ratio < (2.0 if is_kept else 0.99)
    preferred = jfuse.lower(jfuse.load(model), forms=jfuse.Forms(prefer="speed")).report
    assert bool(preferred.fused) == is_kept
    if not is_kept:
        (loop,) = preferred.loops
        assert str(fusion.speed) == f'prefer="speed" takes {loop.form}: about {fusion.speed.ratio:.2g} of the time'


def test_other_preferences_are_errors() -> None:
    with pytest.raises(JfuseError, match="no prefer 'small'"):
        jfuse.convert(KerasLstm(batch=1).build(), forms=jfuse.Forms(prefer="small"))  # type: ignore[arg-type]


def dense(x: Any) -> Any:
    import tensorflow as tf

    return tf.matmul(x, tf.constant(np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)))


def _relu(x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.nn.relu(x + y)


def _relu6(x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.nn.relu6(x + y)


def _tanh_of_one_product(x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.tanh(x + dense(y))


def _difference_and_sum(x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.nn.relu(x - y), x + y


def _tanh_of_a_sum_over_columns(x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.tanh(tf.reduce_sum(x, -1, keepdims=True) + dense(y))


def _sum_in_two_ways(x: Any, y: Any) -> Any:
    import tensorflow as tf

    return tf.nn.relu(x - y), tf.nn.relu(y - x)


PLAIN: list[tuple[Callable[..., Any], dict[str, int]]] = [
    (_relu, {"add": 1}),
    (_relu6, {"add": 1}),
    (_tanh_of_one_product, {"fully_connected": 1, "add": 1, "tanh": 1}),
    (_difference_and_sum, {"sub": 1, "add": 1}),
    (_sum_in_two_ways, {"sub": 2}),
    (_tanh_of_a_sum_over_columns, {"sum": 1, "fully_connected": 1, "add": 1, "tanh": 1}),
]


@pytest.mark.parametrize(("function", "operators"), PLAIN, ids=[f.__name__[1:] for f, _ in PLAIN])
def test_additions_with_an_activation_stay_plain(function: Callable[..., Any], operators: dict[str, int]) -> None:
    import tensorflow as tf

    row = tf.TensorSpec([1, 64])
    source = tf.function(function, input_signature=[row, row])
    lite = jfuse.convert(source)
    assert lite.report.operators == operators
    x, y = (np.linspace(a, b, 64, dtype=np.float32)[None] for a, b in ((-3, 4), (2, -1)))
    x[0, :3], y[0, 2:4] = (np.inf, 1, -np.inf), (2, np.inf)
    wanted = source(x, y)
    results = wanted if isinstance(wanted, tuple) else (wanted,)
    for a, b in zip(jax.tree.leaves(lite(x, y)), results, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-5)  # a product of 64 terms in f32


def test_a_single_step_with_weights_of_its_own_still_fuses() -> None:
    import tensorflow as tf

    row = tf.TensorSpec([1, 64])
    source = tf.function(lambda x, h: tf.tanh(dense(x) + dense(h) * 2), input_signature=[row, row])
    lite = jfuse.convert(source)
    assert "rnn" in lite.report.operators
    assert lite.report.refused == []
