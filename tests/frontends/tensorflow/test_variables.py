"""Variables: read without a copy where nothing writes them, else values that one call hands to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.frontends.tensorflow.variables import borrow_array
from jfuse.ir.graph import Const
from jfuse.ir.walk import all_eqns
from jfuse.verification.runners.in_tensorflow import run_tensorflow, variables_restored
from tests.frontends.against_tensorflow import check_model, check_values, spec
from tests.models import other


class Counter(tf.Module):
    """`count` writes what `read` reads; `log` writes what nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable(1.0, name="total")
        self.calls = tf.Variable(0, name="calls")

    @tf.function(input_signature=[spec(3)], autograph=False)
    def count(self, x: Any) -> Any:
        """x plus how often this was called."""
        return x + self.total.assign_add(1.0)

    @tf.function(input_signature=[spec(3)], autograph=False)
    def read(self, x: Any) -> Any:
        """x plus the variable."""
        return x + self.total

    @tf.function(input_signature=[spec(3)], autograph=False)
    def log(self, x: Any) -> Any:
        """2x; the call is counted in a variable."""
        self.calls.assign_add(1)
        return x * 2.0


def weights(source: Any, size: int) -> list[np.ndarray]:
    graph = jfuse.load(source).signature().graph
    atoms = [a for e in all_eqns(graph) for a in e.inputs]
    return [a.array for a in atoms if isinstance(a, Const) and a.array.size == size]


def test_variables_are_borrowed() -> None:
    table = tf.Variable(np.ones((50, 8), np.float32))

    @tf.function(input_signature=[spec(3, dtype=tf.int32)], autograph=False)
    def call(ids: Any) -> Any:
        return tf.gather(table, ids)

    (array,) = weights(call, 400)
    assert np.shares_memory(array, np.asarray(memoryview(table.read_value())))
    assert not array.flags.owndata
    assert not array.flags.writeable


def test_a_later_assignment_does_not_change_what_was_imported() -> None:
    variable = tf.Variable(np.ones(100, np.float32))
    array = borrow_array(variable)
    variable.assign(np.zeros(100, np.float32))
    assert array.sum() == 100


def test_bfloat16_and_strings_are_copied() -> None:
    assert borrow_array(tf.Variable(tf.cast([1.5], tf.bfloat16))).astype(np.float32).tolist() == [1.5]
    assert borrow_array(tf.Variable(["a", "b"])).tolist() == [b"a", b"b"]


def check_calls(model: jfuse.Model, keys: Sequence[str], *shapes: tuple[int, ...]) -> None:
    """The signatures, called in that order, answer like their functions and leave the variables as these do."""
    assert model.imported is not None
    rng = np.random.default_rng(0)
    stream = model.stream()
    with variables_restored(model.imported):
        for key in keys:
            function = model.imported.functions[key]
            inputs = {
                n: rng.normal(size=s).astype(np.float32) for n, s in zip(function.input_names, shapes, strict=True)
            }
            wanted = run_tensorflow(function, inputs)
            check_values(stream.run(inputs, key), wanted)
            held = {name: variable.numpy() for name, variable in model.imported.variables.items()}
            check_values({name: np.asarray(stream.states[name]) for name in held}, held)


def test_a_variable_that_nothing_writes_is_a_constant() -> None:
    counter = Counter()  # a function holds its variables weakly
    model = jfuse.load(counter.read)
    check_model(model)
    assert model.program.states() == ()


def test_a_written_variable_is_a_state_of_all_that_use_it() -> None:
    counter = Counter()
    model = jfuse.load({"read": counter.read, "count": counter.count})
    assert [[s.name for s in signature.states] for signature in model.program.signatures] == [["total"], ["total"]]
    assert model.program.states()[0].initial.array == 1.0
    check_calls(model, ["read", "count", "count", "read", "count"], (3,))
    assert counter.total.numpy() == 1.0  # the check has put it back


def test_a_write_that_no_result_needs_is_dropped_and_noted() -> None:
    counter = Counter()
    model = jfuse.load(counter.log)
    assert [e.op.name for e in model.signature().graph.eqns] == ["mul"]
    assert ["no result depends on it" in note for note in model.report.notes] == [True]


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_a_stateful_layer_keeps_h_and_c(library: str) -> None:
    model = jfuse.load(other.stateful_lstm(library))
    name = "rnn_state" if library == "keras" else "Variable"
    assert [name in state.name for state in model.signature().states] == [True, True]
    assert len({state.name for state in model.signature().states}) == 2
    check_calls(
        model, ["serving_default"] * 3, *(tuple(map(int, v.type.shape)) for v in model.signature().graph.inputs[:1])
    )


