"""Marked functions that the user asks for as custom operators."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from flatbuffers import flexbuffers

import jfuse
from jfuse.errors import LowerError

_WARPED = 'name: "acme.warp" attr { key: "factor" value { f: 2.5 } } attr { key: "tfl_fusable_op" value { b: true } }'


def marked(annotation: str, body: Any) -> Any:
    """A function of x f32[n,3] that calls a composite and goes on with what it gives."""
    inner = tf.function(body, experimental_implements=annotation, autograph=False)
    return tf.function(lambda x: tf.nn.relu(inner(x)), input_signature=[tf.TensorSpec([None, 3])], autograph=False)


def custom_operator(lite: Any) -> tuple[str, bytes]:
    """Code and options of the only custom operator."""
    (graph,) = lite.program.graphs()
    ((code, options),) = [(e.op.code, e.params["options"]) for e in graph.eqns if e.op.code is not None]
    return code, options


def test_a_composite_becomes_a_custom_operator_that_computes_its_body() -> None:
    """Its body holds an op without a rule, which TensorFlow computes while the rest of the file is compared."""
    source = marked(_WARPED, lambda x: tf.math.igamma(tf.abs(x) + 1.0, tf.abs(x)) - 0.5)
    lite = jfuse.convert(source, custom_ops={"acme.warp": None})
    assert lite.report.operators == {"custom.acme.warp": 1, "relu": 1}
    code, options = custom_operator(lite)
    assert (code, flexbuffers.Loads(options)) == ("acme.warp", {"factor": 2.5})
    x = np.array([[0.5, -1.0, 3.0]], np.float32)
    np.testing.assert_allclose(lite(x), source(x), rtol=1e-6)
    assert any("without its custom operators" in note for note in lite.report.notes)


def test_results_of_a_size_that_follows_from_the_inputs() -> None:
    source = marked("acme.pairs", lambda x: x[1:] + x[:-1])
    assert jfuse.convert(source, custom_ops={"acme.pairs": None}).report.operators == {
        "custom.acme.pairs": 1,
        "relu": 1,
    }


def test_without_being_asked_for_it_stays_its_own_ops() -> None:
    lite = jfuse.convert(marked(_WARPED, lambda x: x * 2.0))
    assert "custom.acme.warp" not in lite.report.operators
    assert [r.condition for r in lite.report.refused] == ["no_rule"]


_LISTS = "".join(
    f'attr {{ key: "{key}" value {{ list {{ i: {a} i: {b} }} }} }} '
    for key, a, b in (("pool_size", 3, 2), ("strides", 2, 1))
)


def test_names_and_options_are_those_of_the_official_converter() -> None:
    lite = jfuse.convert(
        marked(
            f'name: "addons:MaxUnpooling2D" {_LISTS} attr {{ key: "padding" value {{ s: "VALID" }} }}',
            lambda x: tf.abs(x),
        ),
        custom_ops={"addons:MaxUnpooling2D": None},
    )
    assert custom_operator(lite) == ("MaxUnpooling2D", struct.pack("<10i", 2, 1, 2, 2, 3, 0, 0, 0, 0, 0))
    detection = 'name: "TFLite_Detection_PostProcess" attr { key: "use_regular_nms" value { b: true } }'
    lite = jfuse.convert(
        marked(detection, lambda x: tf.abs(x)), custom_ops={"TFLite_Detection_PostProcess": None}, verify=False
    )
    code, options = custom_operator(lite)
    assert (code, flexbuffers.Loads(options)) == ("TFLite_Detection_PostProcess", {"use_regular_nms": 1})
    assert flexbuffers.GetRoot(options).AsMap["use_regular_nms"].IsInt
    with pytest.raises(LowerError, match="pool_size and strides"):
        jfuse.convert(
            marked('name: "addons:MaxUnpooling2D"', lambda x: tf.abs(x)), custom_ops={"addons:MaxUnpooling2D": None}
        )
