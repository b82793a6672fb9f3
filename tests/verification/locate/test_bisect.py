"""Where forms of one model part: against TensorFlow's nodes, against another file, and how the message says it."""

from __future__ import annotations

from dataclasses import replace

import keras
import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Eqn, Graph, Program, Source
from jfuse.kernels import ops
from jfuse.verification.locate.bisect import FailedCall, between, equation_errors, first_difference
from jfuse.verification.runners.node_values import Nodes
from tests.slow import slow_but
from tests.verification.locate.faults import Change, becomes, broken, constant, options
from tests.verification.locate.test_faults import Held, healthy


@pytest.fixture(scope="module")
def model() -> jfuse.Model:
    keras.utils.set_random_seed(1)
    layers = keras.layers
    x = keras.Input((5, 4), batch_size=2, name="x")
    y = layers.Conv1D(6, 3, padding="same", activation="relu", bias_initializer="normal", name="conv")(x)
    y = layers.LayerNormalization(name="norm")(y)
    y = layers.LSTM(5, return_sequences=True, bias_initializer="normal", name="memory")(y)
    y = layers.GRU(4, bias_initializer="normal", name="gates")(y)
    return jfuse.load(keras.Model(x, layers.Dense(3, activation="gelu", name="head")(y), name="recurrent"))


@pytest.fixture(scope="module")
def fused(model: jfuse.Model) -> jfuse.Model:
    return jfuse.lower(model)


@pytest.fixture(scope="module")
def call() -> FailedCall:
    return FailedCall("serving_default", {"x": np.random.default_rng(0).standard_normal((2, 5, 4)).astype(np.float32)})


def changed(program: Program, node: str, op: str, change: Change) -> Program:
    """The program with the equations changed that have this op and whose node ends so, in bodies too."""

    def rebuilt(graph: Graph) -> Graph:
        return replace(graph, eqns=tuple(map(of, graph.eqns)))

    def of(eqn: Eqn) -> Eqn:
        eqn = replace(eqn, bodies=tuple(map(rebuilt, eqn.bodies)))
        return change(eqn) if eqn.op.name == op and eqn.source.node.endswith(node) else eqn

    return Program(tuple(replace(s, graph=rebuilt(s.graph)) for s in program.signatures))


def nearly(a: np.ndarray) -> np.ndarray:
    return a * np.float32(1.001)


LSTM_GATE, GRU_CANDIDATE = "memory_1/while/lstm_cell_1/Sigmoid_1", "gates_1/while/gru_cell_1/Tanh"


@pytest.mark.parametrize(
    ("node", "op", "change", "layer"),
    slow_but(
        lambda row: row[-1] in ("conv_1", "gates_1"),
        [
            ("conv_1/Relu", "conv_2d", constant(1, nearly), "conv_1"),
            (
                "moments/mean",
                "mean",
                becomes(ops.reduce_max, np.array([2], np.int32), keep=1, keep_dims=True),
                "moments",
            ),
            ("memory_1/while", "unidirectional_sequence_lstm", constant(6, lambda a: a.T), "memory_1"),
            ("memory_1/while", "unidirectional_sequence_lstm", options(cell_clip=0.1), "memory_1"),
            ("Sigmoid_1", "logistic", becomes(ops.tanh), "gates_1"),
            ("head_1/Gelu/mul_2", "gelu", becomes(ops.relu), "head_1"),
        ],
    ),
    ids=["filter", "maximum for mean", "recurrent weights", "clip", "gate", "activation"],
)
def test_a_fault_of_the_lowering_is_found_against_tensorflow(
    model: jfuse.Model, fused: jfuse.Model, call: FailedCall, node: str, op: str, change: Change, layer: str
) -> None:
    wrong = changed(fused.program, node, op, change)
    found = first_difference(Held(wrong), model, call, "tensorflow/xla", None)
    assert found is not None
    assert found.source.split(" ")[0].endswith(node)
    assert found.first == ""
    assert found.pair == "tensorflow/xla"
    assert layer in found.layer


