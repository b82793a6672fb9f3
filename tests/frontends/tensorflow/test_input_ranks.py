"""Inputs of unknown rank that only one rank can satisfy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed

WEIGHTS = np.ones((3, 4), np.float32)
FILTERS = np.ones((3, 3, 3, 4), np.float32)


def product(x: Any) -> Any:
    return tf.raw_ops.MatMul(a=x, b=WEIGHTS)


def loaded(function: Callable[..., Any], dtype: Any = tf.float32) -> jfuse.Model:
    spec = tf.TensorSpec(None, dtype, name="x")
    return jfuse.load(tf.function(function, input_signature=[spec], autograph=False))


@pytest.mark.parametrize(
    ("function", "dtype", "rank"),
    [
        (product, tf.float32, 2),
        (lambda x: product(tf.nn.relu(tf.identity(x))), tf.float32, 2),
        (lambda x: tf.nn.conv2d(x, FILTERS, 1, "SAME"), tf.float32, 4),
        (lambda x: tf.nn.max_pool2d(tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]]), 2, 2, "VALID"), tf.float32, 4),
        (tf.range, tf.int32, 0),
        (lambda n: tf.random.stateless_normal([n, 3], [1, 2]), tf.int32, 0),
        (lambda n: tf.fill([n, n], 0.0), tf.int32, 0),
        (lambda x: tf.transpose(x, [0, 2, 1]), tf.float32, 3),
        (lambda x: tf.einsum("bij,jk->bik", x, WEIGHTS), tf.float32, 3),
        (lambda x: tf.expand_dims(x, 0) + tf.raw_ops.MatMul(a=x, b=np.eye(3, dtype=np.float32)), tf.float32, 2),
        (lambda x: tf.concat([x, WEIGHTS], 0), tf.float32, 2),
        (lambda k: tf.math.top_k(tf.constant([1.0, 3.0, 2.0]), k)[0], tf.int32, 0),
        (lambda x: tf.function(product)(x), tf.float32, 2),
        (lambda x: tf.while_loop(lambda x: tf.reduce_sum(product(x)) < 9, lambda x: x + 1, [x]), tf.float32, 2),
    ],
)
def test_the_rank_that_nodes_ask_for(function: Callable[..., Any], dtype: Any, rank: int) -> None:
    (signature,) = loaded(function, dtype).program.signatures
    assert signature.graph.inputs[0].type.rank == rank


def test_several_ranks() -> None:
    with pytest.raises(ImportFailed, match=r"has no known rank(.|\n)*take ranks 2, 4"):
        loaded(lambda x: (product(x), tf.nn.conv2d(x, FILTERS, 1, "SAME")))


@pytest.mark.parametrize(("function", "rank"), [(tf.nn.relu, 1), (lambda x: tf.linalg.band_part(x, 1, 0), 2)])
def test_the_least_rank_is_assumed_where_all_do(function: Callable[..., Any], rank: int) -> None:
    model = loaded(function)
    assert model.program.signatures[0].graph.inputs[0].type.rank == rank
    assert model.report.assumptions == [
        f"the input 'x', of unknown rank, has {rank}; jfuse.Inputs(shapes={{\"x\": (…)}}) states another"
    ]


def test_it_answers_like_tensorflow() -> None:
    lite = jfuse.convert(tf.function(product, input_signature=[tf.TensorSpec(None, name="x")]))
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(lite(x), product(x))
