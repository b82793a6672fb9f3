"""Keras applications, one of each family, small and awake: every layer shows in the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras.src.applications import convnext

CLASSES = 10
_CALIBRATION = 32  # images whose moments the batch norms take over; of fewer, the late layers have chance ones

Build = Callable[..., Any]


def _alike(build: Build, size: int, **options: Any) -> Build:
    """A builder with what all of them share: random weights, few classes, logits instead of probabilities."""

    def build_small(seed: int = 0) -> Any:
        keras.utils.set_random_seed(seed)
        return build(input_shape=(size, size, 3), weights=None, classes=CLASSES, classifier_activation=None, **options)

    return build_small


_APPS = keras.applications
_NARROW = (48, 96, 192, 384)
APPLICATIONS: Mapping[str, Build] = {
    "MobileNet": _alike(_APPS.MobileNet, 64, alpha=0.25),
    "MobileNetV2": _alike(_APPS.MobileNetV2, 64, alpha=0.35),
    "MobileNetV3Small": _alike(_APPS.MobileNetV3Small, 64, alpha=0.75),
    "EfficientNetB0": _alike(_APPS.EfficientNetB0, 64),
    "EfficientNetV2B0": _alike(_APPS.EfficientNetV2B0, 64),
    "ResNet50": _alike(_APPS.ResNet50, 64),
    "ResNet50V2": _alike(_APPS.ResNet50V2, 64),
    "DenseNet121": _alike(_APPS.DenseNet121, 64),
    # Of smaller images the last layers have so few positions that roundings move the answers by 1e-4.
    "InceptionV3": _alike(_APPS.InceptionV3, 160),
    "Xception": _alike(_APPS.Xception, 96),
    "VGG16": _alike(_APPS.VGG16, 32),
    "NASNetMobile": _alike(_APPS.NASNetMobile, 64),
    # Of half the width, which the function of the application itself cannot say: the whole one takes 550 MB in a test.
    "ConvNeXtTiny": _alike(convnext.ConvNeXt, 64, **convnext.MODEL_CONFIGS["tiny"] | {"projection_dims": _NARROW}),
}


def application(name: str, seed: int = 0) -> Any:
    """The model of that name, awake."""
    return woken(APPLICATIONS[name](seed), seed)


def woken(model: Any, seed: int = 0) -> Any:
    """The model with random scales and biases, and batch norms whose moments are those of random images.

    As built, moments are 0 and 1 and biases 0: deep models then answer the same to every input. Without batch norms
    the kernels are drawn anew, so large that what an image differs by is not lost from layer to layer.
    """
    rng = np.random.default_rng(seed)
    norms = [layer for layer in _layers(model) if isinstance(layer, keras.layers.BatchNormalization)]
    moments = {id(variable) for norm in norms for variable in (norm.moving_mean, norm.moving_variance)}
    for variable in model.weights:
        if id(variable) in moments or "seed" in variable.path:
            continue
        drawn = _drawn(rng, variable.shape)
        if len(variable.shape) == 1:
            variable.assign((0.0 if variable.path.endswith(("bias", "beta")) else 1.0) + 0.2 * drawn)
        elif not norms:
            drawn *= np.float32(np.sqrt(2 / np.prod(variable.shape[:-1])))
            variable.assign(drawn)
    before = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = 0.0  # one pass gives the moments of its batch
    if norms:
        # As a graph, which frees what no layer reads any more: half the memory. AutoGraph has nothing to change.
        tf.function(model, autograph=False)(images(model, _CALIBRATION, seed), training=True)
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
    return model


def _drawn(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers in f32, drawn a million at a time: as f64 those of a large matrix take twice its memory."""
    drawn = np.empty(shape, np.float32)
    flat = drawn.reshape(-1)
    for start in range(0, flat.size, 2**20):
        part = flat[start : start + 2**20]
        part[:] = rng.standard_normal(part.size)
    return drawn


def images(model: Any, count: int, seed: int) -> np.ndarray:
    """Random images with values from 0 to 255 where the model scales them itself, else about 0.

    Each has a colour and contrast of its own: noise alone looks the same to a deep model.
    """
    rng = np.random.default_rng(seed)
    shape = (count, *model.input_shape[1:])
    drawn = rng.standard_normal(shape) * rng.uniform(0.3, 1.5, (count, 1, 1, 1)) + rng.standard_normal((count, 1, 1, 3))
    scaling = (keras.layers.Rescaling, keras.layers.Normalization)
    scales = any(isinstance(layer, scaling) for layer in model.layers)
    return (np.clip(64 * drawn + 128, 0, 255) if scales else drawn).astype(np.float32)


def _layers(model: Any) -> list[Any]:
    return [*model._flatten_layers(include_self=False)]
