"""Models of images and sounds, and functions of tf.image: TensorFlow's answers in LiteRT, invoke after invoke."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from tests.end_to_end.invokes import TOLERANCE, Arrays, check_invokes
from tests.models import sounds
from tests.models.images import Detector, preprocessing, u_net
from tests.slow import every_other

_SHAPE_OPS = {"shape", "pack", "strided_slice", "concatenation", "fill"}
_LOGS = 1e-4  # logarithms of sums that nearly cancel


def convert(source: Any) -> Model:
    return jfuse.convert(source, verify=False)


@pytest.mark.parametrize("batch", [1, None])
def test_u_net(batch: int | None) -> None:
    lite = convert(u_net(batch))
    check_invokes(lite)
    counts = lite.report.operators
    assert counts["resize_bilinear"] == 1
    assert not counts.keys() & {"mul", "shape", "pack"}


def pixels(batch: Callable[[int], int]) -> Callable[[int], Arrays]:
    """Images of several sizes."""

    def draw(seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        return {"keras_tensor": rng.integers(0, 256, (batch(seed), 9 + 2 * seed, 12 - seed, 3)).astype(np.uint8)}

    return draw


@pytest.mark.parametrize("batch", [1, None])
def test_preprocessing_layers(batch: int | None) -> None:
    lite = convert(preprocessing(batch))
    (name,) = lite.program.signatures[0].input_names
    draw = pixels((lambda seed: 1) if batch else (lambda seed: (2, 1, 3, 2)[seed % 4]))
    check_invokes(lite, lambda seed: {name: draw(seed)["keras_tensor"]})
    assert lite.report.operators["resize_bilinear"] == 1
    assert sum(lite.report.operators.values()) <= 5


def images(batch: int) -> Callable[[int], Arrays]:
    """Normal images."""
    return lambda seed: {"x": np.random.default_rng(seed).standard_normal((batch, 8, 8, 3)).astype(np.float32)}


def test_detector_of_one_image() -> None:
    lite = convert(Detector(classes=3).single())
    check_invokes(lite, images(1))
    assert lite.report.operators["non_max_suppression_v4"] == 1


@pytest.mark.parametrize("batch", [1, 2])
def test_detector_with_combined_suppression(batch: int) -> None:
    lite = convert(Detector(classes=3).combined(batch))
    check_invokes(lite, images(batch))
    assert lite.report.operators["non_max_suppression_v5"] == 3 * batch


def test_detector_with_combined_suppression_of_an_open_batch() -> None:
    lite = convert(Detector(classes=2).combined(None))
    check_invokes(lite, lambda seed: images((2, 1, 3)[seed % 3])(seed))


def test_detector_mapped_over_an_open_batch() -> None:
    lite = convert(Detector(classes=2).mapped())
    check_invokes(lite, lambda seed: images((2, 1, 3)[seed % 3])(seed))


SOUNDS: tuple[tuple[Callable[[Any], Any], float], ...] = (
    (sounds.log_mel, TOLERANCE),
    (sounds.odd_spectra, 2e-5),  # sums of 50 products in another order
    (sounds.cepstra, 2e-5),
    (sounds.round_trip, TOLERANCE),
    (sounds.denoised, TOLERANCE),
    (sounds.griffin_lim, 1e-4),  # of small numbers the phase is what rounding left
)


@pytest.mark.parametrize("batch", [1, None])
@pytest.mark.parametrize(("call", "tolerance"), SOUNDS, ids=lambda v: getattr(v, "__name__", ""))
def test_sounds(call: Callable[[Any], Any], tolerance: float, batch: int | None) -> None:
    lite = convert(sounds.function(call, batch, 300))
    check_invokes(lite, tolerance=tolerance)
    assert not {"shape", "pack"} & lite.report.operators.keys()


def test_log_mel_is_ten_operators() -> None:
    lite = convert(sounds.function(sounds.log_mel, None, 288))  # a whole number of steps
    assert sum(lite.report.operators.values()) <= 10


def test_sounds_of_any_length() -> None:
    lite = convert(sounds.function(sounds.log_mel, 1, None))
    check_invokes(lite, samples)


def samples(seed: int) -> Arrays:
    """Sounds of several lengths, one of them shorter than a frame."""
    rng = np.random.default_rng(seed)
    return {"x": rng.standard_normal((1, (300, 64, 513, 47)[seed % 4])).astype(np.float32)}


def test_speech_commands() -> None:
    lite = convert(sounds.function(sounds.speech_commands, 400, 1))
    check_invokes(lite, tolerance=_LOGS)


@pytest.mark.parametrize("batch", [1, None])
@pytest.mark.parametrize("layer", [sounds.mel_layer, sounds.stft_layer], ids=lambda f: f.__name__)
def test_spectrogram_layers(layer: Callable[[int | None], Any], batch: int | None) -> None:
    check_invokes(convert(layer(batch)), tolerance=_LOGS)


# One image or batch of 8 by 10 pixels, 3 channels.
FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "adjust_brightness": lambda x: tf.image.adjust_brightness(x, 0.3),
    "adjust_contrast": lambda x: tf.image.adjust_contrast(x, 1.5),
    "adjust_gamma": lambda x: tf.image.adjust_gamma(tf.abs(x), 0.5),
    "adjust_saturation": lambda x: tf.image.adjust_saturation(tf.sigmoid(x), 1.5),
    "central_crop": lambda x: tf.image.central_crop(x, 0.5),
    "crop_to_bounding_box": lambda x: tf.image.crop_to_bounding_box(x, 1, 2, 5, 6),
    "extract_patches": lambda x: tf.image.extract_patches(x, [1, 3, 3, 1], [1, 2, 2, 1], [1, 1, 1, 1], "SAME"),
    "flips": lambda x: tf.image.flip_up_down(x) - tf.image.flip_left_right(x),
    "grayscale": lambda x: tf.image.grayscale_to_rgb(tf.image.rgb_to_grayscale(x)),
    "image_gradients": lambda x: tf.image.image_gradients(x),
    "pad_to_bounding_box": lambda x: tf.image.pad_to_bounding_box(x, 1, 2, 12, 14),
    "per_image_standardization": lambda x: tf.image.per_image_standardization(x),
    "psnr": lambda x: tf.image.psnr(x, x[:, ::-1], 1.0),
    "resize_antialias": lambda x: tf.image.resize(x, [5, 4], antialias=True),
    "resize_aspect": lambda x: tf.image.resize(x, [4, 4], preserve_aspect_ratio=True),
    "resize_bicubic": lambda x: tf.image.resize(x, [5, 14], method="bicubic"),
    "resize_area": lambda x: tf.image.resize(x, [5, 4], method="area"),
    "resize_lanczos": lambda x: tf.image.resize(x, [5, 4], method="lanczos5"),
    "resize_with_crop_or_pad": lambda x: tf.image.resize_with_crop_or_pad(x, 6, 12),
    "resize_with_pad": lambda x: tf.image.resize_with_pad(x, 6, 12),
    "rot90": lambda x: tf.image.rot90(x, 1) + tf.image.rot90(x, 3),
    "sobel_edges": lambda x: tf.image.sobel_edges(x),
    "ssim": lambda x: tf.image.ssim(tf.sigmoid(x), tf.sigmoid(x[:, ::-1]), 1.0, filter_size=5),
    "total_variation": lambda x: tf.image.total_variation(x),
    "transpose": lambda x: tf.image.transpose(x),
    "yuv": lambda x: tf.image.yuv_to_rgb(tf.image.rgb_to_yuv(x) * 2.0),
}
RESIZED = ("resize_antialias", "resize_bicubic", "resize_area", "resize_lanczos", "resize_with_pad", "resize_aspect")


@pytest.mark.parametrize("name", every_other(FUNCTIONS))
def test_image_functions(name: str) -> None:
    spec = tf.TensorSpec([None, 8, 10, 3], name="x")
    lite = convert(tf.function(FUNCTIONS[name], input_signature=[spec], autograph=False))
    check_invokes(lite, tolerance=_LOGS if name == "ssim" else TOLERANCE)  # variances are differences of squares
    if name in RESIZED:
        assert not _SHAPE_OPS & lite.report.operators.keys()


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
def test_resize_to_the_size_of_another_image(method: str) -> None:
    specs = [tf.TensorSpec([1, None, None, 2], name=name) for name in ("x", "y")]
    call = tf.function(
        lambda x, y: tf.image.resize(x, tf.shape(y)[1:3], method) + y, input_signature=specs, autograph=False
    )

    def draw(seed: int) -> Arrays:
        rng = np.random.default_rng(seed)
        shapes = {"x": (1, 3 + seed, 7 - seed, 2), "y": (1, 8 - seed, 4 + seed, 2)}
        return {key: rng.standard_normal(shape).astype(np.float32) for key, shape in shapes.items()}

    check_invokes(convert(call), draw)


def test_a_filter_over_an_open_size_is_refused() -> None:
    spec = tf.TensorSpec([1, None, None, 2], name="x")
    call = tf.function(lambda x: tf.image.resize(x, [4, 4], "bicubic"), input_signature=[spec], autograph=False)
    with pytest.raises(jfuse.LowerError, match=r"tf\.ResizeBicubic (.|\n)*weights or places that depend on the sizes"):
        convert(call)


@pytest.mark.parametrize("size", [7, 14, 24])
def test_boxes_that_end_with_the_image(size: int) -> None:
    """Whether the last pixel of a box lies beyond the image is a matter of rounding: as TensorFlow rounds."""
    rng = np.random.default_rng(0)
    begins = rng.uniform(0, 0.9, (500, 2))
    boxes = np.concatenate([begins, np.ones((500, 2))], 1).astype(np.float32)
    image = rng.uniform(1, 2, (1, 37, 41, 1)).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec(image.shape), tf.TensorSpec((None, 4))], autograph=False)
    def crop(image: Any, boxes: Any) -> Any:
        return tf.image.crop_and_resize(image, boxes, tf.zeros(tf.shape(boxes)[0], tf.int32), [size, size])

    wanted = crop(image, boxes).numpy()
    assert (wanted == 0).any()
    for delegates in (True, False):
        runtime = LiteRt(convert(crop).to_bytes(), delegates=delegates)
        (found,) = runtime.run("serving_default", {"image": image, "boxes": boxes}).values()
        np.testing.assert_array_equal(found == 0, wanted == 0)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)  # mixed in another order
