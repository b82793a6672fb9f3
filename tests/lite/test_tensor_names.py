"""The tensors of `jfuse.lite`'s files: named after TensorFlow's nodes, in the official order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse import lite

INT16X8 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"


def keras_of(version: int) -> Any:
    return pytest.importorskip("tf_keras") if version == 2 else pytest.importorskip("keras")


def dense(keras: Any) -> Any:
    """Two layers, one with an activation behind its bias."""
    keras.backend.clear_session()
    layers = [keras.layers.Dense(48, "relu", bias_initializer="ones"), keras.layers.Dense(3, bias_initializer="ones")]
    return keras.Sequential([keras.layers.InputLayer((32,)), *layers])


def convolution(keras: Any) -> Any:
    keras.backend.clear_session()
    return keras.Sequential([keras.layers.InputLayer((6, 6, 3)), keras.layers.Conv2D(38, 3, bias_initializer="ones")])


def converted(library: Any, model: Any, recipe: str = "float", **attributes: Any) -> bytes:
    converter = library.TFLiteConverter.from_keras_model(model)
    if recipe != "float":
        converter.optimizations = [library.Optimize.DEFAULT]
    if recipe in ("int8", "int16"):
        shape = (1, *model.inputs[0].shape[1:])
        rows = np.random.default_rng(0).normal(size=(4, *shape)).astype(np.float32)
        converter.representative_dataset = lambda: ([row] for row in rows)
    if recipe == "int16":
        converter.target_spec.supported_ops = [getattr(library.OpsSet, INT16X8)]
    if recipe == "float16":
        converter.target_spec.supported_types = [tf.float16]
    for name, value in attributes.items():
        setattr(converter, name, value)
    data: bytes = converter.convert()
    return data


def tensors(data: bytes) -> list[dict[str, Any]]:
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES  # delegates add tensors of their own
    details: list[dict[str, Any]] = Interpreter(
        model_content=data, experimental_op_resolver_type=plain
    ).get_tensor_details()
    return details


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("recipe", ["float", "dynamic", "int8", pytest.param("int16", marks=pytest.mark.slow)])
def test_dense_layers_have_the_official_names_and_types(version: int, recipe: str) -> None:
    """Every official tensor is there; the official converter leaves out biases of zeros alone, these have none."""
    keras = keras_of(version)
    ours, official = (
        {
            d["name"]: (np.dtype(d["dtype"]).name, d["shape"].tolist())
            for d in tensors(converted(m, dense(keras), recipe))
        }
        for m in (lite, tf.lite)
    )
    inputs = {name for name in official if name.startswith("serving_default")}
    weights = {name for name in official if name.endswith("MatMul")}
    biases = {
        name for name in official if name.endswith(("Relu;" + name.split(";")[-1], "BiasAdd")) and ":" not in name
    }
    assert len(weights) == 2
    assert inputs | weights <= ours.keys()
    assert biases <= ours.keys()
    assert all(ours[name] == official[name] for name in inputs | weights | biases)


@pytest.mark.parametrize("recipe", ["float", "int8"])
def test_constants_come_behind_the_inputs_the_bias_before_its_weights(recipe: str) -> None:
    names = [d["name"] for d in tensors(converted(lite, dense(keras_of(2)), recipe))]
    assert names[:5] == [
        "serving_default_input_1:0",
        "sequential/dense_1/BiasAdd",
        "sequential/dense_1/MatMul",
        "sequential/dense/Relu;sequential/dense/BiasAdd",
        "sequential/dense/MatMul",
    ]
    assert names[-1] == "StatefulPartitionedCall:0"
    assert ("tfl.quantize" in names) == (recipe == "int8")


def test_float_ends_come_last_around_int16() -> None:
    found = tensors(converted(lite, convolution(keras_of(2)), "int16"))
    assert [(d["name"].split("/")[-1], np.dtype(d["dtype"]).name) for d in found] == [
        ("serving_default_input_1:0_int16", "int16"),
        ("BiasAdd", "int64"),
        ("Conv2D", "int8"),
        ("StatefulPartitionedCall:0_int16", "int16"),
        ("serving_default_input_1:0", "float32"),
        ("StatefulPartitionedCall:0", "float32"),
    ]


@pytest.mark.parametrize(("recipe", "scales"), [("dynamic", 38), ("int8", 38), ("float16", 0)])
def test_weights_are_found_by_their_node(recipe: str, scales: int) -> None:
    """As the official tests find them: the first tensor that begins with the node's name."""
    model = convolution(keras_of(2))

    def first(data: bytes) -> dict[str, Any]:
        return next(d for d in tensors(data) if d["name"].startswith("sequential/conv2d/Conv2D"))

    weights = first(converted(lite, model, recipe))
    assert weights["dtype"] is (np.float16 if recipe == "float16" else np.int8)
    assert len(weights["quantization_parameters"]["scales"]) == scales
    if scales:
        coarse = first(converted(lite, model, recipe, _experimental_disable_per_channel=True))
        assert len(coarse["quantization_parameters"]["scales"]) == 1


