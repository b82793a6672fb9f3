"""Models of images: a U-Net, detectors with non-maximum suppression, what stands before a network."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.models.keras_libraries import awake

_ANCHORS = 3


def u_net(batch: int | None) -> Any:
    """Two levels down and up again, one by a transposed convolution, one by a resize."""
    k = keras.layers
    x = keras.Input((12, 8, 3), batch_size=batch)
    first = _convolved(x, 4)
    second = _convolved(k.MaxPooling2D()(first), 6)
    y = _convolved(k.AveragePooling2D(2)(second), 8)
    y = k.Concatenate()([k.Conv2DTranspose(6, 3, strides=2, padding="same")(y), second])
    y = k.Concatenate()([k.UpSampling2D(interpolation="bilinear")(_convolved(y, 6)), first])
    return awake(keras.Model(x, k.Conv2D(2, 1)(_convolved(y, 4))))


def _convolved(x: Any, channels: int) -> Any:
    k = keras.layers
    y = k.Conv2D(channels, 3, padding="same", use_bias=False)(x)
    return k.Activation("relu")(k.BatchNormalization()(y))


def preprocessing(batch: int | None) -> Any:
    """Keras's layers from images of any size to what a network takes."""
    k = keras.layers
    x = keras.Input((None, None, 3), batch_size=batch, dtype="uint8")
    y = k.CenterCrop(6, 6)(k.Resizing(7, 9)(x))
    y = k.RandomFlip()(k.RandomRotation(0.2)(y))  # nothing outside of training
    norm = k.Normalization(mean=[0.1, 0.2, -0.3], variance=[1.0, 0.5, 2.0])
    return keras.Model(x, norm(k.Rescaling(1 / 127.5, offset=-1)(y)))


class Detector:
    """Boxes and scores for each place of a feature map, by random weights."""

    def __init__(self, classes: int, seed: int = 0) -> None:
        rng = np.random.default_rng(seed)
        self.classes = classes
        self.stem = (rng.standard_normal((3, 3, 3, 8)) * 0.4).astype(np.float32)
        self.box = (rng.standard_normal((1, 1, 8, 4 * _ANCHORS)) * 0.1).astype(np.float32)
        self.score = (rng.standard_normal((1, 1, 8, classes * _ANCHORS)) * 0.5).astype(np.float32)

    def heads(self, x: Any) -> tuple[Any, Any]:
        """f32[b,8,8,3] -> corners f32[b,n,4], scores f32[b,n,classes] with n = 48."""
        features = tf.nn.relu(tf.nn.conv2d(x, self.stem, 2, "SAME"))
        places = np.stack(np.meshgrid(np.arange(4), np.arange(4), indexing="ij"), -1).astype(np.float32) / 4
        anchors = np.repeat(places.reshape(-1, 1, 2), _ANCHORS, axis=1).reshape(-1, 2)
        offsets = tf.reshape(tf.nn.conv2d(features, self.box, 1, "VALID"), [-1, 16 * _ANCHORS, 4])
        centre, size = offsets[..., :2] + anchors, tf.exp(offsets[..., 2:]) * 0.4
        scores = tf.reshape(tf.nn.conv2d(features, self.score, 1, "VALID"), [-1, 16 * _ANCHORS, self.classes])
        return tf.concat([centre - size / 2, centre + size / 2], -1), tf.sigmoid(scores)

    def single(self) -> Any:
        """The best boxes of one image, as many as there are."""

        def call(x: Any) -> Any:
            boxes, scores = self.heads(x)
            best = tf.reduce_max(scores[0], -1)
            chosen = tf.image.non_max_suppression(boxes[0], best, 10, 0.4, 0.5)
            return tf.gather(boxes[0], chosen), tf.gather(best, chosen), tf.gather(tf.argmax(scores[0], -1), chosen)

        return _function(call, 1)

    def combined(self, batch: int | None) -> Any:
        """The best boxes over all classes of each image."""

        def call(x: Any) -> Any:
            boxes, scores = self.heads(x)
            return tf.image.combined_non_max_suppression(boxes[:, :, None], scores, 5, 8, 0.4, 0.5)

        return _function(call, batch)

    def mapped(self) -> Any:
        """The best boxes of each image of an open batch."""

        def one(operands: Any) -> Any:
            boxes, scores = operands
            places, count = tf.raw_ops.NonMaxSuppressionV4(
                boxes=boxes,
                scores=tf.reduce_max(scores, -1),
                max_output_size=6,
                iou_threshold=0.4,
                score_threshold=0.5,
                pad_to_max_output_size=True,
            )
            return tf.gather(boxes, places), count

        def call(x: Any) -> Any:
            return tf.map_fn(one, self.heads(x), fn_output_signature=(tf.float32, tf.int32))

        return _function(call, None)


def _function(call: Any, batch: int | None) -> Any:
    return tf.function(call, input_signature=[tf.TensorSpec([batch, 8, 8, 3], name="x")], autograph=False)
