"""The models that `bench.convert` converts: Keras applications, and others small enough to count or as phones run them.

Each is awake, has a batch of 1, and comes with inputs by name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.models import applications, images, mixed, sounds, text, transformers
from tests.models.keras_libraries import awake

_STEPS = 16  # of sequences of open length
Arrays = Mapping[str, np.ndarray]
Model = tuple[Any, Arrays]
"""A Keras model, or a tf.function, and its inputs."""


def fixed(model: Any, seed: int = 1) -> Model:
    """A Keras model with a batch of 1."""
    inputs = [keras.Input(batch_shape=(1, *x.shape[1:]), dtype=x.dtype, name=x.name) for x in model.inputs]
    called = model(inputs[0] if len(inputs) == 1 else inputs)
    rng = np.random.default_rng(seed)
    return keras.Model(inputs, called), {x.name: _drawn(rng, x.shape, x.dtype) for x in inputs}


def retraced(function: Any, seed: int = 1) -> Model:
    """A tf.function with a batch of 1."""
    specs = [
        tf.TensorSpec([1 if d is None else d for d in s.shape], s.dtype, s.name or f"x{i}")  # inputs go by name
        for i, s in enumerate(function.input_signature)
    ]
    rng = np.random.default_rng(seed)
    inputs = {s.name: _drawn(rng, tuple(s.shape), s.dtype.name) for s in specs}
    return tf.function(function.python_function, input_signature=specs, autograph=False), inputs


def _drawn(rng: np.random.Generator, shape: tuple[int | None, ...], dtype: str) -> np.ndarray:
    sizes = tuple(_STEPS if d is None else d for d in shape)
    if dtype == "string":
        return np.full(sizes, "", object)
    if dtype == "float32":
        return rng.standard_normal(sizes).astype(np.float32)
    return rng.integers(0, 2 if dtype == "bool" else 10, sizes).astype(dtype)


def application(name: str) -> Model:
    """A Keras application with an image."""
    model = applications.application(name)
    source, inputs = fixed(model)
    return source, dict.fromkeys(inputs, applications.images(model, 1, seed=1))


def of_text(name: str) -> Model:
    """A Keras model of words or ids."""
    source, inputs = fixed(text.MODELS[name][0]())
    rng, (key,) = np.random.default_rng(1), inputs
    return source, {key: rng.choice(np.array(text.MODELS[name][1]), source.input_shape).astype(inputs[key].dtype)}


# As phones run them


def phone_encoder() -> Any:
    """Four blocks over 64 steps, 128 wide, four heads."""
    k = keras.layers
    inputs = x = keras.Input((64, 128), name="x")
    for _ in range(4):
        y = k.LayerNormalization(epsilon=1e-6)(x)
        x = k.Add()([x, k.MultiHeadAttention(4, 32)(y, y)])
        y = k.Dense(256, activation="gelu")(k.LayerNormalization(epsilon=1e-6)(x))
        x = k.Add()([x, k.Dense(128)(y)])
    return awake(keras.Model(inputs, k.Dense(10)(k.GlobalAveragePooling1D()(x))))


def phone_u_net() -> Any:
    """Three levels over 64 x 64 pixels, 16 to 64 channels."""
    k = keras.layers

    def convolved(x: Any, channels: int) -> Any:
        for _ in range(2):
            x = k.Conv2D(channels, 3, padding="same", use_bias=False)(x)
            x = k.ReLU()(k.BatchNormalization()(x))
        return x

    inputs = x = keras.Input((64, 64, 3), name="image")
    skips = []
    for channels in (16, 32):
        skips.append(convolved(x, channels))
        x = k.MaxPooling2D()(skips[-1])
    x = convolved(x, 64)
    for channels, skip in zip((32, 16), skips[::-1], strict=True):
        x = k.Conv2DTranspose(channels, 3, strides=2, padding="same")(x)
        x = convolved(k.Concatenate()([x, skip]), channels)
    return applications.woken(keras.Model(inputs, k.Conv2D(4, 1)(x)))


def phone_detector() -> Any:
    """A network of separable convolutions over 96 x 96 pixels, heads over 6 x 6 places, non-maximum suppression."""
    k = keras.layers
    image = x = keras.Input((96, 96, 3), name="image")
    for channels in (16, 32, 64, 96):
        x = k.SeparableConv2D(channels, 3, strides=2, padding="same", use_bias=False)(x)
        x = k.Activation("hard_silu")(k.BatchNormalization()(x))
    heads = [k.Reshape((-1, n))(k.Conv2D(3 * n, 1)(x)) for n in (4, 6)]
    network = applications.woken(keras.Model(image, heads))
    anchors = np.random.default_rng(0).uniform(0, 1, (108, 2)).astype(np.float32)

    def call(image: Any) -> Any:
        offsets, logits = network(image)
        centre, size = offsets[0, :, :2] * 0.1 + anchors, tf.exp(offsets[0, :, 2:]) * 0.2
        boxes = tf.concat([centre - size / 2, centre + size / 2], -1)
        scores = tf.sigmoid(logits[0])
        best = tf.reduce_max(scores, -1)
        chosen = tf.image.non_max_suppression(boxes, best, 10, 0.5, 0.3)
        return tf.gather(boxes, chosen), tf.gather(scores, chosen)

    return tf.function(call, input_signature=[tf.TensorSpec([1, 96, 96, 3], name="image")], autograph=False)


def phone_keywords() -> Any:
    """A second of sound at 16 kHz, log mel bands, convolutions."""
    k = keras.layers
    bands = keras.Input((61, 40, 1))
    x = k.Conv2D(16, 3, strides=2, activation="relu")(bands)
    for _ in range(2):
        x = k.ReLU()(k.BatchNormalization()(k.SeparableConv2D(32, 3, padding="same")(x)))
    network = awake(keras.Model(bands, k.Dense(12)(k.GlobalAveragePooling2D()(x))))
    mel = tf.signal.linear_to_mel_weight_matrix(40, 257, 16000, 80.0, 7600.0)

    def call(samples: Any) -> Any:
        spectra = tf.abs(tf.signal.stft(samples, 512, 256))
        return network(tf.math.log(tf.tensordot(spectra, mel, 1) + 1e-6)[..., None])

    return tf.function(call, input_signature=[tf.TensorSpec([1, 16000], name="samples")], autograph=False)


def phone_text() -> Any:
    """Forty ids, embedded, read by convolutions over sequences."""
    k = keras.layers
    ids = keras.Input((40,), dtype="int64", name="ids")
    x = k.Embedding(10, 32)(k.IntegerLookup(vocabulary=list(range(1, 9)), num_oov_indices=1)(ids))
    for _ in range(2):
        x = k.LayerNormalization()(k.Conv1D(64, 3, padding="same", activation="relu")(x))
    return awake(keras.Model(ids, k.Dense(5)(k.GlobalMaxPooling1D()(x))))


Build = Callable[[], Model]
_KERAS: Mapping[str, Callable[[], Any]] = {
    "encoder": transformers.encoder,
    "masked_encoder": transformers.masked_encoder,
    "decoder": transformers.decoder,
    **{name: partial(build, "keras") for name, build in mixed.MODELS.items() if name != "u_net"},
    "u_net": lambda: images.u_net(1),
    "mel_layer": lambda: sounds.mel_layer(1),
    "stft_layer": lambda: sounds.stft_layer(1),
    "phone_encoder": phone_encoder,
    "phone_u_net": phone_u_net,
    "phone_text": phone_text,
}
_FUNCTIONS: Mapping[str, Callable[[], Any]] = {
    "einsum_attention": transformers.einsum_attention,
    "llama_block": transformers.llama_block,
    "decode_step": lambda: transformers.decode_step(transformers.chosen),
    "detector": lambda: images.Detector(3).single(),
    "combined_detector": lambda: images.Detector(3).combined(1),
    "log_mel": lambda: sounds.function(sounds.log_mel, 1, 400),
    "cepstra": lambda: sounds.function(sounds.cepstra, 1, 400),
    "denoised": lambda: sounds.function(sounds.denoised, 1, 400),
    "speech_commands": lambda: sounds.function(sounds.speech_commands, 400, 1),
    "phone_detector": phone_detector,
    "phone_keywords": phone_keywords,
}


def _late(make: Callable[[Any], Model], what: Any) -> Build:
    return lambda: make(what)


def _kept(build: Callable[[], Any], make: Callable[[Any], Model]) -> Build:
    return lambda: make(build())


MODELS: Mapping[str, Build] = {
    **{name: _late(application, name) for name in applications.APPLICATIONS},
    **{name: _kept(build, fixed) for name, build in _KERAS.items()},
    **{name: _kept(build, retraced) for name, build in _FUNCTIONS.items()},
    **{f"text_{name}": _late(of_text, name) for name in text.MODELS},
}
"""Builders of the models, by name in the table."""
