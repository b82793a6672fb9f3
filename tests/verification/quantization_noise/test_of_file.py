"""The noise of a quantized file where there is little to compare."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import jfuse


@pytest.mark.parametrize(("divisor", "snr_db"), [(0.0, -np.inf), (1.0, np.inf)])
def test_an_output_that_is_never_finite_tells_nothing(divisor: float, snr_db: float) -> None:
    """1 / 0 is no number that can be compared; 1 / 1 is, and equal."""

    @tf.function(input_signature=[tf.TensorSpec((4,), name="x")])
    def call(x: tf.Tensor) -> tf.Tensor:
        return (x * 0.0 + 1.0) / divisor

    samples = [np.ones(4, np.float32)] * 2
    found = jfuse.convert(call, quantize="int8", calibration=samples).report.noise
    assert {n.snr_db for n in found} == {snr_db}
