"""Inputs whose rank nobody states: taken where TensorFlow agrees with one rank only, refused with the remedy else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse

UNKNOWN = tf.TensorSpec(None, tf.int32, name="n")
X = tf.TensorSpec([2, 7], tf.float32, name="x")


class Best(tf.Module):
    @tf.function(input_signature=[X, UNKNOWN])
    def __call__(self, x: Any, n: Any) -> Any:
        return tf.math.top_k(x, tf.identity(n)).values


def test_one_rank_agrees(tmp_path: Path) -> None:
    tf.saved_model.save(Best(), str(tmp_path / "best"))  # the op stands in a function that the signature calls
    model = jfuse.load(tmp_path / "best")
    rank = {v.name: v.type.rank for v in model.signature().graph.inputs}
    assert rank == {"x": 2, "n": 0}
    x = np.random.default_rng(0).normal(size=(2, 7)).astype(np.float32)
    for n in (1, 4):
        (found,) = model.run({"x": x, "n": np.array(n, np.int32)}).values()
        np.testing.assert_array_equal(found, Best()(x, n))


@pytest.mark.parametrize(
    ("function", "spec", "rank"),
    [
        (lambda n: tf.range(n), UNKNOWN, 0),
        (lambda n: tf.one_hot([1, 2], n), UNKNOWN, 0),
        (lambda n: tf.fill([n, 2], 1.0), UNKNOWN, 0),
        (lambda n: tf.raw_ops.MatMul(a=n, b=tf.ones([3, 2])), tf.TensorSpec(None, tf.float32, name="n"), 2),
    ],
)
def test_ranks_that_ops_ask_for(function: Any, spec: Any, rank: int) -> None:
    found = jfuse.load(tf.function(function, input_signature=[spec]).get_concrete_function())
    assert found.signature().graph.inputs[0].type.rank == rank


def test_several_ranks_agree() -> None:
    function = tf.function(lambda n: n + 1, input_signature=[UNKNOWN]).get_concrete_function()
    with pytest.raises(jfuse.JfuseError, match=r"'n' has no known rank\n.*0 or 1 or 2 or .*\n.*try +shapes=") as caught:
        jfuse.load(function)
    assert "6 dimensions" in str(caught.value)
    assert jfuse.load(function, shapes={"n": (3,)}).signature().graph.inputs[0].type.shape == (3,)
