"""TensorFlow as the reference: a failure of its kernels is told from one of the model."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np, tensorflow as tf, jfuse
from jfuse.verification.runners.in_tensorflow import uses_onednn

def tried(convert, function, *shape):
    spec = tf.TensorSpec(shape, tf.float32, name="x")
    try:
        convert(tf.function(function, input_signature=[spec], autograph=False))
        print("right")
    except jfuse.JfuseError as error:
        print(type(error).__name__, *str(error).split())

print(uses_onednn())
tried(jfuse.convert, lambda x: tf.nn.softmax(x * 2.0), 1, 2, 1, 2, 1, 2)
weights = np.ones((3, 3, 3, 4), np.float32)
convolved = lambda x: tf.nn.conv2d(x, weights, 1, "SAME")
tried(lambda f: jfuse.verify(jfuse.load(f), edges="none", empty=True), convolved, None, 7, 6, 3)
tried(jfuse.convert, lambda x: tf.gather(weights, tf.cast(x, tf.int32) + 100) * 2.0, 3)
"""


def lines(onednn: str) -> list[str]:
    environment = {**os.environ, "TF_ENABLE_ONEDNN_OPTS": onednn}
    command = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.slow
def test_onednn_is_named_where_its_kernels_fail() -> None:
    on, softmax, convolution, model = lines("1")
    if on != "True":
        pytest.skip("this TensorFlow has no oneDNN")
    assert softmax.startswith("KernelFailed a oneDNN kernel of TensorFlow fails, not the model,")
    assert "at Softmax" in softmax
    assert "Input dims must be <= 5" in softmax
    assert convolution.startswith("KernelFailed a kernel of TensorFlow gives 'output_0'")
    assert "another shape" in convolution
    assert all("TF_ENABLE_ONEDNN_OPTS=0" in line for line in (softmax, convolution))
    assert model == "right" or model.startswith("VerifyFailed TensorFlow fails on the inputs")


@pytest.mark.slow
def test_without_it_they_do_not_fail() -> None:
    on, softmax, convolution, model = lines("0")
    assert (on, softmax) == ("False", "right")
    assert "TF_ENABLE_ONEDNN_OPTS" not in convolution  # XNNPACK gives another shape, too, after calls with rows
    assert model.startswith("VerifyFailed TensorFlow fails on the inputs of signature")
