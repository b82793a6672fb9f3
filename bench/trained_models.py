"""Networks that `bench.quantize --set trained` trains on generated data, each in seconds: what people put on devices.

Every data set is drawn by a function of (count, seed): inputs f32[count, ...] or ids i32[count, ...], and targets.
Training, calibration and comparison draw with different seeds, so that the compared samples are held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.trained import gestures

Data = Callable[[int, int], tuple[np.ndarray, np.ndarray]]
_SIDE = 24  # pixels
_STEPS = 32


@dataclass(frozen=True)
class TrainedModel:
    """A network.   layers: makes the output of `keras.layers` and the input; loss: of Keras; examples: to train on"""

    data: Data
    layers: Callable[[Any, Any], Any]
    loss: str
    examples: int = 3000
    epochs: int = 12

    def build(self, seed: int) -> Any:
        """The trained Keras model with a batch of 1; what depends on the data alone (norms) is adapted first."""
        import keras

        keras.utils.set_random_seed(seed)
        x, y = self.data(self.examples, 1000 + seed)
        inputs = keras.Input(x.shape[1:], dtype=x.dtype.name, name="x")
        model = keras.Model(inputs, self.layers(keras.layers, inputs))
        for layer in model.layers:
            if isinstance(layer, keras.layers.Normalization):
                layer.adapt(x)
        model.compile(keras.optimizers.Adam(3e-3), self.loss)
        model.fit(x, y, batch_size=64, epochs=self.epochs, verbose=0)
        fixed = keras.Input(batch_shape=(1, *x.shape[1:]), dtype=x.dtype.name, name="x")
        return keras.Model(fixed, model(fixed))

    def draw(self, model: Any, count: int, seed: int) -> np.ndarray:
        """So many inputs that it was not trained on."""
        del model
        return self.data(count, seed)[0]


def rare_events(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Eight features; 5 % are events."""
    x = np.random.default_rng(seed).standard_normal((count, 8)).astype(np.float32)
    return x, (x[:, :1] * x[:, 1:2] > 1.2).astype(np.float32)


