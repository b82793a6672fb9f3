"""Cases of the official converter's tests in our own words: tables, infinities, Keras models that were called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from jfuse import lite


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
