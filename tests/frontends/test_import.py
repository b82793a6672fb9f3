"""Every model of `tests/models` through the importer: types, names and values are TensorFlow's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed, LowerError
from jfuse.ir.graph import Const
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rules import lowers
from tests.frontends.against_tensorflow import check_model, spec
from tests.models import other
from tests.models.decoys import decoys
from tests.models.keras_libraries import LIBRARIES
from tests.models.recurrences.lstm_keras import KerasLstm
from tests.models.recurrences.lstm_written import WRITTEN
from tests.slow import slow_but

KERAS_LSTMS = (
    KerasLstm(),
    KerasLstm(batch=1, return_sequences=True),
    KerasLstm(batch=4, return_state=True),
    KerasLstm(go_backwards=True, return_sequences=True),
    KerasLstm(layers=2),
    KerasLstm(initial_state="dense"),
    KerasLstm(initial_state="encoder", return_state=True),
    KerasLstm(steps=None, return_sequences=True),
)
RECURRENT = ("gru", "gru_reset_before", "simple_rnn", "bidirectional", "masked", "dropout")

MODELS: dict[str, Callable[[], Any]] = {
    **{str(k): k.build for base in KERAS_LSTMS for k in (base, replace(base, library="tf_keras"))},
    **{name: written.build for name, written in WRITTEN.items()},
    **{name: partial(decoys.build_decoy, name) for name in decoys.DECOYS},
    **{f"{library}-{kind}": partial(other.recurrent, kind, library) for library in LIBRARIES for kind in RECURRENT},
    **other.MODELS,
}


# The others, decoys and most of tf_keras, are converted and compared with TensorFlow by tests/end_to_end as well.
QUICK = {*map(str, KERAS_LSTMS), *(f"keras-{kind}" for kind in RECURRENT), *other.MODELS}
QUICK |= {str(replace(KERAS_LSTMS[0], library="tf_keras")), *(name for name in WRITTEN if "dynamic" not in name)}


@pytest.mark.parametrize("name", slow_but(QUICK.__contains__, MODELS))
def test_import(name: str) -> None:
    check_model(jfuse.load(MODELS[name]()))


def test_symbols_of_two_inputs_are_one_after_they_meet() -> None:
    model = jfuse.load(other.two_towers())
    left, right = model.signature().graph.inputs
    assert left.type.shape[0] == right.type.shape[0]
    assert len(model.report.assumptions) == 1


def test_composites_keep_names_arguments_and_bodies() -> None:
    graph = jfuse.load(other.nested_composites()).signature().graph
    blocks = [e for e in graph.eqns if e.op.name == "composite"]
    assert [(e.params["name"], e.params["arguments"]) for e in blocks] == [
        ("acme.block", ("values", "kernel", "bias"))
    ] * 2
    first, second = blocks
    assert [str(d) for d in first.inputs[0].type.shape] == ["B", "4"]  # type: ignore[union-attr]
    assert second.inputs[0].type.shape == (1, 4)  # type: ignore[union-attr]
    assert second.outputs[1].type.shape == (1, 4)  # the body is walked at the types of its call
    inner = [e for e in first.bodies[0].eqns if e.op.name == "composite"]
    assert [(e.params["name"], e.params["arguments"]) for e in inner] == [("acme.scaled_relu", ("values", "factor"))]


def test_composites_survive_in_loops() -> None:
    graph = jfuse.load(other.composite_in_loop()).signature().graph
    assert [e.params["name"] for e in all_eqns(graph) if e.op.name == "composite"] == ["acme.scaled_relu"]


def test_composites_of_tf_keras_have_no_uuid() -> None:
    graph = jfuse.load(KerasLstm(library="tf_keras", go_backwards=True).build()).signature().graph
    (composite,) = [e for e in graph.eqns if e.op.name == "composite"]
    assert composite.params["name"] == "keras.lstm"
    assert dict(composite.params["attributes"]) == {"go_backwards": True, "time_major": False}


def test_attributes_of_an_annotation() -> None:
    annotation = 'name: "acme.leaky" attr { key: "alpha" value { f: 0.5 } } attr { key: "mode" value { s: "fast" } }'

    @tf.function(experimental_implements=annotation, autograph=False)
    def leaky(x: Any) -> Any:
        return tf.maximum(x, 0.5 * x)

    model = jfuse.load(tf.function(lambda x: leaky(x), input_signature=[spec(3)], autograph=False))
    (composite,) = model.signature().graph.eqns
    assert composite.params["name"] == "acme.leaky"
    assert composite.params["attributes"] == (("alpha", 0.5), ("mode", "fast"))


def test_unknown_ops_stay_opaque_and_are_reported_together() -> None:
    model = jfuse.load(other.without_rule())
    assert [e.op.name for e in model.signature().graph.eqns].count("tf.Dawsn") == 2
    with pytest.raises(LowerError, match="2 ops have no TFLite spelling") as caught:
        jfuse.lower(model)
    assert "tf.Dawsn (2x, first at dawsn/Dawsn" in str(caught.value)
    assert "tf.MatrixSquareRoot (1x" in str(caught.value)


def test_an_op_without_a_shape_is_named_rather_than_what_follows() -> None:
    @lowers("Neg", default=False)
    def in_threes(x: Array) -> Array:
        return ops.add(ops.reshape(x, (-1, 2)), np.zeros((3, 3), np.int32))

    def call(x: Any) -> Any:
        return -tf.raw_ops.DenseToDenseSetOperation(set1=x, set2=x, set_operation="a-b").result_values

    function = tf.function(call, input_signature=[tf.TensorSpec([2, 3], tf.int32)], autograph=False)
    message = r"DenseToDenseSetOperation has no TFLite spelling, and what follows .* at Dense(.|\n)*@jfuse"
    with pytest.raises(LowerError, match=message):
        jfuse.load(function, rules=[in_threes])


def test_a_rule_that_contradicts_tensorflow_is_caught() -> None:
    @lowers("Neg", default=False)
    def wrong(x: Array) -> Array:
        return ops.reshape(x, (-1,))

    negate = tf.function(lambda x: -x, input_signature=[spec(2, 3)], autograph=False)
    with pytest.raises(ImportFailed, match="Neg was given a type that TensorFlow contradicts"):
        jfuse.load(negate, rules=[wrong])


def test_an_attribute_that_the_rule_does_not_read_is_refused() -> None:
    @lowers("MatMul", default=False)
    def product(a: Array, b: Array) -> Array:
        return ops.fully_connected(a, b.T)

    kernel = tf.constant(np.ones((3, 4), np.float32))
    transposed = tf.function(
        lambda x: tf.matmul(x, kernel, transpose_b=True), input_signature=[spec(2, 4)], autograph=False
    )
    with pytest.raises(LowerError, match="MatMul with transpose_b=True has no TFLite spelling"):
        jfuse.lower(jfuse.load(transposed, rules=[product]))


def test_dead_branches_and_assertions_are_left_out() -> None:
    def call(x: Any) -> Any:
        tf.debugging.assert_greater(x, -1e9)
        y = tf.cond(tf.constant(True), lambda: x * 2.0, lambda: tf.math.special.dawsn(x))
        _ = tf.linalg.svd(tf.reshape(x, (2, 2)), compute_uv=False)
        return y

    model = jfuse.load(tf.function(call, input_signature=[spec(4)], autograph=False))
    assert [e.op.name for e in model.signature().graph.eqns] == ["mul"]
    assert any("is not checked by the file" in note for note in model.report.notes)


def test_captured_tensors_are_constants() -> None:
    captured = tf.constant([1.0, 2.0, 3.0])
    model = jfuse.load(tf.function(lambda x: x + captured, input_signature=[spec(3)], autograph=False))
    (add,) = model.signature().graph.eqns
    assert any(isinstance(a, Const) and a.array.tolist() == [1.0, 2.0, 3.0] for a in add.inputs)


@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.uint8, tf.int64, tf.int32])
def test_dtypes_of_constants_and_variables(dtype: Any) -> None:
    captured = tf.cast([1, 2, 3], dtype)
    variable = tf.Variable(tf.cast([3, 2, 1], dtype))

    @tf.function(input_signature=[spec(3, dtype=dtype)], autograph=False)
    def call(x: Any) -> Any:
        return x, captured, variable.read_value(), tf.constant(7, dtype)

    results = jfuse.load(call).signature().graph.outputs
    assert {str(r.type.dtype) for r in results} == {str(results[0].type.dtype)}
    constants = [r.array.astype(np.int64).tolist() for r in results[1:] if isinstance(r, Const)]
    assert constants == [[1, 2, 3], [3, 2, 1], 7]


def test_unknown_rank() -> None:
    call = tf.function(lambda x: x, input_signature=[tf.TensorSpec(None, tf.float32, name="x")], autograph=False)
    assert "of unknown rank, has 1" in jfuse.load(call).report.assumptions[0]