class Writer(tf.Module):
    """Variables written in branches and loops, read before and after, and one that only the other needs."""

    def __init__(self) -> None:
        super().__init__()
        self.value = tf.Variable([0.5, -0.25], name="value")
        self.scale = tf.Variable(1.0, name="scale")
        self.seed = tf.Variable(0, name="seed")

    def branches(self, x: Any) -> Any:
        before = self.value + 0.0
        self.seed.assign_add(7)

        def rise() -> Any:
            self.scale.assign(self.scale * 1.5)
            self.value.assign_add(x)
            return self.scale + 0.0

        def fall() -> Any:
            self.value.assign(self.value[::-1] * self.scale)
            return tf.constant(0.25)

        found = tf.cond(tf.reduce_sum(x) > 0.0, rise, fall)
        return before - self.value * found

    def loops(self, x: Any) -> Any:
        def step(i: Any, total: Any) -> Any:
            self.value.assign_sub(x * self.scale)
            tf.cond(tf.reduce_sum(self.value) > 0.0, lambda: self.scale.assign(0.5), lambda: self.scale.assign(2.0))
            return i + 1, total + self.value

        return tf.while_loop(lambda i, _: tf.logical_and(i < 4, self.scale < 3.0), step, (0, x))[1]

    def constant(self, x: Any) -> Any:
        def step(i: Any) -> Any:
            self.value.assign_add([1.0, 2.0])
            return i + 1

        before = self.value * 2.0
        self.value.assign([0.0, 1.0])
        steps = tf.while_loop(lambda i: i < 3, step, [0])
        return x + self.value + before + tf.cast(steps, tf.float32)

    def called(self, x: Any) -> Any:
        inner = tf.function(lambda y: self.value.assign_add(y), autograph=False)
        inner(x)
        return inner(x * 2.0) * self.scale


@pytest.mark.parametrize("name", ["branches", "loops", "constant", "called"])
def test_variables_are_values_wherever_they_are_written(name: str) -> None:
    function = tf.function(getattr(Writer(), name), input_signature=[spec(2, name="x")], autograph=False)
    model = jfuse.load(function)
    assert "seed" not in [state.name for state in model.program.states()]
    check_calls(model, ["serving_default"] * 6, (2,))
    jfuse.verify(jfuse.lower(model), model)


def test_what_a_write_needs_is_a_state_too() -> None:
    """No result reads `slow` itself: it is found by what is assigned to what a result reads."""
    fast, slow = tf.Variable(1.0, name="fast"), tf.Variable(2.0, name="slow")

    def call(x: Any) -> Any:
        result = x + fast
        fast.assign(fast * 0.5 + slow)
        slow.assign_sub(0.25)
        return result

    model = jfuse.load(tf.function(call, input_signature=[spec(2, name="x")], autograph=False))
    assert sorted(state.name for state in model.program.states()) == ["fast", "slow"]
    check_calls(model, ["serving_default"] * 4, (2,))


def test_a_write_in_the_condition_of_a_loop_is_refused() -> None:
    total = tf.Variable(0.0, name="total")

    def call(x: Any) -> Any:
        return tf.while_loop(lambda y: tf.reduce_sum(y) < total.assign_add(1.0), lambda y: [y + 1.0], [x])[0]

    with pytest.raises(LowerError, match="'total:0' is written by the condition of a loop"):
        jfuse.load(tf.function(call, input_signature=[spec(2)], autograph=False))


def test_a_variable_that_changes_its_shape_is_refused() -> None:
    rows = tf.Variable(np.ones((2, 3), np.float32), shape=[None, 3], name="rows")

    def call(x: Any) -> Any:
        rows.assign(tf.concat([rows, x], 0))
        return tf.reduce_sum(rows)

    with pytest.raises(
        LowerError, match=r"'rows:0' is given a value of another type(.|\n)*f32\[2,3\](.|\n)*f32\[3,3\]"
    ):
        jfuse.load(tf.function(call, input_signature=[spec(1, 3)], autograph=False))


def test_parts_of_a_variable_are_written() -> None:
    """Rows by their number, elements by their place, and slices; several times."""
    table = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3), name="table")

    def call(x: Any) -> Any:
        table.scatter_update(tf.IndexedSlices(x, tf.constant([2, 0])))
        table.scatter_add(tf.IndexedSlices(x, tf.constant([1, 1])))
        table.scatter_sub(tf.IndexedSlices(tf.constant(0.5), tf.constant([3])))
        table.scatter_max(tf.IndexedSlices(x[:1], tf.constant([3])))
        table.scatter_nd_update([[0, 1], [3, 2]], x[:, 0])
        table.scatter_nd_sub([[0]], x[:1])
        table[1:3, ::2].assign(x[:, 1:])
        table[0].assign(x[1])
        return table * 1.0

    model = jfuse.load(tf.function(call, input_signature=[spec(2, 3, name="x")], autograph=False))
    check_calls(model, ["serving_default"] * 3, (2, 3))
    jfuse.verify(jfuse.lower(model), model)


def test_a_change_that_has_no_rule_is_refused_by_name() -> None:
    table = tf.Variable(np.ones((4, 2), np.float32), name="table")

    def call(x: Any) -> Any:
        table.scatter_div(tf.IndexedSlices(x, tf.constant([1])))
        return table + 0.0

    with pytest.raises(LowerError, match=r"ResourceScatterDiv on a variable(.|\n)*table"):
        jfuse.load(tf.function(call, input_signature=[spec(1, 2)], autograph=False))
