"""What is left of shape arithmetic in files of functions with open sizes, as TensorFlow writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.running.interpreter import LiteRt

CONSTANT = np.arange(8, dtype=np.float32).reshape(1, 1, 8)
OPEN = (None, None, 8)


def flattened(x: Any) -> Any:
    """[b, …] as [b, -1]."""
    return tf.reshape(x, [tf.shape(x)[0], -1])


def all_steps(x: Any) -> Any:
    """The steps of all rows in one axis, by the product of two sizes."""
    return tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1], 8])


def by_product(x: Any) -> Any:
    """As Keras's Dense flattens."""
    return tf.reshape(x, [tf.reduce_prod(tf.shape(x)[:2]), 8])


def round_trip(x: Any) -> Any:
    """Flattened for a product and brought back."""
    flat = tf.matmul(tf.reshape(x, [-1, 8]), np.eye(8, dtype=np.float32))
    return tf.reshape(flat, [tf.shape(x)[0], tf.shape(x)[1], 8])


def with_zeros(x: Any) -> Any:
    """An initial state of zeros, added."""
    return x + tf.zeros([tf.shape(x)[0], 1, 8])


def with_tiles(x: Any) -> Any:
    """A constant repeated for each row, added."""
    return x + tf.tile(tf.constant(CONSTANT), [tf.shape(x)[0], tf.shape(x)[1], 1])


def with_broadcast(x: Any) -> Any:
    """A constant broadcast to the shape, added."""
    return x + tf.broadcast_to(tf.constant(CONSTANT), tf.shape(x))


def with_zeros_behind(x: Any) -> Any:
    """A step of zeros behind the others."""
    return tf.concat([x, tf.zeros([tf.shape(x)[0], 1, 8])], axis=1)


def with_ones_in_front(x: Any) -> Any:
    """Two steps of ones before the others, which are there twice."""
    return tf.concat([tf.ones([tf.shape(x)[0], 2, 8]), x, x], axis=1)


def heads(x: Any) -> Any:
    """The features of each step as two heads."""
    return tf.reshape(x, [tf.shape(x)[0], tf.shape(x)[1], 2, 4])


def heads_in_front(x: Any) -> Any:
    """Attention's transpose, and back."""
    swapped = tf.transpose(heads(x), [0, 2, 1, 3])
    return tf.reshape(tf.transpose(swapped, [0, 2, 1, 3]), tf.shape(x))


def shifted(x: Any) -> Any:
    """Differences of neighbouring steps, by slices up to a size."""
    return x[:, 1:] - x[:, : tf.shape(x)[1] - 1]


def count(x: Any) -> Any:
    """The number of dimensions, which is a constant."""
    return x * tf.cast(tf.rank(x), tf.float32)


def cut_short(x: Any, n: Any) -> Any:
    """The first n steps."""
    return x[:, :n]


def rows_by_data(x: Any, n: Any) -> Any:
    """Steps in n parts."""
    return tf.reshape(x, [n, -1, 8])


def numbered(x: Any, n: Any) -> Any:
    """As many numbers as data says."""
    return tf.range(n) + tf.cast(x[0, 0, 0], tf.int32)


def zeros_by_data(x: Any, n: Any) -> Any:
    """As many rows as data says."""
    return tf.zeros([n, 8]) + x[0, 0]


@pytest.mark.parametrize(
    ("function", "operators"),
    [
        (flattened, {"shape": 1, "strided_slice": 1, "concatenation": 1, "reshape": 1}),  # to two open sizes
        (all_steps, {"reshape": 1}),
        (by_product, {"reshape": 1}),
        (with_zeros, {"strided_slice": 1}),  # a copy: the result is the input
        (with_tiles, {"add": 1}),
        (with_broadcast, {"add": 1}),
        (with_zeros_behind, {"pad": 1}),
        (with_ones_in_front, {"concatenation": 1, "padv2": 1}),
        (shifted, {"strided_slice": 2, "sub": 1}),
        (count, {"mul": 1}),
        (heads, {"shape": 1, "strided_slice": 1, "concatenation": 1, "reshape": 1}),
        (cut_short, {"pack": 1, "strided_slice": 1}),
        (rows_by_data, {"pack": 1, "reshape": 1}),
        (numbered, None),
        (zeros_by_data, None),
        (round_trip, None),
        (heads_in_front, None),
    ],
    ids=lambda f: getattr(f, "__name__", ""),
)
def test_the_file_has_no_shape_arithmetic_that_it_does_not_need(
    function: Callable[..., Any], operators: Mapping[str, int] | None
) -> None:
    specs = [tf.TensorSpec(OPEN, tf.float32, name="x"), tf.TensorSpec((), tf.int32, name="n")]
    source = tf.function(function, input_signature=specs[: function.__code__.co_argcount], autograph=False)
    lite = jfuse.convert(source, verify=False)  # which would draw n
    if operators is not None:
        assert dict(lite.report.operators) == operators
    names = lite.signature()
    runtime = LiteRt(lite.to_bytes())
    for shape in ((2, 4, 8), (1, 2, 8), (3, 6, 8)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        inputs = dict(zip(names.input_names, [x, np.asarray(2, np.int32)], strict=False))
        wanted = source(*inputs.values()).numpy()
        (found,) = runtime.run(names.key, inputs).values()
        np.testing.assert_array_equal(found, wanted)
        np.testing.assert_array_equal(lite(*inputs.values()), wanted)
