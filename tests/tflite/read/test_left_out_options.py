"""Operators without an option table: read with the types of their tensors, and what LiteRT takes for the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import jfuse
from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.types import DType
from jfuse.running.interpreter import LiteRt
from tests.tflite.programs import f32, program

CASTS = [
    (tf.float32, tf.int32),
    (tf.int64, tf.int32),
    (tf.float32, tf.bool),
    (tf.int32, tf.int8),
    (tf.bool, tf.int64),
    (tf.int32, tf.float32),
]


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def without_options(data: bytes) -> bytes:
    """The file with no option table at all."""
    model = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
    for graph in model.subgraphs:
        for operator in graph.operators or ():
            operator.builtinOptionsType, operator.builtinOptions = 0, None
    return packed(model)


@pytest.mark.parametrize(("given", "wanted"), CASTS, ids=[f"{a.name} to {b.name}" for a, b in CASTS])
def test_casts_of_the_official_converter(given: Any, wanted: Any) -> None:
    function = tf.function(lambda x: tf.cast(x, wanted), input_signature=[tf.TensorSpec([4], given, name="x")])
    data = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], function).convert()
    x = np.array([0, 1, 2, 3]).astype(given.as_numpy_dtype)
    model = jfuse.load(bytes(data))
    assert [str(e.params["out_data_type"]) for e in model.signature().graph.eqns] == [
        str(DType.of(wanted.as_numpy_dtype))
    ]
    np.testing.assert_array_equal(model(x), function(x).numpy())
    np.testing.assert_array_equal(jfuse.load(model.to_bytes())(x), function(x).numpy())


BUILTINS: dict[str, Callable[[Any], Any]] = {
    "ADD": lambda x: jfuse.ops.add(x, x),
    "SOFTMAX": lambda x: jfuse.ops.softmax(x, beta=0.0),
    "GATHER": lambda x: jfuse.ops.gather(x, np.array([1, 0], np.int32), axis=0),
    "LEAKY_RELU": lambda x: jfuse.ops.leaky_relu(x, alpha=0.0),
    "CUMSUM": lambda x: jfuse.ops.cumsum(x, np.int32(1)),
    "BUCKETIZE": lambda x: jfuse.ops.bucketize(x, boundaries=(0.5,)),
}


@pytest.mark.parametrize("name", BUILTINS)
def test_others_answer_as_in_litert(name: str) -> None:
    data = without_options(jfuse.Model(program(BUILTINS[name], f32(2, 3))).to_bytes())
    x = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
    (wanted,) = LiteRt(data).run("serving_default", {"x0": x}).values()
    np.testing.assert_allclose(jfuse.load(data)(x), wanted, rtol=1e-6)


def test_sums_of_16_bits_take_any_scale() -> None:
    """The schema's default is a scale of a power of two; without options LiteRT takes none."""
    data = without_options(jfuse.Model(program(lambda x: jfuse.ops.add(x, x), f32(2))).to_bytes())
    (eqn,) = jfuse.load(data).signature().graph.eqns
    assert eqn.params["pot_scale_int16"] is False


def test_a_missing_operand_is_told() -> None:
    data = jfuse.Model(program(lambda x: jfuse.ops.topk_v2(x, np.int32(2))[0], f32(2, 3))).to_bytes()
    model = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
    model.subgraphs[0].operators[0].inputs = [int(model.subgraphs[0].operators[0].inputs[0]), -1]
    with pytest.raises(BadFlatbuffer, match=r"an operator lacks an operand(.|\n)*expected  k") as caught:
        jfuse.load(packed(model))
    assert caught.value.__cause__ is None
