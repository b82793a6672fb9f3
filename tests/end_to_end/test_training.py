"""A signature that trains: the gradients of TensorFlow's tape, and weights that change from call to call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import jfuse


class Digits(tf.Module):
    """A convolution, a pool and a dense layer, trained by plain descent."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        shapes = ((3, 3, 1, 4), (4,), (36, 3))
        drawn = (tf.Variable(np.asarray(0.3 * generator.normal(size=shape), np.float32)) for shape in shapes)
        self.filters, self.bias, self.dense = drawn

    def losses(self, x: Any, y: Any) -> Any:
        seen = tf.nn.max_pool2d(
            tf.nn.elu(tf.nn.bias_add(tf.nn.conv2d(x, self.filters, 1, "SAME"), self.bias)), 2, 2, "SAME"
        )
        logits = tf.reshape(seen, [-1, 36]) @ self.dense
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits))

    @tf.function(input_signature=[tf.TensorSpec([8, 6, 6, 1], name="x"), tf.TensorSpec([8], tf.int32, name="y")])
    def train(self, x: Any, y: Any) -> Any:
        weights = [self.filters, self.bias, self.dense]
        with tf.GradientTape() as tape:
            loss = self.losses(x, y)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.1 * gradient)
        return {"loss": loss}


@pytest.mark.slow
def test_weights_learn_in_the_file_as_in_tensorflow() -> None:
    generator = np.random.default_rng(1)
    x, y = generator.normal(size=(8, 6, 6, 1)).astype(np.float32), np.arange(8, dtype=np.int32) % 3
    model = Digits()
    samples = {"x": x, "y": y}
    content = jfuse.convert(model.train.get_concrete_function(), verify=jfuse.Verify(inputs=[samples] * 3)).to_bytes()
    step = Interpreter(model_content=content).get_signature_runner()
    model = Digits()
    wanted = [float(model.train(x, y)["loss"]) for _ in range(20)]
    found = [float(step(x=x, y=y)["loss"]) for _ in range(20)]
    np.testing.assert_allclose(found, wanted, rtol=1e-4)
    assert wanted[-1] < 0.8 * wanted[0]
