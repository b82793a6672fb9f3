"""Parts of a GraphDef as functions, against a session that is fed the same tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import tensorflow as tf

from jfuse.frontends.graph_def_parts import function_between

v1 = tf.compat.v1


def _graph() -> tf.Graph:
    """x f32[2,4]; (a, b) its halves; y = tanh(a) + b after a node that nothing else reads; z of another placeholder."""
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(tf.float32, [2, 4], name="x")
        with tf.control_dependencies([tf.identity(x, name="before")]):
            a, b = tf.split(x, 2, axis=1, name="halves")
        with tf.control_dependencies([a]):
            tf.add(tf.tanh(a), b, name="y")
        tf.add(v1.placeholder(tf.float32, [], name="other"), 1.0, name="z")
        tf.add(x, 2.0, name="input_0")
    return graph


@pytest.mark.parametrize(
    ("fed", "outputs", "nodes"),
    [
        (["x:0"], ["y:0"], {"before", "halves/split_dim", "halves", "Tanh", "y"}),
        (["halves:0", "halves:1"], ["y:0"], {"Tanh", "y"}),
        (["halves:0", "x:0"], ["y:0"], {"before", "halves/split_dim", "halves", "Tanh", "y"}),
        (["x:0", "other:0"], ["z:0", "x:0", "z:0"], {"add/y", "z", "z/y"}),
        (["x:0"], ["input_0:0"], {"input_0", "input_0/y"}),
    ],
    ids=["placeholder", "inner", "one result of two", "fed results", "name of an input"],
)
def test_it_computes_what_a_session_does(fed: Sequence[str], outputs: Sequence[str], nodes: set[str]) -> None:
    graph = _graph()
    function = function_between(graph.as_graph_def(), fed, outputs)
    random = np.random.default_rng(0)
    shapes = [tuple(graph.get_tensor_by_name(name).shape) for name in fed]
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
    with v1.Session(graph=graph) as session:
        wanted = session.run(list(outputs), dict(zip(fed, arrays, strict=True)))
    for found, expected in zip(function(*map(tf.constant, arrays)), wanted, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert [tuple(t.shape) for t in function.inputs] == shapes
    made = {node.name for node in function.graph.as_graph_def().node if node.op != "Placeholder"}
    assert {name for name in made if not name.startswith("add")} <= nodes


def test_a_placeholder_that_is_not_fed() -> None:
    with pytest.raises(ValueError, match="need the placeholder 'other'"):
        function_between(_graph().as_graph_def(), ["x:0"], ["y:0", "z:0"])


def test_a_scalar_shape_of_an_old_producer_is_unknown() -> None:
    """Source: tensorflow/core/ops/array_ops.cc, Placeholder: before version 22 none was written as a scalar's."""
    graph_def = _graph().as_graph_def()
    graph_def.versions.producer = 21
    (x,) = function_between(graph_def, ["other:0"], ["z:0"]).inputs
    assert x.shape.rank is None
