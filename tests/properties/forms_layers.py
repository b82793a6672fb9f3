"""Forms of layers: products, convolutions, pooling, norms, activations, and bodies of branches and loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tests.properties.choose import Chooser
from tests.properties.forms import PRODUCT, SPECIAL, SUM, Form
from tests.properties.values import Step, Unfit, Value


def _last(c: Chooser, x: int) -> int:
    size = c.pool[x].shape[-1]
    if not size:
        raise Unfit("open channels, or none")
    return size


def dense(c: Chooser) -> Step:
    """A product with weights, either way round, on any rank."""
    x = c.floats(1)
    weights = c.constant((_last(c, x), c.integer(1, 5)), c.pool[x].dtype)
    if c.pool[x].rank == 2 and c.flag():
        return Step(
            "matmul_transposed",
            lambda x, weights: tf.matmul(x, weights, transpose_b=True),
            (x,),
            {"weights": weights.T.copy()},
            PRODUCT,
        )
    return Step("dense", lambda x, weights: tf.tensordot(x, weights, 1), (x,), {"weights": weights}, PRODUCT)


def matmul(c: Chooser) -> Step:
    """A product of two values."""
    x = c.floats(2)
    transpose_a, transpose_b = c.flag(), c.flag()

    def fits(v: Value) -> bool:
        if not (v.is_float and v.rank >= 2 and v.dtype == c.pool[x].dtype):
            return False
        pairs = zip(c.pool[x].arrays, v.arrays, strict=True)
        return all(a.shape[-2 if transpose_a else -1] == b.shape[-1 if transpose_b else -2] for a, b in pairs)

    y = c.value(fits)
    return Step("matmul", tf.matmul, (x, y), {"transpose_a": transpose_a, "transpose_b": transpose_b}, PRODUCT)


def einsum(c: Chooser) -> Step:
    """Equations of one value or two, or with weights."""
    equation = c.one_of("ab->ba", "abc->ac", "abc,abc->ab", "abc,adc->abd", "abc,acd->abd", "abcd->acbd", "ab,ab->a")
    ranks = [len(t) for t in equation.split("->")[0].split(",")]
    operands = tuple(c.value(lambda v, r=r: v.is_float and v.rank == r) for r in ranks)  # type: ignore[misc]
    return Step("einsum", lambda *xs, equation: tf.einsum(equation, *xs), operands, {"equation": equation}, PRODUCT)


def einsum_weights(c: Chooser) -> Step:
    """Equations with weights, those of attention among them."""
    equation, rank = c.one_of(("abc,cd->abd", 3), ("abc,cde->abde", 3), ("abcd,cde->abe", 4), ("ab,bc->ca", 2))
    x = c.floats(rank, rank)
    left, right = equation.split("->")[0].split(",")
    sizes = dict(zip(left, c.pool[x].shape, strict=True))
    shape = [sizes.get(letter, 3) for letter in right]
    if None in shape:
        raise Unfit("an open size")
    weights = c.constant([int(d or 0) for d in shape], c.pool[x].dtype)
    options = {"equation": equation, "weights": weights}
    return Step("einsum_weights", lambda x, equation, weights: tf.einsum(equation, x, weights), (x,), options, PRODUCT)


def _is_image(v: Value) -> bool:
    return v.dtype == np.float32 and v.rank == 4


def _strides(c: Chooser) -> tuple[Any, Any]:
    """Strides and dilations, of which one is 1."""
    if c.flag():
        return [c.integer(1, 2), c.integer(1, 2)], [1, 1]
    return [1, 1], [c.integer(1, 2), c.integer(1, 2)]


def _padding(c: Chooser) -> Any:
    if c.integer(0, 4):
        return c.one_of("SAME", "VALID")
    return [[0, 0], *([c.integer(0, 2), c.integer(0, 2)] for _ in range(2)), [0, 0]]


def conv_2d(c: Chooser) -> Step:
    """Convolutions, grouped ones among them."""
    x = c.value(_is_image)
    strides, dilations = _strides(c)
    filters = c.constant((c.integer(1, 3), c.integer(1, 3), _last(c, x), c.integer(1, 4)))
    options = {"filters": filters, "strides": strides, "padding": _padding(c), "dilations": dilations}
    return Step("conv2d", tf.nn.conv2d, (x,), options, PRODUCT)


def depthwise(c: Chooser) -> Step:
    """Depthwise convolutions with a multiplier."""
    x = c.value(_is_image)
    strides, dilations = _strides(c)
    filters = c.constant((c.integer(1, 3), c.integer(1, 3), _last(c, x), c.integer(1, 2)))
    strides = [1, strides[0], strides[0], 1]
    options = {"filter": filters, "strides": strides, "padding": _padding(c), "dilations": dilations}
    return Step("depthwise_conv2d", tf.nn.depthwise_conv2d, (x,), options, PRODUCT)


def conv_1d(c: Chooser) -> Step:
    """Convolutions over sequences, causal ones among them."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank == 3)
    filters = c.constant((c.integer(1, 3), _last(c, x), c.integer(1, 4)))
    stride, dilation = c.one_of((1, 1), (2, 1), (1, 2), (1, 3))
    padding = c.one_of("SAME", "VALID", "CAUSAL")
    options = {"filters": filters, "stride": stride, "dilation": dilation, "padding": padding}
    return Step("conv1d", _conv_1d, (x,), options, PRODUCT)


