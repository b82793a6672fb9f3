"""Options of custom operators, byte for byte as TensorFlow's converter writes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

import jfuse
from jfuse.ir.types import DType
from jfuse.opaque_ops.custom_options import flex_node, flex_options, map_options

spec = tf.TensorSpec


def custom(data: bytes) -> list[tuple[str, int, int, bytes]]:
    """The custom operators of a file: code, version, number of operands, options."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    found = [(model.operatorCodes[o.opcodeIndex], o) for graph in model.subgraphs for o in graph.operators]
    return [
        (code.customCode.decode(), code.version, len(operator.inputs), bytes(operator.customOptions))
        for code, operator in found
        if code.builtinCode == schema.BuiltinOperator.CUSTOM
    ]


def official(function: Any, *, flex: bool = False) -> bytes:
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.allow_custom_ops = not flex
    builtins = [tf.lite.OpsSet.TFLITE_BUILTINS]
    converter.target_spec.supported_ops = [*builtins, tf.lite.OpsSet.SELECT_TF_OPS] if flex else builtins
    return bytes(converter.convert())


def floats_and_flags(x: Any) -> Any:
    pool = tf.raw_ops.FractionalMaxPool(value=x, pooling_ratio=[1.0, 1.44, 1.73, 1.0], seed=1, seed2=70000)
    return pool[0]


def texts_and_integers(x: Any) -> Any:
    return tf.raw_ops.StringNGrams(
        data=x,
        data_splits=tf.constant([0, 2], tf.int64),
        separator="|",
        ngram_widths=[300, 70000],
        left_pad="\0\xff",
        right_pad="",
        pad_width=-70000,
        preserve_short_sequences=False,
    )[0]


def types(x: Any) -> Any:
    defaults = [tf.constant([1.0]), tf.constant(["a"])]
    return tf.raw_ops.DecodeCSV(records=x, record_defaults=defaults, field_delim=",", select_cols=[0, 2])


def sizes(x: Any) -> Any:
    window = [1, 2, 2, 2, 1]
    return tf.raw_ops.ExtractVolumePatches(input=x, ksizes=window, strides=window, padding="VALID")


CUSTOM = {
    "FractionalMaxPool": (floats_and_flags, spec([1, 8, 8, 2], tf.float32)),
    "StringNGrams": (texts_and_integers, spec([2], tf.string)),
    "DecodeCSV": (types, spec([2], tf.string)),
    "ExtractVolumePatches": (sizes, spec([1, 4, 4, 4, 1], tf.float32)),
    "NthElement": (lambda x: tf.raw_ops.NthElement(input=x, n=1, reverse=True), spec([None, 5], tf.float32)),
}


@pytest.mark.parametrize("op", CUSTOM)
def test_attributes_are_those_of_the_official_converter(op: str) -> None:
    body, of = CUSTOM[op]
    function = tf.function(body, input_signature=[of], autograph=False)
    assert custom(
        jfuse.convert(function, pipeline=jfuse.Pipeline(custom_ops={op: None}), verify=False).to_bytes()
    ) == custom(official(function))


FLEX = {
    "StaticRegexReplace": (lambda x: tf.strings.regex_replace(x, "a+", "b"), spec([None], tf.string)),
    "StringSplitV2": (lambda x: tf.raw_ops.StringSplitV2(input=x, sep=",", maxsplit=-1)[1], spec([None], tf.string)),
    "Cholesky": (tf.linalg.cholesky, spec([None, None], tf.float32)),
}


@pytest.mark.parametrize("op", FLEX)
def test_flex_operators_are_those_of_the_official_converter(op: str) -> None:
    body, of = FLEX[op]
    function = tf.function(body, input_signature=[of], autograph=False)
    ours = jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True), verify=False).to_bytes()
    ((code, version, operands, options),) = custom(ours)
    ((*theirs, expected),) = custom(official(function, flex=True))
    assert [code, version, operands] == theirs == [f"Flex{op}", 1, operands]
    if options != expected:  # attributes are a map, which the official converter writes in the order of a hash table
        nodes = [tf.compat.v1.NodeDef.FromString(flex_node(o)) for o in (options, expected)]
        assert nodes[0] == nodes[1]
        assert flex_options(op, flex_node(expected)) == expected


def test_attributes_of_every_kind_read_back() -> None:
    given = {
        "n": np.int64(-3),
        "on": True,
        "x": 0.5,
        "word": "größe",
        "raw": b"\xff\x00",
        "type": DType.i64,
        "none": None,
        "empty": (),
        "counts": [1, 2],
        "scales": (0.5, 2),
        "words": ["a", "b"],
    }
    found = flexbuffers.GetRoot(map_options(given)).AsMap
    assert [key.AsKey for key in found.Keys] == sorted(given.keys() - {"none", "empty"})
    assert found["n"].AsInt == -3
    assert found["on"].AsBool
    assert found["x"].AsFloat == 0.5
    assert found["word"].AsString == "größe"
    assert bytes(found["raw"].AsStringBytes) == b"\xff\x00"
    assert found["type"].AsInt == schema.TensorType.INT64
    assert [found[name].Value for name in ("counts", "scales", "words")] == [[1, 2], [0.5, 2.0], ["a", "b"]]


@pytest.mark.parametrize("value", [object(), [1, "a"], {"a": 1}, [None]])
def test_what_has_no_form_is_refused_by_name(value: object) -> None:
    with pytest.raises(jfuse.JfuseError, match="the attribute 'odd' of a custom operator cannot be written"):
        map_options({"odd": value})


def test_options_that_hold_no_node_are_told() -> None:
    with pytest.raises(jfuse.JfuseError, match="the options of a Flex operator hold no node"):
        flex_node(b"\x01")
