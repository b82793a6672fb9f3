"""Keras applications, awake: TensorFlow's answers for any batch and for one, and as few operators as official files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from tests.memory import give_back
from tests.models.applications import APPLICATIONS, application, images

pytestmark = pytest.mark.large

# Sums of thousands of terms, through dozens of layers, in another order than TensorFlow's.
TOLERANCE = 1e-4
# How many times what one rounding of the image alone changes two right runners may be apart: each of them rounds in
# each of about a hundred layers, with FMA or without, eight or sixteen terms at a time. InceptionV3 needs it:
# TensorFlow's own answers move by 1e-5 to 8e-5 with a rounding of its images, and LiteRT's are 4e-5 to 1.2e-4 away.
ROUNDINGS = 4

# Operators of the official converter's files for a batch of 1: TensorFlow 2.21, Keras 3.15, `bench/convert.py`.
OFFICIAL: Mapping[str, int] = {
    "MobileNet": 30,
    "MobileNetV2": 64,
    "MobileNetV3Small": 110,
    "EfficientNetB0": 238,
    "EfficientNetV2B0": 269,
    "ResNet50": 74,
    "ResNet50V2": 114,
    "DenseNet121": 310,
    "InceptionV3": 124,
    "Xception": 103,
    "VGG16": 21,
    "NASNetMobile": 570,
    "ConvNeXtTiny": 351,
}

QUICK = ("MobileNetV3Small",)
_MODELS = [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in APPLICATIONS]


@pytest.fixture(scope="module", params=_MODELS)
def model(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One application after the other, each built once, in what memory the tests before it can do without."""
    give_back()
    built = application(request.param)
    built.application = request.param
    yield built
    del built
    _ANSWERED.clear()
    keras.utils.clear_session()


@dataclass(frozen=True)
class Answered:
    """Images, TensorFlow's answers to them, and how far those move with a rounding of the images."""

    images: np.ndarray
    answers: np.ndarray
    noise: float


_ANSWERED: dict[tuple[int, int], Answered] = {}  # of one application, by the number of images and the seed


def answered(model: Any, count: int, seed: int) -> Answered:
    """Each number of images with a seed is answered once: Keras takes a second for a call of hundreds of layers."""
    if (count, seed) not in _ANSWERED:
        drawn = images(model, count, seed)
        signs = np.random.default_rng(0).choice((-1.0, 1.0), drawn.shape)
        moved = (drawn * (1 + 2.0**-23 * signs)).astype(np.float32)  # each number is another one by a rounding
        wanted, of_moved = np.split(model(np.concatenate([drawn, moved]), training=False).numpy(), 2)
        noise = relative_error(of_moved, wanted)
        assert noise <= TOLERANCE, "nothing can be said of a model to which roundings mean that much"
        _ANSWERED[count, seed] = Answered(drawn, wanted, noise)
    return _ANSWERED[count, seed]


def check(lite: Model, model: Any, batches: tuple[int, ...]) -> None:
    """Invokes in a row, with these numbers of images, answer as TensorFlow does."""
    runtime = LiteRt(lite.to_bytes())
    for seed, batch in enumerate(batches):
        known = answered(model, batch, seed)
        ((found,),) = (runtime.run("serving_default", {_input(lite): known.images}).values(),)
        assert relative_error(found, known.answers) <= max(TOLERANCE, ROUNDINGS * known.noise)


def _input(lite: Model) -> str:
    return lite.program.signatures[0].input_names[0]


def test_every_layer_shows(model: Any) -> None:
    """A test of the test: another image, or one kernel negated, is far from what was answered."""
    known, other = (answered(model, 1, seed) for seed in (0, 1))
    assert relative_error(other.answers, known.answers) > 1000 * TOLERANCE
    kernels = [w for w in model.weights if len(w.shape) == 4]
    kernel = kernels[len(kernels) // 2]
    before = kernel.numpy()
    kernel.assign(-before)
    assert relative_error(model(known.images, training=False).numpy(), known.answers) > 1000 * TOLERANCE
    kernel.assign(before)


def test_any_batch(model: Any) -> None:
    lite = jfuse.convert(model, verify=False)
    assert sum(lite.report.operators.values()) <= OFFICIAL[model.application]
    check(lite, model, (2, 1))


def test_one_image(model: Any) -> None:
    spec = tf.TensorSpec((1, *model.input_shape[1:]), tf.float32)
    lite = jfuse.convert(model, jfuse.Inputs(input_signature=[spec]), verify=False)
    assert sum(lite.report.operators.values()) <= OFFICIAL[model.application]
    check(lite, model, (1, 1))
