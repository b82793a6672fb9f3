"""Custom operators that LiteRT's default interpreter runs, and others, which stop nothing else."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import flatbuffers
import keras
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from keras import layers

import jfuse

RNG = np.random.default_rng(0)
CALLS = [{"x": RNG.standard_normal((1, 8, 8, 3)).astype(np.float32)} for _ in range(3)]


def network(last: Any, between: Any = None) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = given = keras.Input((8, 8, 3), batch_size=1, name="x")
    x = layers.Conv2D(16, 3, 2, "same", activation="relu")(x)
    x = layers.Conv2D(16, 3, padding="same")(x if between is None else between(x))
    return keras.Model(given, last(x))


def custom(model: keras.Model, builtin: str, code: str, options: bytes = b"", operands: Any = None) -> bytes:
    """The official file of a model with one builtin as a custom operator.   operands: the places of those it keeps"""
    data = tf.lite.TFLiteConverter.from_keras_model(model).convert()
    file = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
    number = getattr(schema.BuiltinOperator, builtin)
    (place,) = (i for i, c in enumerate(file.operatorCodes) if number in (c.builtinCode, c.deprecatedBuiltinCode))
    changed = file.operatorCodes[place]
    changed.builtinCode = changed.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
    changed.customCode, changed.version = code, 1
    for operator in file.subgraphs[0].operators:
        if operator.opcodeIndex == place:
            operator.inputs = [int(operator.inputs[i]) for i in operands or range(len(operator.inputs))]
            operator.builtinOptionsType, operator.builtinOptions = 0, None
            operator.customOptions = np.frombuffer(options, np.uint8)
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, Path]:
    """A transposed convolution as published segmentation models spell it; XNNPACK has the only kernel."""
    model = network(layers.Conv2DTranspose(2, 2, 2, "same", bias_initializer="ones"))
    data = custom(model, "TRANSPOSE_CONV", "Convolution2DTransposeBias", struct.pack("<iii", 1, 2, 2), (2, 1, 3))
    path = tmp_path_factory.mktemp("known") / "known.tflite"
    path.write_bytes(data)
    return model, path


@pytest.fixture(scope="module")
def unknown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = network(lambda x: layers.Dense(10)(layers.GlobalAveragePooling2D()(x)), keras.ops.elu)
    path = tmp_path_factory.mktemp("unknown") / "unknown.tflite"
    path.write_bytes(custom(model, "ELU", "OfSomebody"))
    return path


def test_it_runs_and_verifies(known: tuple[keras.Model, Path]) -> None:
    model, path = known
    loaded = jfuse.load(path)
    for call in CALLS:
        np.testing.assert_allclose(loaded(call["x"]), model(call["x"]), rtol=1e-4, atol=1e-5)
    jfuse.verify(path, path)


@pytest.mark.parametrize("recipe", ["dynamic", "int8"])
def test_the_rest_is_quantized_and_measured(known: tuple[keras.Model, Path], recipe: Any) -> None:
    lite = jfuse.quantize(known[1], recipe, CALLS if recipe == "int8" else None)
    (noise,) = lite.report.noise  # without XNNPACK it does not run
    assert noise.snr_db > 30
    assert lite.size_bytes < known[1].stat().st_size


def test_a_gpu_has_some(known: tuple[keras.Model, Path], unknown: Path) -> None:
    for path, refused in ((known[1], False), (unknown, True)):
        (found,) = (o for o in jfuse.check(path, "litert-gpu").operators if o.builtin == "CUSTOM")
        assert (found.where == "refused") is refused


@pytest.mark.parametrize("recipe", ["float16", "int8"])
def test_an_unknown_one_stops_nothing_else(unknown: Path, recipe: Any) -> None:
    lite = jfuse.quantize(unknown, recipe, CALLS if recipe == "int8" else None)
    quantized = [line for line in lite.report.quantized if "float" not in str(line).split(":")[0]]
    assert quantized
    assert not lite.report.noise
    assert "the quantized file was not run: LiteRT has no kernel for OfSomebody" in lite.report.notes
    (eqn,) = (e for e in lite.signature().graph.eqns if e.op.code is not None)
    assert str(eqn.outputs[0].type) == "f32[1,4,4,16]"


def test_it_is_optimized_without_times(unknown: Path) -> None:
    assert jfuse.optimize(unknown).size_bytes <= unknown.stat().st_size