@pytest.mark.parametrize(("bits", "dtype"), [(None, np.int64), (tf.int64, np.int64), (tf.int32, np.int32)])
def test_the_bias_beside_int16_has_the_type_that_is_asked_for(bits: Any, dtype: Any) -> None:
    model = dense(keras_of(2))
    data = converted(lite, model, "int16", _experimental_full_integer_quantization_bias_type=bits)
    (bias,) = (d for d in tensors(data) if d["name"] == "sequential/dense_1/BiasAdd")
    assert bias["dtype"] is dtype
    x = np.random.default_rng(0).normal(size=(4, 1, 32)).astype(np.float32)[0]  # a sample of the calibration
    runner = Interpreter(model_content=data).get_signature_runner()
    np.testing.assert_allclose(runner(input_1=x)["dense_1"], model(x), atol=0.03)  # weights of 8 bits


@pytest.mark.parametrize("version", [2, 3])
def test_signature_outputs_are_those_of_keras(version: int) -> None:
    keras = keras_of(version)
    x = keras.Input((3,), name="x")
    outputs = [keras.layers.Dense(n, name=name)(x) for n, name in ((2, "scores"), (4, "boxes"))]
    signatures = [
        Interpreter(model_content=converted(m, keras.Model(x, outputs))).get_signature_list() for m in (lite, tf.lite)
    ]
    assert signatures[0] == signatures[1]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "conv", "depthwise"])
def test_what_training_rounded_has_the_names_of_its_rounding(kind: str, version: int) -> None:
    """The weights and the input; their integers are bounded by training, and computed without calibration."""
    keras = keras_of(version)
    shape = (8,) if kind == "dense" else (6, 6, 3)

    class Rounded(keras.layers.Layer):  # type: ignore[name-defined]
        def build(self, shape: Any) -> None:
            sizes = {"dense": (8, 4), "conv": (3, 3, 3, 4), "depthwise": (3, 3, 3, 1)}
            self.weights_ = self.add_weight(name="kernel", shape=sizes[kind], initializer="glorot_uniform")

        def call(self, x: Any) -> Any:
            weights = tf.quantization.fake_quant_with_min_max_vars(self.weights_, -2.0, 2.0, narrow_range=True)
            x = tf.quantization.fake_quant_with_min_max_vars(x, -3.0, 3.0)
            product = {
                "dense": lambda: tf.matmul(x, weights),
                "conv": lambda: tf.nn.conv2d(x, weights, 1, "SAME"),
                "depthwise": lambda: tf.nn.depthwise_conv2d(x, weights, [1, 1, 1, 1], "SAME"),
            }[kind]()
            return tf.quantization.fake_quant_with_min_max_vars(tf.nn.relu(product), 0.0, 6.0)

    model = keras.Sequential([keras.Input(shape, batch_size=1), Rounded(name="rounded")])
    named = [
        {d["name"] for d in tensors(converted(library, model, "dynamic")) if d["dtype"] is np.int8}
        for library in (lite, tf.lite)
    ]
    # The official name goes on with the constants of a range, where they are not shared.
    nodes = [
        {tuple(n for n in name.split(";") if n and not n.endswith(("/min", "/max"))) for name in of} for of in named
    ]
    rounding = [{name for name in names if "FakeQuant" in "".join(name)} for names in nodes]
    assert rounding[0] == rounding[1]
    assert len(rounding[0]) == 2
