"""Integers of targets that lack some: other spellings, or floats. The oracle is the float model on XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.passes.quantize.models import drawn, names_of

CALLS = [{"x": drawn(4, 16, seed=i)} for i in range(16)]


def _of(function: Callable[[Any], Any]) -> Any:
    return tf.function(
        lambda x: function(tf.matmul(x, drawn(16, 8, scale=0.3))),
        input_signature=[tf.TensorSpec([4, 16], tf.float32, name="x")],
    )


@pytest.mark.parametrize("approximate", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("recipe", ["int8", pytest.param("int16x8", marks=pytest.mark.slow)])
def test_gelu_for_microcontrollers_is_held_to_its_noise(approximate: bool, recipe: Any) -> None:
    gelu = _of(lambda x: tf.nn.gelu(x, approximate=approximate))
    lite = jfuse.convert(gelu, target="tflite-micro", quantize=recipe, calibration=CALLS)
    assert "gelu" not in names_of(lite.program)
    assert not [q for q in lite.report.quantized if q.form == "float"]
    assert min(n.snr_db for n in lite.report.noise) > 30
    assert lite.unquantized is not None
    assert "logistic" not in names_of(lite.unquantized.program)  # floats have a form of their own, right to 1e-5


@pytest.mark.parametrize(
    ("function", "name", "target"),
    [
        (lambda x: tf.math.log(tf.abs(x) + 1), "log", "litert>=2.14"),
        (lambda x: tf.exp(-tf.abs(x)), "exp", "litert>=2.5"),
        (lambda x: tf.sqrt(tf.abs(x) + 1), "sqrt", "litert>=2.14"),
    ],
)
def test_what_an_old_runtime_has_in_floats_alone_stays_float(function: Any, name: str, target: Any) -> None:
    old, new = (
        jfuse.convert(_of(function), target=t, quantize="int8", calibration=CALLS, verify=False)
        for t in (target, "litert")
    )
    assert [(q.op, q.form) for q in old.report.quantized if q.reason] == [(name, "float")]
    assert not [q for q in new.report.quantized if q.reason]


def test_what_is_computed_of_floats_for_floats_stays_float() -> None:
    """1 + exp(x), whose range leaves no steps for what is near 1."""
    lite = jfuse.convert(_of(tf.keras.activations.mish), target="tflite-micro", quantize="int8", calibration=CALLS)
    assert names_of(lite.program).count("quantize") == 2
    assert min(n.snr_db for n in lite.report.noise) > 25


SLOW = [
    ("prelu", lambda x: tf.nn.relu(x) - np.linspace(0, 0.3, 8, dtype=np.float32) * tf.nn.relu(-x)),
    ("hard_swish", lambda x: tf.keras.activations.hard_silu(3 * x)),
    ("abs", tf.abs),
    ("relu", lambda x: tf.nn.relu(tf.concat([x, x[:, ::-1]], -1))),
]


@pytest.mark.parametrize(("name", "function"), SLOW, ids=[name for name, _ in SLOW])
def test_processors_have_no_slow_kernels_of_bytes(name: str, function: Any) -> None:
    """XNNPACK lacks them; what they are spelled in is as near. Microcontrollers and small tensors keep them."""

    def made(count: int, target: Any = "litert") -> jfuse.Model:
        specs = [tf.TensorSpec([count, 16], tf.float32, name="x")]
        source = tf.function(lambda x: function(tf.matmul(x, drawn(16, 8, scale=0.3))), input_signature=specs)
        calls = [{"x": drawn(count, 16, seed=i)} for i in range(4)]
        return jfuse.convert(source, target=target, quantize="int8", calibration=calls)

    lite, micro = made(256), made(256, "tflite-micro")
    assert name not in names_of(lite.program)
    assert not [q for q in lite.report.quantized if q.form == "float"]
    assert name in names_of(micro.program)
    assert name in names_of(made(2).program)
    assert min(n.snr_db for n in lite.report.noise) > min(n.snr_db for n in micro.report.noise) - 1


@pytest.mark.parametrize("target", ["tflite-micro", "ethos-u55"])
def test_trained_ranges_for_microcontrollers_need_no_data(target: Any) -> None:
    """No microcontroller has FAKE_QUANT: in floats it is its arithmetic, in integers it is gone."""

    def net(x: Any) -> Any:
        weights = tf.constant(drawn(16, 8, scale=0.3))
        y = tf.matmul(tf.quantization.fake_quant_with_min_max_args(x, -3.0, 3.0), weights)
        return tf.quantization.fake_quant_with_min_max_args(y, -6.0, 6.0)

    source = tf.function(net, input_signature=[tf.TensorSpec([4, 16], tf.float32, name="x")])
    lite = jfuse.convert(source, target=target, quantize="micro")
    assert names_of(lite.program) == ["fully_connected"]
    assert min(n.snr_db for n in lite.report.noise) > 30
