"""Models as people bring them: layers that are reused, nested, in several branches, dilated, causal, transposed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tests.models.keras_libraries import LIBRARIES, awake


def mlp(library: str) -> Any:
    """f32[b,9] -> f32[b,3]: Dense, batch norm and activation, twice, then softmax."""
    k = LIBRARIES[library]
    inputs = x = k.Input((9,), name="x")
    for units in (8, 6):
        x = k.layers.Activation("relu")(k.layers.BatchNormalization()(k.layers.Dense(units, use_bias=False)(x)))
    return awake(k.Model(inputs, k.layers.Dense(3, activation="softmax")(k.layers.Dropout(0.3)(x))))


def autoencoder(library: str) -> Any:
    """f32[b,16,2] -> f32[b,16,2]: strided convolutions down, transposed ones up."""
    k = LIBRARIES[library]
    layers = [
        k.layers.Conv1D(6, 3, strides=2, padding="same", activation="relu"),
        k.layers.Conv1D(4, 3, strides=2, padding="same", activation="relu"),
        k.layers.Conv1DTranspose(6, 3, strides=2, padding="same", activation="relu"),
        k.layers.Conv1DTranspose(2, 3, strides=2, padding="same"),
    ]
    return awake(k.Sequential([k.Input((16, 2), name="x"), *layers]))


def wavenet(library: str) -> Any:
    """f32[b,t,3] -> f32[b,t,4]: gated dilated causal convolutions with skips, over any number of steps."""
    k = LIBRARIES[library]
    inputs = k.Input((None, 3), name="x")
    x, skips = k.layers.Conv1D(4, 1)(inputs), []
    for dilation in (1, 2, 4):
        options = {"padding": "causal", "dilation_rate": dilation}
        signal = k.layers.Conv1D(4, 2, activation="tanh", **options)(x)
        gate = k.layers.Conv1D(4, 2, activation="sigmoid", **options)(x)
        z = k.layers.Multiply()([signal, gate])
        skips.append(k.layers.Conv1D(4, 1)(z))
        x = k.layers.Add()([x, k.layers.Conv1D(4, 1)(z)])
    out = k.layers.Conv1D(4, 1, activation="relu")(k.layers.ReLU()(k.layers.Add()(skips)))
    return awake(k.Model(inputs, out))


def tcn(library: str) -> Any:
    """f32[b,12,3] -> f32[b,2]: residual blocks of two dilated causal convolutions."""
    k = LIBRARIES[library]
    inputs = x = k.Input((12, 3), name="x")
    for dilation in (1, 2):
        y = x
        for _ in range(2):
            y = k.layers.Conv1D(4, 3, padding="causal", dilation_rate=dilation)(y)
            y = k.layers.SpatialDropout1D(0.2)(k.layers.ReLU()(k.layers.LayerNormalization()(y)))
        x = k.layers.ReLU()(k.layers.Add()([k.layers.Conv1D(4, 1)(x), y]))
    last = k.layers.Cropping1D((11, 0))(x)
    return awake(k.Model(inputs, k.layers.Dense(2)(k.layers.Flatten()(last))))


def attention_over_lstm(library: str) -> Any:
    """f32[b,6,3] -> f32[b,2]: the steps of an LSTM, weighted by a softmax over time."""
    k = LIBRARIES[library]
    inputs = k.Input((6, 3), name="x")
    steps = k.layers.LSTM(5, return_sequences=True)(inputs)
    scores = k.layers.Dense(1)(k.layers.Dense(4, activation="tanh")(steps))
    weights = k.layers.Softmax(axis=1)(scores)
    context = k.layers.Flatten()(k.layers.Dot(axes=1)([weights, steps]))
    return awake(k.Model(inputs, k.layers.Dense(2)(context)))


def siamese(library: str) -> Any:
    """f32[b,6], f32[b,6] -> f32[b,1]: one tower for both inputs, and the distance of what it gives."""
    k = LIBRARIES[library]
    tower = k.Sequential([k.Input((6,)), k.layers.Dense(5, activation="relu"), k.layers.Dense(4)], name="tower")
    left, right = k.Input((6,), name="left"), k.Input((6,), name="right")
    distance = k.layers.Lambda(lambda p: tf.norm(p[0] - p[1], axis=1, keepdims=True), output_shape=(1,))
    return awake(k.Model([left, right], k.layers.Dense(1, activation="sigmoid")(distance([tower(left), tower(right)]))))


def branches(library: str) -> Any:
    """An image, numbers and ids -> two results: towers of three kinds, joined."""
    k = LIBRARIES[library]
    image, numbers = k.Input((8, 8, 3), name="image"), k.Input((5,), name="numbers")
    ids = k.Input((4,), dtype="int32", name="ids")
    seen = k.layers.Conv2D(4, 3, activation="relu", padding="same")(image)
    seen = k.layers.GlobalAveragePooling2D()(k.layers.MaxPooling2D()(seen))
    read = k.layers.GlobalMaxPooling1D()(k.layers.Embedding(10, 3)(ids))
    joined = k.layers.Concatenate()([seen, k.layers.Dense(4, activation="elu")(numbers), read])
    first = k.layers.Dense(2, activation="softmax", name="first")(joined)
    return awake(k.Model([image, numbers, ids], [first, k.layers.Dense(1, name="second")(joined)]))


def nested(library: str) -> Any:
    """f32[b,8,8,3] -> f32[b,2]: a model in a model in a model, and a layer of layers over time."""
    k = LIBRARIES[library]
    inner = k.Sequential([k.Input((8, 8, 3)), k.layers.Conv2D(4, 3, activation="relu"), k.layers.MaxPooling2D()])
    x = k.Input((8, 8, 3))
    middle = k.Model(x, k.layers.BatchNormalization()(inner(x)))
    inputs = k.Input((8, 8, 3), name="image")
    rows = k.layers.TimeDistributed(k.layers.Dense(2, activation="relu"))(middle(inputs))
    return awake(k.Model(inputs, k.layers.Dense(2)(k.layers.Flatten()(rows))))


def squeeze_and_excite(library: str) -> Any:
    """f32[b,8,8,4] -> f32[b,8,8,4]: channels weighted by what stands in them, and a depthwise convolution."""
    k = LIBRARIES[library]
    inputs = k.Input((8, 8, 4), name="image")
    x = k.layers.DepthwiseConv2D(3, padding="same", use_bias=False)(inputs)
    x = k.layers.Activation("swish")(k.layers.BatchNormalization()(x))
    weights = k.layers.Reshape((1, 1, 4))(k.layers.GlobalAveragePooling2D()(x))
    weights = k.layers.Conv2D(2, 1, activation="swish")(weights)
    weights = k.layers.Conv2D(4, 1, activation="sigmoid")(weights)
    x = k.layers.BatchNormalization()(k.layers.Conv2D(4, 1, use_bias=False)(k.layers.Multiply()([x, weights])))
    return awake(k.Model(inputs, k.layers.Add()([inputs, x])))


def u_net(library: str) -> Any:
    """f32[b,8,12,2] -> f32[b,8,12,1]: down, up, and across."""
    k = LIBRARIES[library]
    inputs = k.Input((8, 12, 2), name="image")
    top = k.layers.Conv2D(4, 3, padding="same", activation="relu")(inputs)
    low = k.layers.Conv2D(6, 3, padding="same", activation="relu")(k.layers.MaxPooling2D()(top))
    up = k.layers.Conv2DTranspose(4, 2, strides=2, padding="same")(low)
    up = k.layers.Concatenate()([up, k.layers.UpSampling2D(interpolation="bilinear")(low), top])
    return awake(k.Model(inputs, k.layers.Conv2D(1, 1, activation="sigmoid")(up)))


MODELS: dict[str, Callable[[str], Any]] = {
    model.__name__: model
    for model in (
        mlp,
        autoencoder,
        wavenet,
        tcn,
        attention_over_lstm,
        siamese,
        branches,
        nested,
        squeeze_and_excite,
        u_net,
    )
}
