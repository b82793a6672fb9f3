"""The models of `bench.quantize` in sets: small ones, Keras applications, trained ones; inputs suit each model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bench.trained_models import MODELS as TRAINED


def mlp() -> Any:
    """Three dense layers."""
    from keras import Input, Sequential, layers

    return Sequential(
        [Input((64,)), layers.Dense(256, "relu"), layers.Dense(128, "tanh"), layers.Dense(10, activation="softmax")]
    )


def cnn() -> Any:
    """Convolutions, a skip, pooling, a classifier."""
    from keras import Input, Model, layers

    inputs = Input((32, 32, 3))
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    y = layers.BatchNormalization()(layers.Conv2D(32, 3, padding="same")(x))
    x = layers.MaxPooling2D()(layers.ReLU()(layers.Add()([x, y])))
    x = layers.Conv2D(64, 3, strides=2, activation="relu")(x)
    return Model(inputs, layers.Dense(10)(layers.Flatten()(x)))


def keywords() -> Any:
    """Separable convolutions over the bands of a second of sound."""
    from keras import Input, Sequential, layers

    separable = [
        layer
        for _ in range(3)
        for layer in (layers.SeparableConv2D(48, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(6.0))
    ]
    first = layers.Conv2D(48, (10, 4), strides=2, activation="relu")
    pooled = layers.GlobalAveragePooling2D()
    return Sequential([Input((49, 40, 1)), first, *separable, pooled, layers.Dense(12, activation="softmax")])


def text() -> Any:
    """Embedded ids, convolutions over sequences, layer norms."""
    from keras import Input, Model, layers

    ids = Input((40,), dtype="int32")
    x = layers.Embedding(500, 64)(ids)
    for _ in range(2):
        x = layers.LayerNormalization()(layers.Conv1D(64, 3, padding="same", activation="relu")(x))
    return Model(ids, layers.Dense(5)(layers.GlobalMaxPooling1D()(x)))


def gated() -> Any:
    """Gates, hard swishes, concatenations, averages."""
    from keras import Input, Model, layers

    inputs = Input((24, 24, 8))
    x = layers.Activation("hard_silu")(layers.Conv2D(32, 3, padding="same")(inputs))
    gate = layers.Dense(32, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Concatenate()([layers.Multiply()([x, gate]), inputs])
    x = layers.AveragePooling2D(2)(layers.LeakyReLU(0.1)(layers.Conv2D(48, 1)(x)))
    return Model(inputs, layers.Dense(6)(layers.Flatten()(x)))


def fixed(model: Any) -> Any:
    """The model with a batch of 1, awake: biases that are not zero, moments of normalizations from a forward pass."""
    import keras

    rng = np.random.default_rng(9)
    for weight in model.weights:
        if weight.name == "bias":
            weight.assign(rng.standard_normal(weight.shape) * 0.1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    (x,) = model.inputs
    model(drawn(x, 16, 5), training=True)
    inputs = keras.Input(batch_shape=(1, *x.shape[1:]), dtype=x.dtype, name="x")
    return keras.Model(inputs, model(inputs))


def drawn(x: Any, count: int, seed: int) -> np.ndarray:
    """So many inputs, normal or ids."""
    rng = np.random.default_rng(seed)
    if x.dtype == "int32":
        return rng.integers(0, 500, (count, *x.shape[1:])).astype(np.int32)
    return rng.standard_normal((count, *x.shape[1:])).astype(np.float32)


@dataclass(frozen=True)
class Source:
    """Functions that build a model from a seed, batch 1, and draw its inputs from model, count, seed."""

    build: Callable[[int], Any]
    draw: Callable[[Any, int, int], np.ndarray]


@dataclass(frozen=True)
class ModelSet:
    """Models by name, and how many inputs calibrate and are compared.   modes: those that are measured by default

    is_varied: whether modes are also measured with other ways to take ranges and weights.
    """

    models: Mapping[str, Source]
    calibrate: int
    compare: int
    modes: tuple[str, ...]
    is_varied: bool


def _small(build: Callable[[], Any]) -> Source:
    def seeded(seed: int) -> Any:
        import keras

        keras.utils.set_random_seed(seed)
        return fixed(build())

    return Source(seeded, lambda model, count, seed: drawn(model.inputs[0], count, seed))


def _of_phone(name: str) -> Any:
    from bench import models

    return getattr(models, name)()


def _mobilenet() -> Any:
    from bench.verify import mobilenet

    return mobilenet()


def calmed(model: Any, seed: int) -> Any:
    """The model with one added to the offsets of its batch norms, and their moments found anew.

    With random weights alone deep models are chaotic: noise of 60 dB in the image is one of 22 dB in the logits of
    MobileNet, and no number format matters. Where most numbers pass the activations, as in trained models, it is 48 dB.
    """
    import keras
    import tensorflow as tf

    from tests.models.applications import images

    norms = [x for x in model._flatten_layers(include_self=False) if isinstance(x, keras.layers.BatchNormalization)]
    for norm in norms:
        norm.beta.assign(norm.beta + 1.0)
        norm.momentum = 0.0
    if norms:
        tf.function(model)(images(model, _MOMENTS, seed), training=True)
    return model


def _application(name: str) -> Source:
    """That of the tests with calm norms, and images with a colour and a contrast of their own each."""

    def seeded(seed: int) -> Any:
        import keras

        from tests.models.applications import application

        model = calmed(application(name, seed), seed)
        inputs = keras.Input(batch_shape=(1, *model.input_shape[1:]), name="x")
        return keras.Model(inputs, model(inputs))

    def draw(model: Any, count: int, seed: int) -> np.ndarray:
        from tests.models.applications import images

        return images(model.layers[-1], count, seed)

    return Source(seeded, draw)


_MOMENTS = 32  # images whose moments norms take
OFFICIAL = ("float16", "dynamic", "int8", "int16x8")
MODES = (*OFFICIAL, "int8_weights", "int4_weights", "int4_gptq", "int2_weights")
_BUILDERS: Mapping[str, Callable[[], Any]] = {
    "mlp": mlp,
    "cnn": cnn,
    "keywords": keywords,
    "gated": gated,
    "text": text,
    "u_net": partial(_of_phone, "phone_u_net"),
    "transformer": partial(_of_phone, "phone_encoder"),
    "mobilenet_v2": _mobilenet,
}
_APPLICATIONS = (
    "MobileNet",
    "MobileNetV2",
    "MobileNetV3Small",
    "EfficientNetB0",
    "EfficientNetV2B0",
    "ResNet50",
    "ResNet50V2",
    "DenseNet121",
    "InceptionV3",
    "Xception",
    "VGG16",
    "NASNetMobile",
    "ConvNeXtTiny",
)
SETS: Mapping[str, ModelSet] = {
    "small": ModelSet({n: _small(b) for n, b in _BUILDERS.items()}, 64, 32, MODES, is_varied=True),
    "applications": ModelSet({n: _application(n) for n in _APPLICATIONS}, 64, 16, MODES[:6], is_varied=False),
    "trained": ModelSet(
        {n: Source(t.build, t.draw) for n, t in TRAINED.items()},
        128,
        256,
        ("dynamic", "int8", "int16x8"),
        is_varied=False,
    ),
}