@pytest.mark.parametrize("node", [LSTM_GATE, pytest.param(GRU_CANDIDATE, marks=pytest.mark.slow)])
def test_a_fault_of_a_rule_is_found_within_a_loop_of_tensorflow(
    model: jfuse.Model, call: FailedCall, node: str
) -> None:
    """What the import makes of a node in a loop is wrong, so every later form of the model agrees with it."""
    op = "logistic" if "Sigmoid" in node else "tanh"
    wrong = changed(model.program, node, op, becomes(ops.relu))
    found = first_difference(Held(wrong), Held(wrong, model.imported), call, "tensorflow/xla", None)
    assert found is not None
    assert (found.op, found.first) == ("relu", "")
    assert found.source.startswith(f"recurrent_1/{node}")
    assert found.steps[0] <= 1


def test_a_healthy_model_is_not_blamed(
    model: jfuse.Model, fused: jfuse.Model, call: FailedCall, caplog: pytest.LogCaptureFixture
) -> None:
    assert first_difference(fused, model, call, "tensorflow/litert", fused.to_bytes()) is None
    assert not [r for r in caplog.records if r.name == "jfuse"]  # the search went through
    errors = equation_errors(fused, model, call, fused.to_bytes())
    for pair in ("xla/litert", "tensorflow/xla"):
        of = [e for e in errors if e.pair == pair]
        assert len(of) > len(fused.program.signatures[0].graph.eqns) / 2
        assert all(e.own is not None and e.own < 1e-5 for e in of)


def test_the_errors_along_a_graph_are_against_tensorflow_in_steps_of_a_loop_too(
    model: jfuse.Model, call: FailedCall
) -> None:
    """The import of an op in the loop is wrong: each of its steps errs, and not beside the import itself by nothing."""
    wrong = jfuse.lower(jfuse.Model(changed(model.program, GRU_CANDIDATE, "tanh", becomes(ops.relu)), model.imported))
    errors = equation_errors(wrong, Held(wrong.program, model.imported), call, None)
    steps = [e for e in errors if e.source.startswith(f"recurrent_1/{GRU_CANDIDATE}")]
    assert len(steps) == 5
    assert all(e.pair == "tensorflow/xla" and e.own is not None and e.own > 1e-3 for e in steps)


def test_what_tensorflow_does_not_tell_has_no_error(
    fused: jfuse.Model, model: jfuse.Model, call: FailedCall, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("jfuse.verification.locate.bisect.tensorflow_values", lambda *_: Nodes())
    assert not [e for e in equation_errors(fused, model, call, None) if e.op in ("tanh", "conv_2d", "softmax", "add")]


def renamed(program: Program) -> Program:
    """The program as another tool would write it: without the names of nodes."""

    def of(graph: Graph) -> Graph:
        eqns = enumerate(graph.eqns)
        return replace(graph, eqns=tuple(replace(e, source=Source(f"op{i}")) for i, e in eqns))

    return Program(tuple(replace(s, graph=of(s.graph)) for s in program.signatures))


@pytest.mark.parametrize("node", ["block/act/LeakyRelu", "up/pool/AvgPool", "head/act/Tanh"])
def test_two_files_with_other_names_are_matched_by_their_values(node: str) -> None:
    """Values that are alike tell where the two run together, and where they part."""
    program, _, inputs, _ = healthy("cnn")
    changes: dict[str, Change] = {
        "block/act/LeakyRelu": options(alpha=0.2),
        "up/pool/AvgPool": options(filter_width=3),
        "head/act/Tanh": becomes(ops.logistic),
    }
    wrong = renamed(broken(program, node, changes[node]))
    number = next(i for i, e in enumerate(program.signatures[0].graph.eqns) if e.source.node == node)
    found = between(wrong.signatures[0], program.signatures[0], FailedCall("main", inputs))
    assert found is not None
    # Without names the other file tells no value after the fault but the outputs: the run of equations begins with it.
    begins = found.first.split(" ")[0] or f"op{found.path[0]}"
    assert begins == f"op{number}"


def test_the_message_tells_the_equation_its_error_and_its_operands(
    model: jfuse.Model, fused: jfuse.Model, call: FailedCall
) -> None:
    wrong = changed(fused.program, "head_1/Gelu/mul_2", "gelu", becomes(ops.relu))
    found = first_difference(Held(wrong), model, call, "tensorflow/xla", None)
    assert found is not None
    assert found.place.startswith("recurrent_1/head_1/Gelu/mul_2 (Mul), layer recurrent_1/head_1")
    text, error, operand = found.detail.split("\n")
    assert text.startswith("b: f32[2,3] = relu a")
    assert error.strip().startswith("by itself differs by ")
    assert operand.strip().startswith("a: f32[2,3] from -")
