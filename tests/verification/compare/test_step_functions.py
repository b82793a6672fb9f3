"""Fake quantization: values halfway between two steps may go either way, and nothing else may."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.verification.compare.step_functions import step_functions

fake_quant = tf.quantization.fake_quant_with_min_max_vars
RNG = np.random.default_rng(0)
FIRST, SECOND = (RNG.standard_normal(s).astype(np.float32) * 0.3 for s in ((3, 3, 4, 8), (3, 3, 8, 6)))
ENDS = np.linspace(12, 16, 6).astype(np.float32)


def net(end: float = 16.0, gain: float = 1.0, each: bool = False) -> Any:
    """Two convolutions between fake quantizations, the last one for each channel or not."""

    @tf.function(input_signature=[tf.TensorSpec([1, 48, 48, 4], tf.float32, name="x")], autograph=False)
    def run(x: Any) -> Any:
        y = tf.nn.relu(tf.nn.conv2d(fake_quant(x, -4.0, 4.0), FIRST * gain, 1, "SAME"))
        z = tf.nn.conv2d(y, SECOND, 1, "SAME")
        if each:
            return tf.quantization.fake_quant_with_min_max_vars_per_channel(z, -ENDS, ENDS)
        return fake_quant(z, -end, end)

    return run


@pytest.mark.parametrize("each", [False, True], ids=["whole", "per channel"])
def test_networks_of_fake_quantization_pass(each: bool) -> None:
    source = net(each=each)
    assert jfuse.verify(jfuse.convert(source, verify=False).to_bytes(), source, edges="none").passed


@pytest.mark.parametrize(
    ("operand", "result", "is_right"),
    [
        (0.49999, 0.0, True),
        (0.49999, 1.0, True),  # halfway between two steps, but for a rounding
        (0.50001, 0.0, True),
        (0.4, 1.0, False),
        (0.49999, 2.0, False),
        (300.0, 127.0, True),
        (300.0, 126.0, False),
    ],
)
def test_a_result_is_that_of_the_operand_or_of_one_beside_it(operand: float, result: float, is_right: bool) -> None:
    """Steps of 1 from -128 to 127."""
    rounding = {"min": -128.0, "max": 127.0, "num_bits": 8}
    graph = trace_graph(lambda x: (ops.fake_quant(x, **rounding),), [TensorType((1,), DType.f32)])
    (steps,) = step_functions(graph)
    x, y = (np.array([number], np.float32) for number in (operand, result))
    assert steps.may_give(x, y, 1e-4) == is_right


@pytest.mark.parametrize(
    ("operand", "result", "is_right"),
    [
        (3.7, 3, True),
        (3.7, 4, False),
        (3.99999, 4, True),
        (-0.7, 0, True),
        (-0.7, 1, False),
        (-3.2, 253, True),  # no rule says which
        (-3.2, 0, True),
        (256.0, 0, True),
        (255.9, 255, True),
        (255.9, 0, False),
        (np.nan, 7, True),
    ],
)
def test_a_cast_gives_any_integer_beyond_its_type_alone(operand: float, result: int, is_right: bool) -> None:
    graph = trace_graph(lambda x: (ops.cast(x, out_data_type=DType.u8),), [TensorType((1,), DType.f32)])
    (steps,) = step_functions(graph)
    assert steps.may_give(np.array([operand], np.float32), np.array([result], np.uint8), 1e-4) == is_right


def pixels(gain: float = 255.0, shift: float = 0.0) -> Any:
    """Numbers about 0 as pixels: TensorFlow takes those below 0 for one integer or another, by their places."""
    spec = tf.TensorSpec([3, 21], tf.float32, name="x")
    return tf.function(lambda x: tf.cast(x * gain + shift, tf.uint8), input_signature=[spec], autograph=False)


def test_casts_beyond_their_type_pass_and_others_differ() -> None:
    model = jfuse.convert(pixels())
    beyond = "a CAST of floats beyond its integer type gives any integer, so these were not compared"
    assert any(beyond in note for note in model.report.notes)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(model.to_bytes(), pixels(shift=2.0), jfuse.Verify(shrink=0))


def test_floats_that_are_cast_to_unsigned_are_drawn_above_0() -> None:
    spec = tf.TensorSpec([3, 21], tf.float32, name="x")
    model = jfuse.convert(tf.function(lambda x: tf.cast(x, tf.uint8), input_signature=[spec], autograph=False))
    assert not any("CAST" in note for note in model.report.notes)


@pytest.mark.parametrize("fault", [{"end": 16.5}, {"gain": 1.01}], ids=str)
def test_other_steps_and_weights_differ(fault: dict[str, Any]) -> None:
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(jfuse.convert(net(**fault), verify=False).to_bytes(), net(), jfuse.Verify(shrink=0), edges="none")
