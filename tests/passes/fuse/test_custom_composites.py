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
from jfuse.base.errors import LowerError

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
    lite = jfuse.convert(source, pipeline=jfuse.Pipeline(custom_ops={"acme.warp": None}))
    assert lite.report.operators == {"custom.acme.warp": 1, "relu": 1}
    code, options = custom_operator(lite)
    assert (code, flexbuffers.Loads(options)) == ("acme.warp", {"factor": 2.5})
    x = np.array([[0.5, -1.0, 3.0]], np.float32)
    np.testing.assert_allclose(lite(x), source(x), rtol=1e-6)
    assert any("without its custom operators" in note for note in lite.report.notes)


def test_results_of_a_size_that_follows_from_the_inputs() -> None:
    source = marked("acme.pairs", lambda x: x[1:] + x[:-1])
    assert jfuse.convert(source, pipeline=jfuse.Pipeline(custom_ops={"acme.pairs": None})).report.operators == {
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


_POOLS = f'name: "addons:MaxUnpooling2D" {_LISTS} attr {{ key: "padding" value {{ s: "VALID" }} }}'
_NGRAMS = {"axis": -1, "reduction_type": "STRING_JOIN", "string_separator": " ", "width": 2}
_HASHES = {"buckets": 100, "hash_seed": [5, -70000]}


def annotation(name: str, **attributes: Any) -> str:
    """The text of a NameAttrList."""
    kinds = {int: "i: {}", str: 's: "{}"', list: "list {{ {} }}"}
    texts = {n: " ".join(f"i: {i}" for i in v) if isinstance(v, list) else v for n, v in attributes.items()}
    values = ((n, kinds[type(v)].format(texts[n])) for n, v in attributes.items())
    return f'name: "{name}" ' + " ".join(f'attr {{ key: "{n}" value {{ {v} }} }}' for n, v in values)


def called(annotation: str, body: Any, *specs: Any) -> Any:
    """A function that calls a marked one."""
    inner = tf.function(body, experimental_implements=annotation, autograph=False)
    return tf.function(lambda *operands: inner(*operands), input_signature=specs, autograph=False)


_TEXTS, _SPLITS = tf.TensorSpec([None], tf.string), tf.TensorSpec([None], tf.int64)
_IMAGE = tf.TensorSpec([1, 4, 4, 2])


def words(texts: Any) -> Any:
    """What a tokenizer of texts gives: words and row splits."""
    return tf.identity(texts), tf.range(tf.size(texts, out_type=tf.int64) + 1)


def hashed(texts: Any, splits: Any) -> Any:
    """Two numbers a row."""
    return tf.ones([tf.shape(splits)[0] - 1, 2]) * tf.cast(tf.size(texts), tf.float32)


@pytest.mark.parametrize(
    ("marking", "body", "specs", "options"),
    [
        (_POOLS, lambda x, _: tf.abs(x), (_IMAGE, _IMAGE), struct.pack("<10i", 2, 1, 2, 2, 3, 0, 0, 0, 0, 0)),
        ("addons:DenseImageWarp", lambda x, y: x + y, (_IMAGE, _IMAGE), b""),
        (annotation("tftext:WhitespaceTokenizer"), words, (_TEXTS,), b""),
        (annotation("tftext:Ngrams", **_NGRAMS, other=3), lambda *a: a, (_TEXTS, _SPLITS), _NGRAMS),
        (annotation("tftext:custom:SgnnProjection", **_HASHES), hashed, (_TEXTS, _SPLITS), _HASHES),
    ],
    ids=["unpooling", "warping", "words", "ngrams", "projection"],
)
def test_names_and_options_are_those_of_the_official_converter(
    marking: str, body: Any, specs: Any, options: Any
) -> None:
    """As its files have them where TensorFlow Text's ops are registered; of maps the order differs."""
    name = marking.split('"')[1] if '"' in marking else marking
    code, written = custom_operator(
        jfuse.convert(called(marking, body, *specs), pipeline=jfuse.Pipeline(custom_ops={name: None}))
    )
    assert code == name.removeprefix("addons:")
    assert (written if isinstance(options, bytes) else flexbuffers.Loads(written)) == options


@pytest.mark.parametrize(
    ("marking", "body", "specs", "message"),
    [
        (annotation("addons:MaxUnpooling2D"), lambda x, _: x * 2.0, (_IMAGE, _IMAGE), "pool_size and strides"),
        (_POOLS, lambda x: tf.abs(x), (_IMAGE,), "the places that they came from"),
        (annotation("tftext:Ngrams", width=2), lambda *a: a, (_TEXTS, _SPLITS), "string_separator and reduction"),
        (annotation("tftext:Ngrams", **{**_NGRAMS, "axis": "1"}), lambda *a: a, (_TEXTS, _SPLITS), "and axis"),
        (annotation("tftext:WhitespaceTokenizer"), lambda x: tf.identity(x), (_TEXTS,), "row splits for each axis"),
        (annotation("tftext:custom:SgnnProjection", **{**_HASHES, "hash_seed": [5]}), hashed, (_TEXTS, _SPLITS),
         "as many in a row as hash_seed"),
    ],
    ids=["unpooling-lacks", "unpooling-of-one", "ngrams-lack", "ngrams-text", "words-alone", "projection-of-one"],
)  # fmt: skip
def test_what_a_known_kernel_does_not_take_is_refused(marking: str, body: Any, specs: Any, message: str) -> None:
    name = marking.split('"')[1]
    with pytest.raises(LowerError, match=message):
        jfuse.convert(called(marking, body, *specs), pipeline=jfuse.Pipeline(custom_ops={name: None}), verify=False)


def test_options_of_a_bool_are_an_integer_where_the_kernel_reads_one() -> None:
    detection = 'name: "TFLite_Detection_PostProcess" attr { key: "use_regular_nms" value { b: true } }'
    lite = jfuse.convert(
        marked(detection, lambda x: tf.abs(x)),
        pipeline=jfuse.Pipeline(custom_ops={"TFLite_Detection_PostProcess": None}),
        verify=False,
    )
    code, options = custom_operator(lite)
    assert (code, flexbuffers.Loads(options)) == ("TFLite_Detection_PostProcess", {"use_regular_nms": 1})
    assert flexbuffers.GetRoot(options).AsMap["use_regular_nms"].IsInt


_DETECTION = {
    "max_detections": "i: 4",
    "max_classes_per_detection": "i: 1",
    "num_classes": "i: 2",
    "use_regular_nms": "b: false",
    **dict.fromkeys(("nms_score_threshold", "nms_iou_threshold"), "f: 0.25"),
    **dict.fromkeys(("y_scale", "x_scale", "h_scale", "w_scale"), "f: 5.0"),
}


_SCALARS = ((),) * 4
_SHAPES = ((1, 4, 4), (1, 4), (1, 4), (1,))


def detector(batch: int | None = 1, stub: Any = _SCALARS, then: Any = lambda found: found, **changed: Any) -> Any:
    """A model as the object detection API exports it: boxes and classes, and a stub that is marked as the operator.

    stub: the shapes of its results. then: what the model makes of them.
    """
    written = {key: value for key, value in {**_DETECTION, **changed}.items() if value is not None}
    attributes = " ".join(f'attr {{ key: "{key}" value {{ {value} }} }}' for key, value in written.items())
    rng = np.random.default_rng(0)
    weights, anchors = rng.normal(size=(8, 42)).astype(np.float32), rng.uniform(0.2, 0.8, (6, 4)).astype(np.float32)

    @tf.function(experimental_implements=f'name: "TFLite_Detection_PostProcess" {attributes}')
    def post_process(encodings: Any, predictions: Any, anchors: Any) -> Any:
        return tuple(tf.zeros(shape) for shape in stub)

    @tf.function(input_signature=[tf.TensorSpec([batch, 8], name="x")])
    def model(x: Any) -> Any:
        found = tf.matmul(x, weights)
        encodings = tf.reshape(found[:, :24], [-1, 6, 4])
        found = then(post_process(encodings, tf.sigmoid(tf.reshape(found[:, 24:], [-1, 6, 3])), anchors))
        return {**dict(zip(("boxes", "classes", "scores", "count"), found, strict=True)), "encodings": encodings}

    return model


def test_the_stub_of_the_object_detection_api_becomes_the_operator_of_the_runtime() -> None:
    lite = jfuse.convert(detector(), forms=jfuse.Forms(strict=True))
    code, options = custom_operator(lite)
    assert (code, flexbuffers.Loads(options)["num_classes"]) == ("TFLite_Detection_PostProcess", 2)
    assert flexbuffers.GetRoot(options).AsMap["use_regular_nms"].IsInt
    found = lite(np.ones((1, 8), np.float32))
    assert [found[n].shape for n in ("boxes", "classes", "scores", "count")] == [(1, 4, 4), (1, 4), (1, 4), (1,)]
    assert any("boxes, classes, count, scores" in n and "not compared with the source" in n for n in lite.report.notes)
    assert {d.output for d in lite.report.differences if "tensorflow" in d.pair} == {"encodings"}


def test_what_follows_the_operator_runs_where_its_stub_states_its_types() -> None:
    """What it leaves out in its results is stale memory, other in each file: the operators behind it are compared."""

    def then(found: Any) -> Any:
        boxes, classes, scores, count = found
        return tf.gather(boxes[0], tf.argmax(scores[0])) * 100.0, classes, scores, tf.cast(count, tf.int32)

    lite = jfuse.convert(detector(stub=_SHAPES, then=then))
    assert (lite.report.operators["gather"], lite.report.operators["arg_max"]) == (1, 1)
    assert any("boxes, classes, count, scores" in n and "not compared with the source" in n for n in lite.report.notes)


@pytest.mark.parametrize("reader", [tf.abs, lambda x: tf.while_loop(lambda x: x < 1.0, lambda x: x + 1.0, [x])])
def test_a_stub_of_other_types_is_refused_where_something_reads_it(reader: Any) -> None:
    with pytest.raises(LowerError, match=r"(?s)reads result 3 .*(Abs|While).* f32\[1\].*tf\.zeros\(\[1, 4, 4\]\)"):
        jfuse.convert(detector(then=lambda found: (*found[:3], reader(found[3]))), verify=False)


def test_a_call_with_constants_alone_is_computed_at_once_and_told() -> None:
    def model(body: Any) -> Any:
        inner = tf.function(body, experimental_implements="acme.twice", autograph=False)
        return tf.function(lambda x: x + inner(tf.ones([3])), input_signature=[tf.TensorSpec([2, 3])], autograph=False)

    lite = jfuse.convert(model(lambda a: 2.0 * a))
    assert lite.report.operators == {"add": 1}
    assert any("'acme.twice' is called with constants alone" in note for note in lite.report.notes)
    asked = jfuse.convert(model(lambda a: 2.0 * a), pipeline=jfuse.Pipeline(custom_ops={"acme.twice": None}))
    assert asked.report.operators == {"custom.acme.twice": 1, "add": 1}
    with pytest.raises(LowerError, match=r"'acme\.twice' is a stub"):
        jfuse.convert(model(lambda a: tf.zeros([3])))


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
