"""Cases of the official converter's tests in our own words: tables, infinities, Keras models that were called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from jfuse import lite
from tests.lite.test_tensor_names import keras_of


def run(data: bytes, x: Any) -> np.ndarray:
    interpreter = Interpreter(model_content=data)
    place = interpreter.get_input_details()[0]["index"]
    interpreter.resize_tensor_input(place, np.shape(x))
    interpreter.allocate_tensors()
    interpreter.set_tensor(place, x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


@pytest.mark.parametrize("key", [tf.string, tf.int64])
def test_a_table_that_an_initializer_of_the_graph_fills(key: Any, tmp_path: Path) -> None:
    keys = ["a", "b", "c"] if key is tf.string else [5, 3, 4]
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        filling = tf.lookup.KeyValueTensorInitializer(keys, [1, 2, 3], key, tf.int64)
        table = tf.lookup.StaticHashTable(filling, tf.constant(-1, tf.int64))
        x = tf.compat.v1.placeholder(key, [None], "input")
        tf.compat.v1.saved_model.simple_save(
            session,
            str(tmp_path / "m"),
            {"x": x},
            {"y": table.lookup(x)},
            legacy_init_op=tf.compat.v1.tables_initializer(),
        )
    data = lite.TFLiteConverter.from_saved_model(str(tmp_path / "m")).convert()
    x = np.array([*keys[::-1], b"z" if key is tf.string else 9], object if key is tf.string else np.int64)
    np.testing.assert_array_equal(run(data, x), [3, 2, 1, -1])


@pytest.mark.parametrize("is_canonical", [True, False])
@pytest.mark.parametrize("sign", [1, -1])
def test_infinities_become_the_largest_floats_unless_they_are_to_stay(sign: int, is_canonical: bool) -> None:
    bound = tf.constant([sign * np.inf, 1.0], tf.float32)
    function = tf.function(lambda x: tf.where(x > 0, bound, x), input_signature=[tf.TensorSpec([2], name="x")])
    found = []
    for library in (lite, tf.lite):
        converter = library.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], tf.Module())
        converter.canonicalizing_inf_as_min_max_float = is_canonical
        found.append(run(converter.convert(), np.ones(2, np.float32)))
    np.testing.assert_array_equal(found[0], found[1])
    assert found[0][0] == (sign * np.finfo(np.float32).max if is_canonical else sign * np.inf)


def test_infinities_within_a_body() -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.minimum(y * 2.0, np.inf)), [0, x])[1]

    concrete = tf.function(function, input_signature=[tf.TensorSpec([2], name="x")]).get_concrete_function()
    data = lite.TFLiteConverter.from_concrete_functions([concrete], tf.Module()).convert()
    np.testing.assert_array_equal(run(data, np.array([1, 2], np.float32)), [8, 16])


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("call", ["called", "fitted"])
def test_a_subclassed_model_is_traced_as_it_was_called(version: int, call: str) -> None:
    keras = pytest.importorskip("tf_keras" if version == 2 else "keras")

    class Model(keras.Model):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.dense = keras.layers.Dense(2)

        def call(self, x: Any) -> Any:
            return self.dense(x)

    model, x = Model(), np.ones((4, 3), np.float32)
    if call == "called":
        model(x)
    else:
        model.compile(optimizer="sgd", loss="mse")
        model.fit(x, np.zeros((4, 2), np.float32), epochs=1, verbose=0)
    np.testing.assert_allclose(run(lite.TFLiteConverter.from_keras_model(model).convert(), x), model(x), rtol=1e-5)


def test_a_model_that_was_never_called_is_refused_in_the_words_of_the_class() -> None:
    class Model(tf.keras.Model):
        def call(self, x: Any) -> Any:
            return x

    with pytest.raises(lite.ConverterError, match="a concrete function of it to from_concrete_functions"):
        lite.TFLiteConverter.from_keras_model(Model()).convert()


def test_modes_that_do_not_go_together_are_the_official_errors() -> None:
    function = tf.function(tf.nn.relu, input_signature=[tf.TensorSpec([4])]).get_concrete_function()
    converter = lite.TFLiteConverter.from_concrete_functions([function])
    converter._experimental_variable_quantization = True
    with pytest.raises(ValueError, match="is only supported for full integer quantization"):
        converter.convert()
    converter = lite.TFLiteConverter.from_concrete_functions([function])
    converter._experimental_qdq_conversion_mode = "UNKNOWN"
    with pytest.raises(lite.ConverterError, match="Unknown QDQ conversion mode"):
        converter.convert()


def test_the_value_of_a_variable_is_named_after_its_reader() -> None:
    owner = tf.Module()
    owner.total = tf.Variable(tf.zeros([2]))

    @tf.function(input_signature=[tf.TensorSpec([2], name="x")])
    def add(x: Any) -> Any:
        owner.total.assign(tf.add(owner.total, x, name="sum"))
        return owner.total * 2.0

    data = lite.TFLiteConverter.from_concrete_functions([add.get_concrete_function()], owner).convert()
    assert "sum/ReadVariableOp" in [d["name"] for d in Interpreter(model_content=data).get_tensor_details()]


@tf.function(input_signature=[tf.TensorSpec([1, 5, 5, 3], name="x")])
def convolved(x: Any) -> Any:
    kernel = tf.constant(np.random.default_rng(0).normal(size=(3, 3, 3, 4)), tf.float32)
    return tf.nn.relu(tf.nn.conv2d(x, kernel, 1, "SAME", name="conv") + tf.constant([1.0, 2, 3, 4]))


def images() -> Iterator[list[np.ndarray]]:
    for seed in range(3):
        yield [np.random.default_rng(seed).uniform(-1, 1, (1, 5, 5, 3)).astype(np.float32)]


@pytest.mark.parametrize(("denied", "quantized"), [(None, 4), (["CONV_2D"], 0)])
def test_a_calibrated_file_is_quantized_by_the_official_quantizer(denied: Any, quantized: int) -> None:
    from tensorflow.lite.python.convert import mlir_quantize

    converter = lite.TFLiteConverter.from_concrete_functions([convolved.get_concrete_function()])
    converter.optimizations = [lite.Optimize.DEFAULT]
    converter.representative_dataset = images
    converter._experimental_calibrate_only = True
    calibrated = converter.convert()
    (x,) = next(images())
    np.testing.assert_allclose(run(calibrated, x), convolved(x), rtol=1e-5, atol=1e-6)
    interpreter = Interpreter(model_content=mlir_quantize(calibrated, denylisted_ops=denied))
    scaled = [d for d in interpreter.get_tensor_details() if len(d["quantization_parameters"]["scales"])]
    assert len(scaled) == quantized  # the input, weights, the bias, the result


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("ends", ["int8", "uint8"])
def test_integer_inputs_of_float_operators(ends: str, version: int) -> None:
    """As the official quantizer has them: all ends are integers, CEIL computes between DEQUANTIZE and QUANTIZE."""
    keras = keras_of(version)
    x, y = (keras.Input((3,), batch_size=1, name=name) for name in "xy")
    ceil = keras.layers.Lambda(tf.math.ceil)
    model = keras.Model([x, y], [ceil(x), keras.layers.Activation("tanh")(y)])
    found = []
    for library in (lite, tf.lite):
        converter = library.TFLiteConverter.from_keras_model(model)
        converter.optimizations = [library.Optimize.DEFAULT]
        converter.representative_dataset = lambda: (
            [row, row] for row in np.linspace(-1, 1.7, 9, dtype="f").reshape(3, 1, 3)
        )
        converter.inference_input_type = converter.inference_output_type = tf.as_dtype(ends)
        interpreter = Interpreter(model_content=converter.convert())
        details = (*interpreter.get_input_details(), *interpreter.get_output_details())
        found.append(sorted((d["name"], d["dtype"].__name__, d["quantization"]) for d in details))
    for ours, theirs in zip(*found, strict=True):
        assert ours[:2] == theirs[:2]
        assert ours[1] == ends
        if ours[0].startswith("serving_default"):  # the ranges of results go beyond what three samples show
            np.testing.assert_allclose(ours[2], theirs[2], rtol=1e-5)


def test_a_sample_with_another_axis_of_one_row_fits() -> None:
    double = tf.function(lambda x: tf.nn.tanh(x) * 2.0, input_signature=[tf.TensorSpec([1], name="x")])
    converter = lite.TFLiteConverter.from_concrete_functions([double.get_concrete_function()], tf.Module())
    converter.optimizations = [lite.Optimize.DEFAULT]
    converter.target_spec.supported_ops = [lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.representative_dataset = lambda: ({"x": np.full((1, 1), v, np.float32)} for v in (-1, 1))
    assert run(converter.convert(), np.ones(1, np.float32)) == pytest.approx(2 * np.tanh(1), abs=0.02)
