"""Files of the official converter: small functions in every way of quantizing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import tensorflow as tf

from tests.corpus.file import File

FLOAT, DYNAMIC, F16, INT8, INT8_IO, UINT8_IO, INT16 = (
    "float",
    "dynamic",
    "f16",
    "int8",
    "int8_io",
    "uint8_io",
    "int16x8",
)
"""How a file is quantized: not; the weights, to integers or halves; all, with inputs of floats or of integers."""

_INTEGER = (INT8_IO, INT16)
_HOSTED = (DYNAMIC, INT8, INT8_IO, UINT8_IO, INT16)
_WEIGHTED = (FLOAT, DYNAMIC, F16, INT8, INT8_IO, UINT8_IO, INT16)


@dataclass(frozen=True)
class Function:
    """A function of f32 tensors of these shapes, whose first size may be None, and the ways to quantize it.

    moves: it only moves elements, so that nothing is computed on integers but, with 16 bits, the ones at both ends.
    """

    name: str
    call: Callable[..., Any]
    shapes: tuple[tuple[int | None, ...], ...]
    modes: Sequence[str] = _INTEGER
    moves: bool = False

    def files(self) -> Iterator[File]:
        """A file for each mode."""
        for mode in self.modes:
            yield File(
                f"{self.name}-{mode}",
                partial(self.convert, mode),
                hosted=mode in _HOSTED and not (self.moves and mode != INT16),
            )

    def convert(self, mode: str) -> bytes:
        """The official converter's file."""
        specs = [tf.TensorSpec(shape, tf.float32, name=f"x{i}") for i, shape in enumerate(self.shapes)]
        concrete = tf.function(self.call, input_signature=specs, autograph=False).get_concrete_function()
        converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
        if mode != FLOAT:
            converter.optimizations = [tf.lite.Optimize.DEFAULT]
        if mode == F16:
            converter.target_spec.supported_types = [tf.float16]
        if mode in (INT8, INT8_IO, UINT8_IO, INT16):
            converter.representative_dataset = self._samples
            sets = tf.lite.OpsSet
            activations = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
            converter.target_spec.supported_ops = [activations if mode == INT16 else sets.TFLITE_BUILTINS_INT8]
        if mode in (INT8_IO, UINT8_IO):
            converter.inference_input_type = tf.int8 if mode == INT8_IO else tf.uint8
            converter.inference_output_type = converter.inference_input_type
        return bytes(converter.convert())

    def _samples(self) -> Iterator[list[np.ndarray]]:
        rng = np.random.default_rng(0)
        for _ in range(3):
            yield [rng.uniform(-1, 1, [d or 2 for d in s]).astype(np.float32) for s in self.shapes]


@cache
def weights(*shape: int) -> np.ndarray:
    """Weights of between -1 and 1, the same for the same shape."""
    return np.random.default_rng(shape).uniform(-1, 1, shape).astype(np.float32)


def _conv(x: Any, **options: Any) -> Any:
    return tf.nn.conv2d(x, weights(3, 3, 8, 16), **{"strides": 1, "padding": "SAME", **options})


def _convolutions() -> Iterator[Function]:
    image = ((1, 6, 6, 8),)
    yield Function("conv_2d", lambda x: tf.nn.relu(_conv(x) + weights(16)), image, _WEIGHTED)
    yield Function("conv_2d_open_batch", lambda x: _conv(x) + weights(16), ((None, 6, 6, 8),), (DYNAMIC, INT8, INT16))
    yield Function("conv_2d_valid_stride", lambda x: _conv(x, strides=2, padding="VALID"), image)
    yield Function("conv_2d_dilated", lambda x: tf.nn.relu6(_conv(x, dilations=2)), image)
    yield Function(
        "depthwise_conv_2d",
        lambda x: tf.nn.depthwise_conv2d(x, weights(3, 3, 8, 16), [1, 1, 1, 1], "SAME") + weights(128),
        image,
        _WEIGHTED,
    )
    yield Function(
        "transpose_conv",
        lambda x: tf.nn.conv2d_transpose(x, weights(3, 3, 16, 8), [1, 12, 12, 16], 2, "SAME"),
        image,
        (FLOAT, DYNAMIC, INT8_IO, INT16),
    )


def _products() -> Iterator[Function]:
    rows = ((2, 32),)
    dense = weights(32, 40)
    yield Function("dense", lambda x: tf.nn.relu(x @ dense + weights(40)), rows, _WEIGHTED)
    yield Function("dense_open_batch", lambda x: x @ dense + weights(40), ((None, 32),), _WEIGHTED)
    yield Function("dense_no_bias", lambda x: x @ dense, rows)
    yield Function("dense_rank_3", lambda x: tf.tensordot(x, dense, 1), ((2, 3, 32),), (DYNAMIC, INT8_IO, INT16))
    yield Function("two_layers", lambda x: tf.nn.tanh(tf.nn.relu(x @ dense) @ weights(40, 32)), rows, _WEIGHTED)
    yield Function("batch_matmul", lambda x, y: x @ y, ((2, 3, 8), (2, 8, 5)))


