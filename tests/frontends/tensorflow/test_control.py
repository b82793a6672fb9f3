"""Branches, loops and lists: what is walked, what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.ir.graph import Const, Graph
from tests.frontends.against_tensorflow import check_model, spec


def load(function: Any, *specs: Any, autograph: bool = False) -> jfuse.Model:
    return jfuse.load(tf.function(function, input_signature=list(specs), autograph=autograph))


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def test_a_branch_on_data() -> None:
    model = load(lambda x: tf.cond(x[0] > 0.0, lambda: x * 2.0, lambda: x - 1.0), spec(3))
    (branch,) = [e for e in model.signature().graph.eqns if e.op.name == "if"]
    assert [names(body) for body in branch.bodies] == [["mul"], ["sub"]]
    check_model(model)


def test_a_branch_on_a_known_shape_is_taken_at_once() -> None:
    model = load(lambda x: tf.cond(tf.shape(x)[1] > 2, lambda: x * 2.0, lambda: x - 1.0), spec(None, 3))
    assert set(names(model.signature().graph)) == {"shape", "mul"}


def test_a_loop_of_data_dependent_length() -> None:
    def call(x: Any) -> Any:
        return tf.while_loop(lambda v: tf.reduce_sum(v) < 100.0, lambda v: (v * v + 1.5,), (x,))

    model = load(call, spec(2))
    (loop,) = model.signature().graph.eqns
    assert loop.op.name == "while"
    check_model(model)


def test_nested_loops() -> None:
    def inner(i: Any, value: Any) -> Any:
        return tf.while_loop(lambda j, _: j < 2, lambda j, v: (j + 1, v * 1.5), (0, value))[1]

    def call(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, lambda i, v: (i + 1, inner(i, v) + 1.0), (0, x))[1]

    check_model(load(call, spec(2)))


def test_autograph_loops() -> None:
    def call(x: Any) -> Any:
        total = tf.zeros([2])
        for t in tf.range(tf.shape(x)[0]):
            if tf.reduce_sum(x[t]) > 0.0:
                total += x[t]
        return total

    check_model(load(call, spec(None, 2), autograph=True))


def test_map_and_scan() -> None:
    check_model(load(lambda x: tf.map_fn(lambda row: row * 2.0 + tf.reduce_sum(row), x), spec(None, 3)))
    check_model(load(lambda x: tf.scan(lambda total, row: total * 0.5 + row, x), spec(5, 3)))


def test_a_list_with_elements_of_an_element_shape_that_only_the_body_knows() -> None:
    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 4)
        return tf.while_loop(lambda t, _: t < 4, lambda t, r: (t + 1, r.write(t, x * 2.0)), (0, rows))[1].stack()

    model = load(call, spec(None, 3))
    assert [str(d) for d in model.signature().graph.outputs[0].type.shape] == ["4", "B", "3"]
    check_model(model)


def test_a_list_that_is_written_before_the_loop() -> None:
    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 4).write(2, x + 1.0)
        return tf.while_loop(lambda t, _: t < 2, lambda t, r: (t + 1, r.write(t, x * 2.0)), (0, rows))[1].stack()

    check_model(load(call, spec(3)))


def test_a_list_of_unknown_elements_is_refused() -> None:
    with pytest.raises(LowerError, match="a TensorList is read before its element shape is known"):
        load(lambda x: tf.TensorArray(tf.float32, 4).read(0) + x, spec(3))


def test_a_list_of_open_elements_that_grows() -> None:
    def call(x: Any) -> Any:
        rows = tf.TensorArray(tf.float32, 0, dynamic_size=True, element_shape=(None, 3))
        return tf.while_loop(lambda t, _: t < 4, lambda t, r: (t + 1, r.write(t, x)), (0, rows))[1].stack()

    check_model(load(call, spec(None, 3)))


def test_a_carried_value_that_changes_its_rank_is_refused() -> None:
    def call(x: Any) -> Any:
        return tf.while_loop(
            lambda i, _: i < 3,
            lambda i, v: (i + 1, tf.expand_dims(v, 0)),
            (0, x),
            shape_invariants=(tf.TensorShape([]), tf.TensorShape(None)),
        )[1]

    with pytest.raises(LowerError, match="a value carried by a loop changes its type"):
        load(call, spec(2))


def _halved_while_above_one(x: Any, halved: Callable[[Any], Any]) -> Any:
    def step(x: Any) -> list[Any]:
        return [tf.ensure_shape(halved(x), [None, 4])]

    return tf.while_loop(lambda x: tf.shape(x)[0] > 1, step, [x])


def test_a_size_that_is_halved_in_each_step() -> None:
    def halved(x: Any) -> Any:
        even = tf.pad(x, [[0, tf.shape(x)[0] % 2], [0, 0]])
        return even[::2] + even[1::2]

    check_model(load(lambda x: _halved_while_above_one(x, halved), spec(None, 4)))


def test_a_size_that_changes_and_is_taken_for_another_one_is_refused() -> None:
    """The import did not come back: each size of the next step was taken for twice another one."""

    def call(x: Any) -> Any:
        return _halved_while_above_one(x, lambda x: x[::2] + x[1::2])

    with pytest.raises(LowerError, match=r"its body holds for some sizes alone.*\n.*found     f32\[2\*N\d+,4\] -> f32"):
        load(call, spec(None, 4))


def test_a_loop_over_constants_is_computed() -> None:
    def call(x: Any) -> Any:
        return x + tf.while_loop(lambda v: v < 100.0, lambda v: (v * 3.0,), (tf.constant(1.0),))[0]

    (add,) = load(call, spec(2)).signature().graph.eqns
    assert [float(a.array) for a in add.inputs if isinstance(a, Const)] == [243.0]


def test_a_loop_over_constants_that_does_not_end_is_refused() -> None:
    def call(x: Any) -> Any:
        return x + tf.while_loop(lambda v: v < 100.0, lambda v: (v - 1.0,), (tf.constant(1.0),))[0]

    with pytest.raises(LowerError, match=r"a loop over constants does not end.*\n.*at most 10000 steps"):
        load(call, spec(2))


def test_what_is_printed_and_asserted_is_dropped_and_noted() -> None:
    def call(x: Any) -> Any:
        tf.print("the sum is", tf.reduce_sum(x))
        tf.debugging.assert_greater(tf.reduce_sum(x), -1e9)
        return tf.raw_ops.Print(input=x * 2.0, data=[x], message="x")

    model = load(call, spec(3))
    assert names(model.signature().graph) == ["mul"]
    assert sorted("print" in note for note in model.report.notes) == [False, True]
    check_model(model)
