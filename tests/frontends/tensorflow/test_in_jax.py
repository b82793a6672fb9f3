"""TensorFlow's factors of matrices, which functions of jax compute: LiteRT against TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.running.interpreter import LiteRt


def eigenvalues(x: Any) -> Any:
    values, vectors = tf.linalg.eigh(x[:, :3] + tf.transpose(x[:, :3], (0, 2, 1)))
    return values, tf.matmul(vectors * tf.sin(values)[:, None], vectors, transpose_b=True)


def singular_values(x: Any) -> Any:
    values, left, right = tf.linalg.svd(x)
    return values, tf.matmul(left * tf.sin(values)[:, None], right, transpose_b=True)


def ctc_losses(x: Any) -> Any:
    """Losses of sparse labels: two that are the same, one, and fewer steps than the others have."""
    labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1, 1, 0], [2, 2])
    return tf.nn.ctc_loss(labels, tf.ensure_shape(x, (4, 2, 3)), None, [4, 3], blank_index=2)


ROWS: dict[str, Callable[[Any], Any]] = {
    "qr": lambda x: tuple(tf.linalg.qr(x)),
    "qr in full": lambda x: tuple(tf.linalg.qr(x, full_matrices=True)),
    "eigh": eigenvalues,
    "eigvalsh": lambda x: tf.linalg.eigvalsh(x[:, :3] + tf.transpose(x[:, :3], (0, 2, 1))),
    "svd": singular_values,
    "singular values alone": lambda x: tf.linalg.svd(x, compute_uv=False),
    "ctc": lambda x: ctc_losses(tf.transpose(x, (1, 0, 2))),
    "lu": lambda x: tuple(tf.linalg.lu(x[:, :3])),
}


@pytest.mark.parametrize("name", [n if n == "qr" else pytest.param(n, marks=pytest.mark.slow) for n in ROWS])
def test_litert_answers_as_tensorflow(name: str) -> None:
    function = tf.function(ROWS[name], input_signature=[tf.TensorSpec([None, 4, 3], name="x")], autograph=False)
    lite = jfuse.lower(jfuse.load(function))
    x = np.random.default_rng(1).normal(size=(2, 4, 3)).astype(np.float32)
    found = LiteRt(lite.to_bytes(), delegates=True).run(lite.signature().key, {"x": x})
    wanted = tf.nest.flatten(function(x))
    assert len(found) == len(wanted)
    for output, value in zip(lite.signature().output_names, wanted, strict=True):
        np.testing.assert_allclose(found[output], value, rtol=2e-5, atol=2e-5)