def _conv_1d(x: Any, filters: np.ndarray, stride: int, dilation: int, padding: str) -> Any:
    if padding == "CAUSAL":
        x = tf.pad(x, [[0, 0], [(filters.shape[0] - 1) * dilation, 0], [0, 0]])
        padding = "VALID"
    return tf.nn.conv1d(x, filters, stride, padding, dilations=dilation)


def conv_transposed(c: Chooser) -> Step:
    """Transposed convolutions whose result's sizes follow from the operand's."""
    x = c.value(_is_image)
    filters = c.constant((c.integer(1, 3), c.integer(1, 3), c.integer(1, 3), _last(c, x)))
    options = {"filters": filters, "stride": c.integer(1, 2), "padding": c.one_of("SAME", "VALID")}
    return Step("conv2d_transpose", _conv_transposed, (x,), options, PRODUCT)


def _conv_transposed(x: Any, filters: np.ndarray, stride: int, padding: str) -> Any:
    shape = tf.shape(x)
    sizes = [
        shape[i + 1] * stride if padding == "SAME" else shape[i + 1] * stride + max(filters.shape[i] - stride, 0)
        for i in range(2)
    ]
    return tf.nn.conv2d_transpose(x, filters, tf.stack([shape[0], *sizes, filters.shape[2]]), stride, padding=padding)


def pool(c: Chooser) -> Step:
    """Pooling of images and sequences."""
    x = c.value(lambda v: v.dtype == np.float32 and v.rank in (3, 4))
    kind = c.one_of("MAX", "AVG")
    rank = c.pool[x].rank - 2
    options = {
        "window_shape": [c.integer(1, 3) for _ in range(rank)],
        "pooling_type": kind,
        "strides": [c.integer(1, 2) for _ in range(rank)],
        "padding": c.one_of("SAME", "VALID"),
    }
    return Step("pool", tf.nn.pool, (x,), options, 0 if kind == "MAX" else SUM)


def resize(c: Chooser) -> Step:
    """Images of another size."""
    x = c.value(_is_image)
    size = [c.integer(1, 7), c.integer(1, 7)]
    method = c.one_of("bilinear", "nearest")
    return Step("resize", tf.image.resize, (x,), {"size": size, "method": method}, SUM)


def bias(c: Chooser) -> Step:
    """A vector added to, or multiplied with, the last axis."""
    x = c.floats(1)
    vector = c.constant((_last(c, x),), c.pool[x].dtype)
    call = c.one_of(tf.nn.bias_add, tf.add, tf.multiply, tf.subtract)
    return Step(f"{call.__name__}_vector", lambda x, vector: call(x, vector), (x,), {"vector": vector}, 2)


def batch_norm(c: Chooser) -> Step:
    """Inference of a batch norm, fused or written out."""
    fused = c.flag()
    x = c.value(_is_image) if fused else c.value(lambda v: v.dtype == np.float32 and v.rank >= 2)
    scale, offset, mean, variance = (c.constant((_last(c, x),)) for _ in range(4))
    options = {"scale": scale, "offset": offset, "mean": mean, "variance": np.abs(variance) + 0.5}
    return Step("fused_batch_norm" if fused else "batch_norm", _fused if fused else _norm, (x,), options, SPECIAL)


def _norm(x: Any, **parts: np.ndarray) -> Any:
    return tf.nn.batch_normalization(x, variance_epsilon=1e-3, **parts)


def _fused(x: Any, scale: np.ndarray, offset: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Any:
    return tf.compat.v1.nn.fused_batch_norm(x, scale, offset, mean, variance, epsilon=1e-3, is_training=False)[0]


_ACTIVATIONS: dict[str, tuple[Callable[[Any], Any], float]] = {
    "relu": (tf.nn.relu, 0),
    "relu6": (tf.nn.relu6, 0),
    "clip_1": (lambda x: tf.clip_by_value(x, -1.0, 1.0), 0),
    "tanh": (tf.tanh, SPECIAL),
    "sigmoid": (tf.sigmoid, SPECIAL),
    "leaky_relu": (tf.nn.leaky_relu, 2),
    "hard_swish": (lambda x: x * tf.nn.relu6(x + 3.0) * (1 / 6), SPECIAL),
    "hard_sigmoid": (lambda x: tf.nn.relu6(x + 3.0) / 6.0, SPECIAL),
    "gelu": (tf.nn.gelu, SPECIAL),
    "prelu": (lambda x: tf.nn.relu(x) - 0.25 * tf.nn.relu(-x), SPECIAL),
    "maximum_leaky": (lambda x: tf.maximum(x, 0.2 * x), 2),
}


def activation(c: Chooser) -> Step:
    """Activations that may be merged into what stands before them."""
    name = c.one_of(*_ACTIVATIONS)
    call, rounding = _ACTIVATIONS[name]
    return Step(name, call, (c.value(lambda v: v.dtype == np.float32),), {}, rounding)


FORMS: tuple[Form, ...] = (
    dense,
    dense,
    matmul,
    einsum,
    einsum_weights,
    conv_2d,
    depthwise,
    conv_1d,
    conv_transposed,
    pool,
    resize,
    bias,
    batch_norm,
    activation,
)
MERGED: tuple[Form, ...] = (
    dense,
    conv_2d,
    conv_2d,
    depthwise,
    conv_1d,
    conv_transposed,
    pool,
    bias,
    bias,
    bias,
    batch_norm,
    batch_norm,
    activation,
    activation,
    activation,
)
"""What the rules in lowering/merge look for."""
