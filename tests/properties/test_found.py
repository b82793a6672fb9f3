"""What random programs have found, in as few ops as show it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import check_invokes

_random = np.random.default_rng(0)
FILTERS = _random.standard_normal((2, 3, 4)).astype(np.float32)
TABLE = _random.standard_normal((12, 4)).astype(np.float32)
Row = tuple[Callable[..., Any], list[Any]]


def f32(*shape: int | None) -> Any:
    return tf.TensorSpec(shape, tf.float32)


def twice(body: Callable[[Any], Any], x: Any) -> Any:
    """A loop that is turned twice."""
    return tf.while_loop(lambda i, _: i < 2, lambda i, y: (i + 1, body(y)), (0, x))[1]


def layer_norm(x: Any, axis: int) -> Any:
    mean, variance = tf.nn.moments(x, [axis], keepdims=True)
    return (x - mean) * tf.math.rsqrt(variance + 0.1)


def softplus_of_norm(x: Any) -> Any:
    square = tf.math.squared_difference(x, x + 1.0)
    return tf.pow(square, square), tf.nn.softplus(tf.math.reduce_std(x, [], keepdims=True) + x)


def attention(q: Any, k: Any) -> Any:
    return tf.einsum("abc,adc->abd", q, k)


FOUND: dict[str, Row] = {
    # A shape of two open sizes, read from an operand that is a constant.
    "einsum_of_two_open_sizes": (lambda x: tf.einsum("abc,cde->abde", x, FILTERS), [f32(None, None, 2)]),
    # Sizes B + 3 and N + 2: no tensor has B itself.
    "einsum_of_padded_sizes": (
        lambda x: tf.einsum("abc,abc->ab", tf.pad(x, [[1, 2], [1, 1], [0, 0]]), tf.pad(x, [[1, 2], [1, 1], [0, 0]])),
        [f32(None, None, 4)],
    ),
    # Rows and columns of matrices were taken for axes that broadcast: N = 4.
    "matrices_of_open_sizes": (attention, [f32(None, None, 4), f32(None, None, 4)]),
    # Recovery asked for the row size of a loop's state.
    "loop_over_open_rows": (lambda x: twice(tf.nn.softmax, x), [f32(None, None)]),
    # min(12, N) rows beside N.
    "table_up_to_an_open_size": (lambda x: tf.constant(TABLE)[: tf.shape(x)[1]] + x, [f32(None, None, 4)]),
    # Slice is sure of its sizes, where STRIDED_SLICE cuts off.
    "slice_of_two_rows": (lambda x: tf.unstack(tf.slice(x, [0, 1], [2, 2])), [f32(None, 4)]),
    "slice_of_one_row": (lambda x: tf.gather_nd(tf.slice(x, [1, 0], [1, 2]), [[0], [0]]), [f32(None, 4)]),
    "slice_of_one_open_row": (lambda x: tf.nn.softmax(tf.slice(x, [1, 0], [1, -1])), [f32(None, None)]),
    "checked_shape": (lambda x: tf.unstack(tf.ensure_shape(tf.concat([x, x[:1]], 0)[:2], [2, 4])), [f32(None, 4)]),
    # Whether N - 1 is 1 or more is not known before run time.
    "extremes_of_all_but_one": (
        lambda x: (
            tf.nn.softmax(x[:, 1:]),
            tf.reduce_max(x[:, 1:], 1),
            tf.reduce_min(x[:, :-1]),
            tf.argmax(x[:, 1:], 1),
        ),
        [f32(None, None)],
    ),
    # A difference that stands before its square was bound twice.
    "layer_norm_over_the_batch": (lambda x: layer_norm(x, 0), [f32(None, 6)]),
    # Merges that looked for an activation where an op has none.
    "softplus_beside_a_square": (softplus_of_norm, [f32()]),
}


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    function, specs = FOUND[name]
    lite = jfuse.convert(tf.function(function, input_signature=specs, autograph=False), verify=False)
    if name.startswith("slice_of") or name in ("checked_shape", "extremes_of_all_but_one"):
        (signature,) = lite.program.signatures
        (input_name,) = signature.input_names
        check_invokes(lite, lambda seed: {input_name: np.random.default_rng(seed).standard_normal((3, 4), np.float32)})
    else:
        check_invokes(lite)


def test_constants_are_pooled_within_a_program() -> None:
    function = tf.function(
        lambda x: tf.nn.max_pool1d(tf.zeros([tf.shape(x)[0], 4, 2]), 2, 2, "VALID") + x,
        input_signature=[f32(None, 1, 2)],
        autograph=False,
    )
    x = _random.standard_normal((3, 1, 2)).astype(np.float32)
    assert np.array_equal(jfuse.convert(function, verify=False)(x), np.repeat(x, 2, axis=1))


def test_no_size_is_fixed_by_what_matrices_agree_on() -> None:
    function = tf.function(attention, input_signature=[f32(None, None, 4), f32(None, None, 4)], autograph=False)
    assert jfuse.load(function).report.assumptions == ["B1 = B"]
