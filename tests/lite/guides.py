"""Scripts of the official guides. `lite` is `tf.lite` there; nothing else differs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import tensorflow as tf


def keras_guide(lite: Any, folder: Path) -> bytes:
    """Convert a Keras model: compile, fit, convert, write."""
    model = tf.keras.models.Sequential(
        [
            tf.keras.Input((1,)),
            tf.keras.layers.Dense(units=1),
            tf.keras.layers.Dense(units=16, activation="relu"),
            tf.keras.layers.Dense(units=1),
        ]
    )
    model.compile(optimizer="sgd", loss="mean_squared_error")
    model.fit(x=np.array([[-1.0], [0.0], [1.0]]), y=np.array([[-3.0], [-1.0], [1.0]]), epochs=1, verbose=0)
    converter = lite.TFLiteConverter.from_keras_model(model)
    tflite_model = converter.convert()
    with open(folder / "model.tflite", "wb") as f:
        f.write(tflite_model)
    return (folder / "model.tflite").read_bytes()


class Squared(tf.Module):
    """The module of "Convert concrete functions"."""

    @tf.function(input_signature=[tf.TensorSpec(shape=[None], dtype=tf.float32)])
    def __call__(self, x: Any) -> Any:
        """The square."""
        return tf.square(x)


def saved_model_guide(lite: Any, folder: Path) -> bytes:
    """Convert a SavedModel."""
    model = Squared()
    signature = model.__call__.get_concrete_function()
    tf.saved_model.save(model, str(folder), signatures=signature)
    converter = lite.TFLiteConverter.from_saved_model(str(folder))
    return bytes(converter.convert())


def concrete_function_guide(lite: Any, folder: Path) -> bytes:
    """Convert concrete functions."""
    model = Squared()
    concrete_func = model.__call__.get_concrete_function()
    converter = lite.TFLiteConverter.from_concrete_functions([concrete_func], model)
    return bytes(converter.convert())


class Model(tf.Module):
    """The module of "Signatures in TensorFlow Lite"."""

    @tf.function(input_signature=[tf.TensorSpec(shape=[None], dtype=tf.float32)])
    def encode(self, x: Any) -> Any:
        """As text."""
        return {"encoded_result": tf.strings.as_string(x)}

    @tf.function(input_signature=[tf.TensorSpec(shape=[None], dtype=tf.float32)])
    def double(self, x: Any) -> Any:
        """Twice."""
        return {"result": x + x}

    @tf.function(input_signature=[tf.TensorSpec(shape=[None], dtype=tf.float32)])
    def halve(self, x: Any) -> Any:
        """Half."""
        return {"result": x / 2}


def signatures_guide(lite: Any, folder: Path) -> bytes:
    """Signatures: a SavedModel with several; the result is used by key."""
    model = Model()
    tf.saved_model.save(model, str(folder), signatures={"double": model.double, "halve": model.halve})
    converter = lite.TFLiteConverter.from_saved_model(str(folder), signature_keys=["double", "halve"])
    converter.target_spec.supported_ops = [lite.OpsSet.TFLITE_BUILTINS]
    return bytes(converter.convert())


def rnn_guide(lite: Any, folder: Path) -> bytes:
    """The RNN codelab: a fixed batch by a concrete function, then `from_saved_model`."""
    model = tf.keras.Sequential(
        [tf.keras.Input((5, 4), name="input"), tf.keras.layers.LSTM(6), tf.keras.layers.Dense(3)]
    )
    run_model = tf.function(lambda x: model(x))
    concrete_func = run_model.get_concrete_function(tf.TensorSpec([1, 5, 4], model.inputs[0].dtype))
    tf.saved_model.save(model, str(folder), signatures=concrete_func)
    converter = lite.TFLiteConverter.from_saved_model(str(folder))
    converter._experimental_lower_tensor_list_ops = False
    return bytes(converter.convert())


def jax_guide(lite: Any, folder: Path) -> bytes:
    """Convert a JAX model: a function with its weights inside, and named placeholders."""
    rng = np.random.default_rng(0)
    kernel, bias = rng.normal(size=(6, 4)).astype(np.float32), np.ones(4, np.float32)

    def predict(x: Any) -> Any:
        return jax.nn.softmax(jnp.dot(x, kernel) + bias)

    x_input = jnp.zeros((2, 6))
    converter = lite.TFLiteConverter.experimental_from_jax([predict], [[("x", x_input)]])
    return bytes(converter.convert())


def quantization_guide(lite: Any, kind: str) -> bytes:
    """Post-training quantization: dynamic range, float16, integers with a float fallback, integers only, 16x8."""
    tf.keras.utils.set_random_seed(0)
    model = tf.keras.Sequential(
        [
            tf.keras.layers.InputLayer(shape=(14, 14)),
            tf.keras.layers.Reshape(target_shape=(14, 14, 1)),
            tf.keras.layers.Conv2D(filters=12, kernel_size=(3, 3), activation="relu"),
            tf.keras.layers.MaxPooling2D(pool_size=(2, 2)),
            tf.keras.layers.Flatten(),
            tf.keras.layers.Dense(10),
        ]
    )
    train_images = np.random.default_rng(0).random((100, 14, 14)).astype(np.float32)

    def representative_data_gen() -> Any:
        for input_value in tf.data.Dataset.from_tensor_slices(train_images).batch(1).take(100):
            yield [input_value]

    converter = lite.TFLiteConverter.from_keras_model(model)
    converter.optimizations = [lite.Optimize.DEFAULT]
    if kind == "none":
        converter.optimizations = []
    if kind == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if kind in ("fallback", "integers", "int16x8"):
        converter.representative_dataset = representative_data_gen
    if kind == "integers":
        converter.target_spec.supported_ops = [lite.OpsSet.TFLITE_BUILTINS_INT8]
        converter.inference_input_type = tf.uint8
        converter.inference_output_type = tf.uint8
    if kind == "int16x8":
        converter.target_spec.supported_ops = [lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8]
    return bytes(converter.convert())


def evaluated(interpreter: Any, images: np.ndarray) -> np.ndarray:
    """The evaluation loop of the same guides: the answers, in real numbers."""
    interpreter.allocate_tensors()
    input_details = interpreter.get_input_details()[0]
    output_details = interpreter.get_output_details()[0]
    found = []
    for test_image in images:
        if input_details["dtype"] == np.uint8:
            input_scale, input_zero_point = input_details["quantization"]
            test_image = test_image / input_scale + input_zero_point
        test_image = np.expand_dims(test_image, axis=0).astype(input_details["dtype"])
        interpreter.set_tensor(input_details["index"], test_image)
        interpreter.invoke()
        output = interpreter.get_tensor(output_details["index"])[0]
        if output_details["dtype"] == np.uint8:
            output_scale, output_zero_point = output_details["quantization"]
            output = (output.astype(np.float32) - output_zero_point) * output_scale
        found.append(output)
    return np.stack(found)


class Trained(tf.Module):
    """The module of "On-Device Training": weights that a signature changes."""

    def __init__(self) -> None:
        super().__init__()
        self.w, self.b = tf.Variable(tf.zeros([8, 3])), tf.Variable(tf.zeros([3]))

    @tf.function(input_signature=[tf.TensorSpec([None, 8], tf.float32), tf.TensorSpec([None, 3], tf.float32)])
    def train(self, x: Any, y: Any) -> Any:
        """One step; the loss before it."""
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(y, x @ self.w + self.b))
        for weight, gradient in zip((self.w, self.b), tape.gradient(loss, [self.w, self.b]), strict=True):
            weight.assign_sub(0.1 * gradient)
        return {"loss": loss}


def training_guide(lite: Any, folder: Path) -> bytes:
    """On-device training: variables that go on from call to call."""
    model = Trained()
    tf.saved_model.save(model, str(folder), signatures={"train": model.train})
    converter = lite.TFLiteConverter.from_saved_model(str(folder))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter.experimental_enable_resource_variables = True
    return bytes(converter.convert())