def _elementwise() -> Iterator[Function]:
    pair = ((2, 3, 4), (2, 3, 4))
    broadcast = ((2, 3, 4), (4,))
    for name, call in {
        "add": tf.add, "sub": tf.subtract, "mul": tf.multiply, "maximum": tf.maximum, "minimum": tf.minimum,
    }.items():  # fmt: skip
        yield Function(name, call, pair)
        yield Function(f"{name}_broadcast", call, broadcast, (INT8_IO,))
    yield Function("add_relu", lambda x, y: tf.nn.relu(x + y), pair)
    yield Function("squared_difference", tf.math.squared_difference, pair, (INT8_IO,))
    yield Function("div", lambda x, y: x / (y + 3), pair, (INT8,))
    yield Function("less", tf.less, pair, (INT8,))
    yield Function("equal", tf.equal, pair, (INT8,))
    one = ((2, 3, 8),)
    for name, unary in {
        "logistic": tf.sigmoid, "tanh": tf.tanh, "relu": tf.nn.relu, "relu6": tf.nn.relu6, "softmax": tf.nn.softmax,
        "log_softmax": tf.nn.log_softmax, "leaky_relu": tf.nn.leaky_relu, "elu": tf.nn.elu, "abs": tf.abs,
        "neg": tf.negative, "hard_swish": lambda x: x * tf.nn.relu6(x + 3) / 6, "gelu": tf.nn.gelu, "exp": tf.exp,
        "square": tf.square,
    }.items():  # fmt: skip
        yield Function(name, unary, one, (INT8_IO, INT16) if name in _IN_16_BITS else (INT8_IO,))
    yield Function("rsqrt", lambda x: tf.math.rsqrt(x + 2), one, (INT8_IO,))
    yield Function("sqrt", lambda x: tf.sqrt(x + 2), one, (INT8_IO,))
    yield Function("prelu", lambda x: tf.nn.relu(x) - weights(8) * tf.nn.relu(-x), one, (INT8_IO,))
    yield Function("l2_normalize", lambda x: tf.math.l2_normalize(x, -1), ((2, 8),), (INT8_IO,))


_IN_16_BITS = frozenset({"logistic", "tanh", "relu", "relu6", "softmax", "leaky_relu", "abs"})


def _reductions() -> Iterator[Function]:
    image = ((1, 6, 6, 8),)
    yield Function("mean", lambda x: tf.reduce_mean(x, [1, 2]), image)
    yield Function("mean_keep", lambda x: tf.reduce_mean(x, 1, keepdims=True), image, (INT8_IO,))
    yield Function("sum", lambda x: tf.reduce_sum(x, -1), image)
    yield Function("reduce_max", lambda x: tf.reduce_max(x, 1), image)
    yield Function("reduce_min", lambda x: tf.reduce_min(x, 1), image, (INT8_IO,))
    yield Function("average_pool_2d", lambda x: tf.nn.avg_pool2d(x, 2, 2, "VALID"), image)
    yield Function("average_pool_2d_same", lambda x: tf.nn.avg_pool2d(x, 3, 2, "SAME"), image, (INT8_IO,))
    yield Function("max_pool_2d", lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"), image)
    yield Function("arg_max", lambda x: tf.argmax(x, -1, tf.int32), image, (INT8,))
    yield Function("top_k", lambda x: tf.math.top_k(x, 2), ((2, 9),), (INT8_IO,))
    yield Function("cumsum", lambda x: tf.cumsum(x, 1), ((2, 9),), (INT8,), moves=True)


def _moves() -> Iterator[Function]:
    image = ((1, 4, 6, 8),)
    yield Function("reshape", lambda x: tf.reshape(x, [4, 48]), image, moves=True)
    yield Function("transpose", lambda x: tf.transpose(x, [0, 3, 1, 2]), image, moves=True)
    yield Function("concatenation", lambda x, y: tf.concat([x, 2 * y], -1), ((2, 3), (2, 5)))
    yield Function("split", lambda x: tf.split(x, 2, -1), image, moves=True)
    yield Function("strided_slice", lambda x: x[:, 1:, ::2], image, moves=True)
    yield Function("slice", lambda x: tf.slice(x, [0, 1, 1, 0], [1, 2, 3, 8]), image, (INT8_IO,), moves=True)
    yield Function("pad", lambda x: tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]]), image)
    yield Function(
        "pad_value", lambda x: tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], constant_values=0.5), image, (INT8_IO,)
    )
    yield Function("mirror_pad", lambda x: tf.pad(x, [[0, 0], [1, 1], [2, 0], [0, 0]], "REFLECT"), image, (INT8_IO,))
    yield Function("gather", lambda x: tf.gather(x, [2, 0], axis=1), image, moves=True)
    yield Function("pack", lambda x, y: tf.stack([x, y], 1), ((2, 3), (2, 3)), moves=True)
    yield Function("unpack", lambda x: tf.unstack(x, axis=1), ((2, 3),), (INT8_IO,), moves=True)
    yield Function("tile", lambda x: tf.tile(x, [1, 2]), ((2, 3),), (INT8_IO,), moves=True)
    yield Function("space_to_depth", lambda x: tf.nn.space_to_depth(x, 2), image, (INT8_IO,), moves=True)
    yield Function("depth_to_space", lambda x: tf.nn.depth_to_space(x, 2), image, (INT8_IO,), moves=True)
    yield Function("resize_bilinear", lambda x: tf.image.resize(x, [7, 9]), image)
    yield Function("resize_nearest", lambda x: tf.image.resize(x, [7, 9], "nearest"), image)
    yield Function("expand_squeeze", lambda x: tf.squeeze(tf.expand_dims(x, 1) + x, 2), ((2, 1, 3),), (INT8_IO,))
    yield Function("where", lambda x, y: tf.where(x > y, x, y), ((2, 3), (2, 3)), (INT8_IO,))
    yield Function("reverse", lambda x: tf.reverse(x, [1]), ((2, 3),), (INT8_IO,), moves=True)


FUNCTIONS = (*_convolutions(), *_products(), *_elementwise(), *_reductions(), *_moves())
FILES = tuple(file for function in FUNCTIONS for file in function.files())