def labels(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sixteen features, and six labels that hold or not, each by itself."""
    x = np.random.default_rng(seed).standard_normal((count, 16)).astype(np.float32)
    return x, (x[:, :6] * x[:, 6:12] + 0.3 * x[:, 10:16] > 0.5).astype(np.float32)


def sensors(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Features of a hundred thousandfold range: pressure, temperature, acceleration, a ratio; a number to predict."""
    z = np.random.default_rng(seed).standard_normal((count, 8))
    x = z * np.array([8e3, 12, 3, 0.05, 500, 1, 0.4, 0.01]) + np.array([1.0e5, 20, 0, 0.3, 800, 0, 1, 0])
    return x.astype(np.float32), (np.sin(z[:, :1]) + z[:, 1:2] * z[:, 3:4] + 0.5 * z[:, 7:8]).astype(np.float32)


def control(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A state of twelve numbers; three controls, mostly at their ends."""
    x = np.random.default_rng(seed).standard_normal((count, 12)).astype(np.float32)
    return x, np.tanh(3 * (x[:, :3] + x[:, 3:6] * x[:, 6:9])).astype(np.float32)


def _discs(count: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Images with one disc or ring on noise; its mask; centre, radius, and whether it is a ring."""
    rng = np.random.default_rng(seed)
    centre, radius = rng.uniform(6, _SIDE - 6, (count, 2)), rng.uniform(3, 6, count)
    rows, columns = np.mgrid[:_SIDE, :_SIDE]
    away = np.hypot(rows - centre[:, 0, None, None], columns - centre[:, 1, None, None])
    ring = rng.random(count) < 0.5
    mask = (away < radius[:, None, None]) & ~(ring[:, None, None] & (away < radius[:, None, None] - 2))
    colours = rng.uniform(0.4, 1, (count, 1, 1, 3))
    noise = rng.uniform(0, 0.4, (count, _SIDE, _SIDE, 3))
    images = np.where(mask[..., None], colours, noise)
    return images.astype(np.float32), mask[..., None].astype(np.float32), np.c_[centre, radius, ring]


def shapes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 24x24x3 from 0 to 1; one of four classes: disc or ring, small or large."""
    images, _, facts = _discs(count, seed)
    return images, (2 * facts[:, 3] + (facts[:, 2] > 4.5)).astype(np.int64)


def pixels(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of bytes; the same classes."""
    images, classes = shapes(count, seed)
    return np.round(255 * images).astype(np.float32), classes


def masks(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, and which pixels are the shape's."""
    images, mask, _ = _discs(count, seed)
    return images, mask


def segments(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images, and the class of each pixel: ground, disc, ring."""
    images, mask, facts = _discs(count, seed)
    return images, (mask[..., 0] * (1 + facts[:, 3, None, None])).astype(np.int64)


def boxes(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images; the box in pixels of a screen of 320, and the scores of two classes, in one tensor."""
    images, _, facts = _discs(count, seed)
    middle, radius = facts[:, :2], facts[:, 2:3]
    box = np.c_[middle - radius, middle + radius] * 320 / _SIDE
    return images, np.c_[box, 1 - facts[:, 3], facts[:, 3]].astype(np.float32)


def copies(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images; themselves."""
    images, _, _ = _discs(count, seed)
    return images, images


def halved(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of half the size; the whole ones."""
    images, _, _ = _discs(count, seed)
    return images[:, ::2, ::2], images


def movements(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Movements of 32 steps by 3; which of six each is."""
    x, y = gestures(count, seed)
    return x, y.astype(np.int64)


def waves(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of two waves with noise, 32 steps by 1; the next value."""
    rng = np.random.default_rng(seed)
    t = np.arange(_STEPS + 1) + rng.uniform(0, 60, (count, 1))
    clean = np.sin(0.3 * t) + 0.6 * np.sin(0.71 * t + rng.uniform(0, 6, (count, 1)))
    noisy = clean + 0.1 * rng.standard_normal(clean.shape)
    return noisy[:, :-1, None].astype(np.float32), clean[:, -1:].astype(np.float32)


def noisy(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Waves with much noise; the waves."""
    rng = np.random.default_rng(seed)
    t = np.arange(2 * _STEPS) + rng.uniform(0, 60, (count, 1))
    clean = np.sin(rng.uniform(0.1, 0.5, (count, 1)) * t)[..., None]
    return (clean + 0.4 * rng.standard_normal(clean.shape)).astype(np.float32), clean.astype(np.float32)


def tags(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Sequences of 32 numbers by 2; at each step, whether the sum so far exceeds that of what follows."""
    x = np.random.default_rng(seed).standard_normal((count, _STEPS, 2)).astype(np.float32)
    so_far = np.cumsum(x[..., :1], 1)
    return x, (so_far > so_far[:, -1:] - so_far).astype(np.float32)


def words(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Twenty ids below 64, 0 for padding at the end; whether good words outweigh bad ones."""
    rng = np.random.default_rng(seed)
    ids = rng.integers(1, 64, (count, 20))
    ids[np.arange(20) >= rng.integers(5, 21, (count, 1))] = 0
    weight = np.where(ids % 7 == 1, 1.0, np.where(ids % 5 == 2, -1.0, 0.0))
    return ids.astype(np.int32), (weight.sum(1, keepdims=True) > 0).astype(np.float32)


def _separable(of: Any, x: Any, filters: int, strides: int = 1, activation: str = "relu6") -> Any:
    x = of.Activation(activation)(
        of.BatchNormalization()(of.DepthwiseConv2D(3, strides, padding="same", use_bias=False)(x))
    )
    return of.Activation(activation)(of.BatchNormalization()(of.Conv2D(filters, 1, use_bias=False)(x)))


def _mlp(of: Any, x: Any, units: int, activation: str | None, inner: str = "relu") -> Any:
    return of.Dense(units, activation)(of.Dense(32, inner)(of.Dense(32, inner)(x)))


def _cnn(of: Any, x: Any) -> Any:
    for filters in (16, 32):
        x = of.ReLU()(of.BatchNormalization()(of.Conv2D(filters, 3, padding="same")(x)))
        x = of.MaxPooling2D()(x)
    return of.Dense(4, "softmax")(of.Dense(32, "relu")(of.Flatten()(x)))


def _mobile(of: Any, x: Any) -> Any:
    x = of.Conv2D(16, 3, 2, "same", activation="relu6")(x)
    skip = _separable(of, x, 32)
    x = of.Add()([skip, _separable(of, skip, 32)])
    return of.Dense(4)(of.GlobalAveragePooling2D()(_separable(of, x, 48, 2)))


def _gated(of: Any, x: Any) -> Any:
    x = of.Activation("hard_silu")(of.BatchNormalization()(of.Conv2D(24, 3, 2, "same")(x)))
    gate = of.Dense(24, "hard_sigmoid")(of.Dense(8, "relu")(of.GlobalAveragePooling2D(keepdims=True)(x)))
    x = _separable(of, of.Multiply()([x, gate]), 48, 2, "hard_silu")
    return of.Dense(4)(of.GlobalAveragePooling2D()(x))


def _swish(of: Any, x: Any) -> Any:
    x = of.Conv2D(24, 3, 2, "same", activation="silu")(of.Rescaling(1 / 127.5, -1)(x))
    return of.Dense(4)(of.GlobalAveragePooling2D()(_separable(of, x, 48, 2, "silu")))


def _u_net(of: Any, x: Any, filters: int, activation: str) -> Any:
    a = of.Conv2D(12, 3, padding="same", activation="relu")(x)
    b = of.Conv2D(24, 3, padding="same", activation="relu")(of.MaxPooling2D()(a))
    c = of.Conv2D(24, 3, padding="same", activation="relu")(of.MaxPooling2D()(b))
    b = of.Concatenate()([of.UpSampling2D(interpolation="bilinear")(c), b])
    b = of.Conv2D(24, 3, padding="same", activation="relu")(b)
    a = of.Concatenate()([of.Conv2DTranspose(12, 2, 2, activation="relu")(b), a])
    return of.Conv2D(filters, 1, activation=activation)(of.Conv2D(12, 3, padding="same", activation="relu")(a))


def _detector(of: Any, x: Any) -> Any:
    for filters in (16, 24, 32):
        x = of.Conv2D(filters, 3, 2, "same", activation="relu")(x)
    x = of.Dense(32, "relu")(of.Flatten()(x))
    return of.Concatenate()([of.Rescaling(320.0)(of.Dense(4, "sigmoid")(x)), of.Dense(2, "softmax")(x)])


def _autoencoder(of: Any, x: Any) -> Any:
    x = of.Conv2D(8, 3, 2, "same", activation="relu")(of.Conv2D(16, 3, 2, "same", activation="relu")(x))
    x = of.Conv2DTranspose(16, 3, 2, "same", activation="relu")(x)
    return of.Conv2DTranspose(3, 3, 2, "same", activation="sigmoid")(x)


def _larger(of: Any, x: Any) -> Any:
    large = of.UpSampling2D(interpolation="bilinear")(x)
    y = of.Conv2D(24, 3, padding="same", activation="relu")(x)
    y = of.UpSampling2D()(of.Conv2D(24, 3, padding="same", activation=of.PReLU(shared_axes=[1, 2]))(y))
    return of.Add()([large, of.Conv2D(3, 3, padding="same")(y)])


def _causal(of: Any, x: Any) -> Any:
    for dilation in (1, 2, 4, 8):
        y = of.Conv1D(24, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = of.Add()([of.Conv1D(24, 1)(x), y])
    return of.Conv1D(1, 1)(x)


def _attention(of: Any, x: Any) -> Any:
    x = of.Embedding(64, 24)(x)
    for _ in range(2):
        x = of.LayerNormalization()(of.Add()([x, of.MultiHeadAttention(2, 12)(x, x)]))
        x = of.LayerNormalization()(of.Add()([x, of.Dense(24)(of.Dense(48, "gelu")(x))]))
    return of.Dense(1, "sigmoid")(of.GlobalAveragePooling1D()(x))


def _keywords(of: Any, x: Any) -> Any:
    return of.Dense(6)(of.LSTM(32)(of.Conv1D(24, 5, padding="same", activation="relu")(x)))


def _stacked(of: Any, x: Any) -> Any:
    return of.LSTM(16)(of.LSTM(24, return_sequences=True)(x))


_CLASSES = "sparse_categorical_crossentropy"
MODELS: Mapping[str, TrainedModel] = {
    "rare_event": TrainedModel(rare_events, lambda of, x: _mlp(of, x, 1, "sigmoid"), "binary_crossentropy", epochs=30),
    "multi_label": TrainedModel(labels, lambda of, x: _mlp(of, x, 6, "sigmoid"), "binary_crossentropy", epochs=30),
    "sensors": TrainedModel(sensors, lambda of, x: _mlp(of, of.Normalization()(x), 1, None), "mse", epochs=30),
    "gelu_mlp": TrainedModel(sensors, lambda of, x: _mlp(of, of.Normalization()(x), 1, None, "gelu"), "mse", epochs=30),
    "controller": TrainedModel(control, lambda of, x: _mlp(of, x, 3, "tanh"), "mse", epochs=30),
    "cnn": TrainedModel(shapes, _cnn, _CLASSES),
    "mobile": TrainedModel(shapes, lambda of, x: of.Softmax()(_mobile(of, x)), _CLASSES),
    "gates": TrainedModel(shapes, lambda of, x: of.Softmax()(_gated(of, x)), _CLASSES),
    "swish_of_bytes": TrainedModel(pixels, lambda of, x: of.Softmax()(_swish(of, x)), _CLASSES),
    "u_net": TrainedModel(masks, lambda of, x: _u_net(of, x, 1, "sigmoid"), "binary_crossentropy", 1500, 8),
    "segments": TrainedModel(segments, lambda of, x: _u_net(of, x, 3, "softmax"), _CLASSES, 1500, 8),
    "detector": TrainedModel(boxes, _detector, "mae", epochs=20),
    "autoencoder": TrainedModel(copies, _autoencoder, "mse", 1500),
    "larger_images": TrainedModel(halved, _larger, "mse", 1500, 8),
    "denoiser": TrainedModel(noisy, _causal, "mse"),
    "lstm": TrainedModel(movements, lambda of, x: of.Dense(6, "softmax")(of.LSTM(32)(x)), _CLASSES, epochs=6),
    "gru": TrainedModel(movements, lambda of, x: of.Dense(6, "softmax")(of.GRU(32)(x)), _CLASSES, epochs=6),
    "simple_rnn": TrainedModel(waves, lambda of, x: of.Dense(1)(of.SimpleRNN(24)(x)), "mse", epochs=6),
    "stacked_lstm": TrainedModel(
        waves, lambda of, x: of.Dense(1)(of.LSTM(16)(of.LSTM(24, return_sequences=True)(x))), "mse"
    ),
    "tagger": TrainedModel(
        tags,
        lambda of, x: of.Dense(1, "sigmoid")(of.Bidirectional(of.LSTM(16, return_sequences=True))(x)),
        "binary_crossentropy",
        epochs=6,
    ),
    "keywords": TrainedModel(movements, lambda of, x: of.Softmax()(_keywords(of, x)), _CLASSES, epochs=6),
    "masked_text": TrainedModel(
        words,
        lambda of, x: of.Dense(1, "sigmoid")(of.LSTM(24)(of.Embedding(64, 16, mask_zero=True)(x))),
        "binary_crossentropy",
    ),
    "attention_text": TrainedModel(words, _attention, "binary_crossentropy"),
}
