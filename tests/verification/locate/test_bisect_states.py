"""Where a model with variables parts from its source: TensorFlow's nodes tell, in any call, from its states."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.graph import Program, Signature
from jfuse.kernels import ops
from jfuse.verification.locate.bisect import FailedCall, equation_errors, first_difference
from jfuse.verification.runners.tensorflow_values import tensorflow_values
from tests.slow import slow_but
from tests.verification.locate.faults import Change, becomes, constant, swapped
from tests.verification.locate.test_bisect import changed
from tests.verification.locate.test_faults import Held

WEIGHTS = np.array([[0.5, -1.0, 0.25], [1.0, 0.75, -0.5], [-0.25, 0.5, 1.0]], np.float32)
KEPT = np.array([0.5, -2.0, 3.0], np.float32)  # what the variable holds after some calls


class Running(tf.Module):
    """A running total that is read before and after it is written, and a variable that nobody writes."""

    def __init__(self) -> None:
        self.total = tf.Variable(tf.ones([3]), name="total")
        self.weights = tf.Variable(WEIGHTS, name="weights")

    @tf.function(input_signature=[tf.TensorSpec([2, 3], tf.float32, name="x")], autograph=False)
    def __call__(self, x: Any) -> Any:
        product = tf.matmul(x, self.weights, name="product")
        before = tf.tanh(self.total, name="before")
        self.total.assign_add(tf.reduce_mean(product, 0, name="mean"))
        after = tf.multiply(self.total, 2.0, name="after")
        return tf.subtract(tf.sigmoid(product, name="gate"), before, name="part") * after


@pytest.fixture(scope="module")
def running() -> tuple[Running, jfuse.Model, Mapping[str, jfuse.Model]]:
    module = Running()
    model = jfuse.load(module.__call__)
    return module, model, {state: jfuse.lower(model, state=state) for state in ("source", "io", "keep", "reset")}


@pytest.fixture(scope="module")
def memory() -> tuple[jfuse.Model, Mapping[str, jfuse.Model]]:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    x = keras.Input((4, 3), batch_size=2, name="x")
    y = layers.LSTM(3, stateful=True, return_sequences=True, bias_initializer="normal", name="memory")(x)
    y = layers.GRU(3, bias_initializer="normal", name="gates")(y)
    model = jfuse.load(keras.Model(x, layers.Dense(2, activation="tanh", name="head")(y), name="recurrent"))
    return model, {state: jfuse.lower(model, state=state) for state in ("source", "io")}


def call_of(lite: jfuse.Model, x: np.ndarray, states: Mapping[str, np.ndarray]) -> FailedCall:
    """A call from these states, which are inputs at their initial values in a file that exposes them."""
    (signature,) = lite.program.signatures
    exposed = {s.name: s.initial.array for s in signature.exposed}
    return FailedCall(signature.key, {signature.input_names[0]: x, **exposed}, {} if exposed else states)


def test_tensorflow_s_values_are_those_of_the_call(running: Any) -> None:
    module, model, _ = running
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (key,) = model.imported.functions
    nodes = tensorflow_values(model.imported, key, {"x": x}, {"total": KEPT})
    found = {name: nodes.results[name][-1][1][0] for name in ("product", "before", "after")}
    np.testing.assert_allclose(found["product"], x @ WEIGHTS, rtol=1e-6)  # three terms
    np.testing.assert_allclose(found["before"], np.tanh(KEPT), rtol=1e-6)
    np.testing.assert_allclose(found["after"], (KEPT + (x @ WEIGHTS).mean(0)) * 2, rtol=1e-6)
    assert module.total.numpy().tolist() == [1, 1, 1]


FAULTS: list[tuple[str, str, Change]] = [
    ("product", "fully_connected", constant(1, lambda a: a.T)),
    ("before", "tanh", becomes(ops.logistic)),
    ("mean", "mean", becomes(ops.reduce_max, np.array([0], np.int32), keep=1, keep_dims=False)),
    ("after", "mul", constant(1, lambda a: a * 1.001)),
    ("gate", "logistic", becomes(ops.tanh)),
    ("part", "sub", swapped(0, 1)),
]


@pytest.mark.parametrize("state", ["source", "io", "keep"])
@pytest.mark.parametrize(("node", "op", "change"), FAULTS, ids=[node for node, _, _ in FAULTS])
def test_a_fault_of_the_lowering_is_found(running: Any, state: str, node: str, op: str, change: Change) -> None:
    module, model, forms = running
    x = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
    call = call_of(forms[state], x, {"total": KEPT})
    wrong = changed(forms[state].program, node, op, change)
    assert str(wrong) != str(forms[state].program)
    found = first_difference(Held(wrong), model, call, "tensorflow/xla", None)
    assert found is not None
    assert (found.source.split(" ")[0], found.first, found.pair) == (node, "", "tensorflow/xla")
    assert module.total.numpy().tolist() == [1, 1, 1]


@pytest.mark.parametrize("state", ["source", "io"])
def test_a_fault_of_a_rule_is_found(running: Any, state: str) -> None:
    """What the import makes of a node is wrong, so that all later forms agree with it."""
    _, model, forms = running
    x = np.random.default_rng(2).standard_normal((2, 3)).astype(np.float32)
    wrong = changed(model.program, "before", "tanh", becomes(ops.logistic))
    call = call_of(forms[state], x, {"total": KEPT})
    late = changed(forms[state].program, "before", "tanh", becomes(ops.logistic))
    found = first_difference(Held(late), Held(wrong, model.imported), call, "tensorflow/xla", None)
    assert found is not None
    assert (found.source.split(" ")[0], found.op, found.first) == ("before", "logistic", "")


def test_a_variable_that_is_not_written_is_found(running: Any) -> None:
    _, model, forms = running

    def unwritten(signature: Signature) -> Signature:
        graph = signature.graph
        return replace(signature, graph=replace(graph, outputs=(graph.outputs[0], graph.inputs[-1])))

    wrong = Program(tuple(map(unwritten, forms["source"].program.signatures)))
    call = call_of(forms["source"], np.ones((2, 3), np.float32), {"total": KEPT})
    found = first_difference(Held(wrong), model, call, "tensorflow/xla", None)
    assert found is not None
    assert (found.state, found.pair) == ("total", "tensorflow/xla")


def test_what_fails_is_shrunk_without_its_states(running: Any) -> None:
    """The source starts from its own: a file that starts elsewhere differs for another reason."""
    module, model, forms = running
    wrong = changed(forms["io"].program, "after", "mul", constant(1, lambda a: a * 1.5))
    with pytest.raises(jfuse.VerifyFailed, match="at after") as failed:
        jfuse.verify(jfuse.Model(wrong, model.imported), model, edges="none")
    ((_, inputs),) = failed.value.verification.inputs
    assert inputs["total"].tolist() == module.total.numpy().tolist() == [1, 1, 1]
    assert not inputs["x"].any()


RECURRENT_WEIGHTS, BIAS = constant(6, lambda a: a.T), constant(13, lambda a: a + 1)
IN_CELLS = {RECURRENT_WEIGHTS: constant(2, np.negative), BIAS: constant(3, lambda a: a + 1)}
"""The same faults in the cells that a file with its states as inputs has in place of the operator."""


@pytest.mark.parametrize("state", slow_but("source".__eq__, ["source", "io"]))
@pytest.mark.parametrize(
    ("node", "op", "change"),
    slow_but(
        lambda row: row[1] in ("logistic", "tanh"),
        [
            ("memory_1/while", "unidirectional_sequence_lstm", RECURRENT_WEIGHTS),
            ("memory_1/while", "unidirectional_sequence_lstm", BIAS),
            ("gru_cell_1/Sigmoid_1", "logistic", becomes(ops.tanh)),
            ("head_1/Tanh", "tanh", becomes(ops.relu)),
        ],
    ),
    ids=["recurrent weights", "bias", "gate", "activation"],
)
def test_a_fault_around_a_stateful_layer_is_found(memory: Any, state: str, node: str, op: str, change: Change) -> None:
    model, forms = memory
    if state == "io" and op == "unidirectional_sequence_lstm":
        op, change = "basic_lstm", IN_CELLS[change]
    x, h, c = np.random.default_rng(3).standard_normal((3, 2, 12)).astype(np.float32)
    names = [s.name for s in model.program.signatures[0].states]
    states = dict(zip(names, (np.tanh(h[:, :3]), c[:, :3]), strict=True))
    call = call_of(forms[state], x.reshape(2, 4, 3), states)
    wrong = changed(forms[state].program, node, op, change)
    found = first_difference(Held(wrong), model, call, "tensorflow/xla", None)
    assert found is not None
    assert found.source.split(" ")[0].endswith(node)
    assert found.pair == "tensorflow/xla"
    # All cells of a layer have one fault, and one node: where the largest difference begins, others differ already.
    assert found.first == (found.source if op == "basic_lstm" else "")


@pytest.mark.parametrize("state", ["source", "io"])
def test_healthy_models_are_not_blamed(memory: Any, state: str, caplog: pytest.LogCaptureFixture) -> None:
    model, forms = memory
    x = np.random.default_rng(3).standard_normal((2, 4, 3)).astype(np.float32)
    names = [s.name for s in model.program.signatures[0].states]
    call = call_of(forms[state], x, dict.fromkeys(names, np.full((2, 3), 0.5, np.float32)))
    with caplog.at_level(logging.WARNING):
        assert first_difference(forms[state], model, call, "tensorflow/xla", None) is None
    assert not [r for r in caplog.records if r.name == "jfuse"]  # the search went through
    errors = [e for e in equation_errors(forms[state], model, call, None) if e.pair == "tensorflow/xla"]
    assert len(errors) > len(forms[state].program.signatures[0].graph.eqns) / 2
    assert all(e.own is not None and e.own < 1e-5 for e in errors)
