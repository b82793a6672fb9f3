"""Float models and the quantized files that TensorFlow's converter makes of them, each made once in a run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

CALIBRATED = 64  # samples
_BITS16 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"


def mlp() -> Any:
    """Three dense layers of the same width, and a softmax."""
    from keras import Input, Sequential, layers

    dense = [layers.Dense(48, "relu"), layers.Dense(48, "tanh"), layers.Dense(10, activation="softmax")]
    return Sequential([Input((48,), batch_size=1), *dense])


def cnn() -> Any:
    """Convolutions, a skip, pooling, a classifier: small, as programs compiled hastily convolve slowly."""
    from keras import Input, Model, layers

    inputs = Input((8, 8, 3), batch_size=1)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    y = layers.BatchNormalization()(layers.Conv2D(8, 3, padding="same")(x))
    x = layers.MaxPooling2D()(layers.ReLU()(layers.Add()([x, y])))
    x = layers.Conv2D(16, 3, activation="relu")(x)
    return Model(inputs, layers.Dense(10)(layers.Flatten()(x)))


def spotter() -> Any:
    """Separable convolutions over the bands of sound, as keywords are spotted."""
    from keras import Input, Sequential, initializers, layers

    separable = [
        layer
        for _ in range(2)
        for layer in (layers.SeparableConv2D(24, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(6.0))
    ]
    first = layers.Conv2D(24, (10, 4), strides=2, activation="relu")
    wide = initializers.RandomNormal(stddev=4.0)  # means of drawn pictures differ little
    last = [layers.GlobalAveragePooling2D(), layers.Dense(12, activation="softmax", kernel_initializer=wide)]
    return Sequential([Input((25, 20, 1), batch_size=1), first, *separable, *last])


def lstm() -> Any:
    """An LSTM step by step, and a head."""
    from keras import Input, Sequential, layers

    return Sequential([Input((4, 12), batch_size=1), layers.LSTM(32, unroll=True), layers.Dense(6)])


def counter() -> Any:
    """A module that adds what it is given to what it keeps."""
    import tensorflow as tf

    class Counter(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            drawn = np.random.default_rng(3).standard_normal((48, 48)) / 7
            self.weights = tf.constant(drawn.astype(np.float32))
            self.kept = tf.Variable(tf.zeros((1, 48)), name="kept")

        @tf.function(input_signature=[tf.TensorSpec((1, 48), tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            self.kept.assign(tf.tanh(tf.matmul(x + self.kept, self.weights)))
            return tf.matmul(self.kept + x, self.weights)

    return Counter()


MODELS: dict[str, Callable[[], Any]] = {m.__name__: m for m in (mlp, cnn, spotter, lstm)}


@cache
def model(name: str) -> Any:
    """A model whose biases are no zeros: a trained one has none either."""
    import keras

    keras.utils.set_random_seed(7)
    found = MODELS[name]()
    rng = np.random.default_rng(9)
    for weight in found.weights:
        if not np.any(weight.numpy()):
            weight.assign(0.2 * rng.standard_normal(weight.shape))
    return found


def samples(name: str, count: int = CALIBRATED, seed: int = 1) -> np.ndarray:
    """Normal numbers for the model's input, one call along each new first axis."""
    shape = tuple(model(name).inputs[0].shape)
    return np.random.default_rng(seed).standard_normal((count, *shape)).astype(np.float32)


def _converter(name: str) -> Any:
    import tensorflow as tf

    if name != "counter":
        return tf.lite.TFLiteConverter.from_keras_model(model(name))
    module = counter()
    return tf.lite.TFLiteConverter.from_concrete_functions([module.__call__.get_concrete_function()], module)


@cache
def official(name: str, mode: str) -> bytes:
    """The converter's file.   mode: float, float16, dynamic, int8, int8_io, int16x8"""
    import tensorflow as tf

    converter = _converter(name)
    if mode != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if mode in ("int8", "int8_io", "int16x8"):

        def calls() -> Iterator[list[np.ndarray]]:
            return ([x] for x in samples(name))

        converter.representative_dataset = calls
        sets = tf.lite.OpsSet
        converter.target_spec.supported_ops = [sets[_BITS16] if mode == "int16x8" else sets.TFLITE_BUILTINS_INT8]
    if mode == "int8_io":
        converter.inference_input_type = converter.inference_output_type = tf.int8
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow asks for statistics, which the samples replace
        return bytes(converter.convert())
