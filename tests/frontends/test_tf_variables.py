"""Variables: read without a copy where nothing writes them, refused by name where results depend on a write."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.errors import LowerError
from jfuse.frontends.tf_variables import borrow_array
from jfuse.ir.graph import Const
from jfuse.ir.walk import all_eqns
from tests.frontends.against_tensorflow import check_model, spec
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


def test_a_variable_that_only_another_function_writes() -> None:
    counter = Counter()
    check_model(jfuse.load(counter.read))
    with pytest.raises(LowerError, match="the variable 'total:0' is written by the model"):
        jfuse.load({"read": counter.read, "count": counter.count})


def test_a_write_that_no_result_needs_is_dropped_and_noted() -> None:
    counter = Counter()
    model = jfuse.load(counter.log)
    assert [e.op.name for e in model.signature().graph.eqns] == ["mul"]
    assert ["no result depends on it" in note for note in model.report.notes] == [True]


@pytest.mark.parametrize("library", ["keras", "tf_keras"])
def test_a_stateful_layer_is_refused_by_the_name_of_its_variable(library: str) -> None:
    name = "rnn_state" if library == "keras" else "Variable"
    with pytest.raises(LowerError, match=rf"variable '.*{name}.*' is written by the model.*\n.*stateful=False"):
        jfuse.load(other.stateful_lstm(library))


def test_a_write_in_a_loop_is_refused() -> None:
    total = tf.Variable(0.0)

    def step(i: Any, x: Any) -> Any:
        return i + 1, x + total.assign_add(1.0)

    def call(x: Any) -> Any:
        return tf.while_loop(lambda i, _: i < 3, step, (0, x))[1]

    with pytest.raises(LowerError, match="a variable is written inside of a loop or branch"):
        jfuse.load(tf.function(call, input_signature=[spec()], autograph=False))


def test_a_table_is_refused() -> None:
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(tf.constant([1, 2], tf.int64), tf.constant([5.0, 6.0])), 0.0
    )
    lookup = tf.function(lambda x: table.lookup(x), input_signature=[spec(3, dtype=tf.int64)], autograph=False)
    with pytest.raises(LowerError, match="LookupTableFindV2"):
        jfuse.load(lookup)
