"""Recurrent layers of TensorFlow 1 in its SavedModels, and frozen graphs, from TensorFlow to LiteRT."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import convert_variables_to_constants_v2

import jfuse
from jfuse.base.errors import ImportFailed
from jfuse.running.interpreter import LiteRt
from tests.end_to_end.invokes import check_invokes
from tests.frontends.against_tensorflow import spec
from tests.models import tf1

_QUICK = {"lstm", "lengths_open_sizes", "gru"}
_ROWS = [name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow) for name in tf1.RECURRENT]


@pytest.mark.parametrize("name", _ROWS)
def test_recurrent(name: str, tmp_path: Path) -> None:
    row = tf1.RECURRENT[name]
    lite = jfuse.convert(row.save(tmp_path / "model"), verify=False)
    found = {op: lite.report.operators.get(op, 0) for op in row.operators}
    assert found == row.operators
    check_invokes(lite, row.draw)


def test_verification_with_lengths(tmp_path: Path) -> None:
    """Lengths beyond the steps are drawn, too: TensorFlow takes them for all steps."""
    lite = jfuse.convert(tf1.RECURRENT["lengths"].save(tmp_path / "model"))
    assert lite.report.differences != []
    assert all(d.error <= d.tolerance for d in lite.report.differences)


@pytest.fixture(scope="module")
def frozen() -> tf1.Graph:
    return tf1.frozen(tf1.dynamic(lambda: tf1.cells().LSTMCell(4)), spec(2, 6, 3))


def test_a_file_with_a_frozen_graph(frozen: tf1.Graph, tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(frozen.graph_def.SerializeToString())
    lite = jfuse.convert(tmp_path / "model.pb", jfuse.Inputs(output_tensors=["y0", "y2:0"]))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    (signature,) = lite.program.signatures
    assert (signature.input_names, signature.output_names) == (("x0",), ("y0", "y2"))
    check_invokes(lite)


def test_a_graph_between_inner_tensors() -> None:
    source = tf1.frozen(lambda x: tf.tanh(tf.nn.relu(x, name="middle") * 2.0), spec(2, 3))
    model = jfuse.load(source.graph_def, jfuse.Inputs(input_tensors=["middle"], output_tensors=["y0"]))
    assert [e.op.name for e in model.signature().graph.eqns] == ["mul", "tanh"]


def test_open_shapes_are_given() -> None:
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, None, name="x")
        tf.identity(tf.reshape(x, [-1, 3]) * 2.0, name="y")
    graph_def = graph.as_graph_def()
    assert "of unknown rank" in jfuse.load(graph_def, jfuse.Inputs(output_tensors=["y"])).report.assumptions[0]
    model = jfuse.load(graph_def, jfuse.Inputs(output_tensors=["y"], input_signature=[spec(2, 6)]))
    assert str(model.signature().graph.outputs[0].type) == "f32[4,3]"


W = np.linspace(-0.5, 0.5, 9, dtype=np.float32).reshape(3, 3)


@pytest.mark.parametrize(
    ("function", "names"),
    [
        (lambda x: tf.tanh(x @ W), ("Identity",)),
        (lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a @ W), (0, x))[1], ("Identity",)),
        (lambda x: tf.scan(lambda h, a: tf.tanh(a + h), x, tf.zeros([3])), ("Identity",)),
        (lambda x: (tf.nn.relu(x), x * 2.0), ("Identity", "Identity_1")),
    ],
    ids=["no loop", "while", "scan", "two results"],
)
def test_results_of_a_frozen_function_are_found(function: Any, names: tuple[str, ...]) -> None:
    """Freezing a loop leaves placeholders `unused_control_flow_input` and a counter that nothing reads."""
    concrete = tf.function(function, input_signature=[spec(2, 3)], autograph=False).get_concrete_function()
    graph_def = convert_variables_to_constants_v2(concrete).graph.as_graph_def()
    model = jfuse.convert(graph_def, verify=False)
    assert model.signature().output_names == names
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    wanted = [t.numpy() for t in tf.nest.flatten(concrete(tf.constant(x)))]
    found = LiteRt(model.to_bytes()).run(model.signature().key, {model.signature().input_names[0]: x})
    for name, result in zip(names, wanted, strict=True):
        np.testing.assert_allclose(found[name], result, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (
            {},
            r"does not say what it computes\n.*output_tensors=.*\n.*nothing reads: y0, y1, y2\n.*=.'y0'.\),",
        ),
        ({"output_tensors": ["z"]}, "no tensor 'z'\n.*placeholders: x0; nodes that nothing reads: y0"),
        (
            {"output_tensors": ["y0"], "input_tensors": []},
            "cannot run the graph between its inputs and outputs\n.*\n.*placeholders",
        ),
        ({"output_tensors": "y0"}, r"output_tensors= takes a sequence of names\n.*'y0'\n.*\['y0'\]"),
        ({"output_tensors": ["y0"], "input_signature": []}, "the graph has 1 inputs"),
    ],
)
def test_what_a_graph_needs(frozen: tf1.Graph, names: dict[str, Any], message: str) -> None:
    with pytest.raises(ImportFailed, match=message):
        jfuse.load(frozen.graph_def, jfuse.Inputs(**names))


def test_names_are_for_graphs_only(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match="input_tensors= and output_tensors= name tensors of a GraphDef"):
        jfuse.load(tf.function(lambda x: x + 1.0, input_signature=[spec(2)]), jfuse.Inputs(output_tensors=["y"]))


def test_a_file_that_is_no_graph(tmp_path: Path) -> None:
    (tmp_path / "model.pb").write_bytes(b"no graph")
    with pytest.raises(ImportFailed, match=r"cannot be read as a GraphDef\n.*\n.*give its folder"):
        jfuse.load(tmp_path / "model.pb", jfuse.Inputs(output_tensors=["y"]))
