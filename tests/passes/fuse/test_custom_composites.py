"""Marked functions that the user asks for as custom operators."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter
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


_DETECTION = {
    "max_detections": "i: 4",
    "max_classes_per_detection": "i: 1",
    "num_classes": "i: 2",
    "use_regular_nms": "b: false",
    **dict.fromkeys(("nms_score_threshold", "nms_iou_threshold"), "f: 0.25"),
    **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), "f: 5.0"),
}


def detector(batch: int | None = 1, **changed: str | None) -> Any:
    """A model as the object detection API exports it: boxes and classes, and a stub that is marked as the operator."""
    written = {key: value for key, value in {**_DETECTION, **changed}.items() if value is not None}
    attributes = " ".join(f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in written.items())
    rng = np.random.default_rng(0)
    weights, anchors = rng.normal(size=(8, 42)).astype(np.float32), rng.uniform(0.2, 0.8, (6, 4)).astype(np.float32)

    @tf.function(experimental_implements=f'name: "TFLite_Detection_PostProcess" {attributes}')
    def post_process(encodings: Any, predictions: Any, anchors: Any) -> Any:
        return tuple(tf.constant(0.0) for _ in range(4))

    @tf.function(input_signature=[tf.TensorSpec([batch, 8], name="x")])
    def model(x: Any) -> Any:
        found = tf.matmul(x, weights)
        encodings = tf.reshape(found[:, :24], [-1, 6, 4])
        found = post_process(encodings, tf.sigmoid(tf.reshape(found[:, 24:], [-1, 6, 3])), anchors)
        return {**dict(zip(("boxes", "classes", "scores", "count"), found, strict=True)), "encodings": encodings}

    return model


def test_the_stub_of_the_object_detection_api_becomes_the_operator_of_the_runtime() -> None:
    lite = jfuse.convert(detector(), strict=True)
    code, options = custom_operator(lite)
    assert (code, flexbuffers.Loads(options)["num_classes"]) == ("TFLite_Detection_PostProcess", 2)
    assert flexbuffers.GetRoot(options).AsMap["use_regular_nms"].IsInt
    found = lite(np.ones((1, 8), np.float32))
    assert [found[n].shape for n in ("boxes", "classes", "scores", "count")] == [(1, 4, 4), (1, 4), (1, 4), (1,)]
    assert any("boxes, classes, count, scores" in n and "not compared with the source" in n for n in lite.report.notes)
    assert {d.output for d in lite.report.differences if "tensorflow" in d.pair} == {"encodings"}


@pytest.mark.slow
def test_the_operator_gives_what_the_official_file_gives(tmp_path: Path) -> None:
    module, folder = tf.Module(), str(tmp_path)
    module.call = detector()
    tf.saved_model.save(module, folder, signatures=module.call)
    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    converter.allow_custom_ops = True
    official, ours = converter.convert(), jfuse.convert(folder).to_bytes()
    rows = np.random.default_rng(1).normal(size=(3, 1, 8)).astype(np.float32)

    def in_runtime(data: bytes) -> list[list[np.ndarray]]:
        interpreter = Interpreter(model_content=data)
        interpreter.allocate_tensors()
        found = []
        for row in rows:
            interpreter.set_tensor(interpreter.get_input_details()[0]["index"], row)
            interpreter.invoke()
            results = [interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()]
            found.append(sorted(results, key=lambda a: (a.shape, a.ravel().tolist())))
        return found

    for wanted, found in zip(in_runtime(official), in_runtime(ours), strict=True):
        for w, f in zip(wanted, found, strict=True):
            np.testing.assert_allclose(f, w, rtol=1e-5, atol=1e-6)  # sums of eight products in another order


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (lambda: detector(use_regular_nms=None), "use_regular_nms: None"),
        (lambda: detector(num_classes="f: 2.0"), "num_classes: 2.0"),
        (lambda: detector(max_detections="i: 0"), "the integers 1 or more"),
        (lambda: detector(batch=None), "batch=1"),
        (
            lambda: marked("addons:DenseImageWarp", lambda x: tf.zeros([2, 3])),
            "marked 'addons:DenseImageWarp' is a stub",
        ),
        (lambda: marked("acme.unknown", lambda x: tf.zeros([2, 3])), "'acme.unknown' is a stub"),
    ],
    ids=["no-attribute", "float-for-int", "no-detections", "open-batch", "addons", "unknown"],
)
def test_a_stub_is_refused_where_its_operator_is_not_known(source: Any, message: str) -> None:
    with pytest.raises(LowerError, match=message):
        jfuse.convert(source(), verify=False)
