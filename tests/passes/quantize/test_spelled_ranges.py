"""Ranges of training that the source spells by hand are those of FAKE_QUANT. The oracle is TensorFlow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.passes.quantize.ranges.spelled_ranges import has_trained_ranges
from jfuse.quantization.recipe import Recipe
from jfuse.running.interpreter import LiteRt
from tests.passes.quantize.models import drawn, names_of, snr_db

Unary = Callable[[Any], Any]
STEP, FINE = 3 / 127, 6 / 255
FIRST, SECOND = drawn(16, 24, scale=0.4), drawn(24, 5, scale=0.4)


def _passed(x: Any, q: Any) -> Any:
    """Whose gradient is that of x."""
    return x + tf.stop_gradient(q - x)


def _lsq(x: Any, step: float, low: float, high: float) -> Any:
    v = tf.clip_by_value(x / step, low, high)
    return _passed(v, tf.round(v)) * step


def _bits_of_qkeras(x: Any) -> Any:
    steps = x * 128 / 4
    rounded = steps + tf.stop_gradient(-steps + tf.round(steps))
    q = 4 * tf.clip_by_value(rounded / 128, -1.0, 127 / 128)
    return x + tf.stop_gradient(-x + q)


def _relu_of_qkeras(x: Any) -> Any:
    steps, cut = x * 256 / 8, tf.nn.relu(x)
    q = 8 * tf.clip_by_value((steps + tf.stop_gradient(-steps + tf.round(steps))) / 256, 0.0, 255 / 256)
    return cut + tf.stop_gradient(-cut + q)


def _with_zero_point(x: Any) -> Any:
    return (tf.clip_by_value(tf.round(x / FINE) + 128, 0.0, 255.0) - 128) * FINE


def _rounded_down(x: Any) -> Any:
    return tf.floor(tf.clip_by_value(x / STEP, -128.0, 127.0) + 0.5) * STEP


def _given(x: Any, low: float, high: float, op: str, **options: Any) -> Any:
    return getattr(tf.raw_ops, op)(input=x, input_min=low, input_max=high, range_given=True, **options)


SPELLINGS: dict[str, tuple[Unary, Unary]] = {
    "lsq": (lambda x: _lsq(x, STEP, -128, 127), lambda x: _lsq(tf.nn.relu(x), FINE, 0, 255)),
    "qkeras": (_bits_of_qkeras, _relu_of_qkeras),
    "zero point": (_with_zero_point, lambda x: _lsq(tf.nn.relu(x), FINE, 0, 255)),
    "floor": (_rounded_down, _rounded_down),
    "v2": (
        lambda x: _given(x, -3.0, 3.0, "QuantizeAndDequantizeV2"),
        lambda x: _given(tf.nn.relu(x), 0.0, 6.0, "QuantizeAndDequantizeV2", signed_input=False),
    ),
    "v3": (
        lambda x: _given(x, -3.0, 3.0, "QuantizeAndDequantizeV3", num_bits=8),
        lambda x: _given(x, -6.0, 6.0, "QuantizeAndDequantizeV3", num_bits=8),
    ),
    "v4": (
        lambda x: _given(x, -3.0, 3.0, "QuantizeAndDequantizeV4", narrow_range=True, round_mode="HALF_UP"),
        lambda x: _given(tf.nn.relu(x), 0.0, 6.0, "QuantizeAndDequantizeV4", signed_input=False),
    ),
}


def _network(first: Unary, second: Unary) -> Any:
    def network(x: Any) -> Any:
        return _lsq(tf.matmul(second(tf.matmul(first(x), FIRST)), SECOND), 0.1, -128, 127)

    return tf.function(network, input_signature=[tf.TensorSpec([4, 16], tf.float32, name="x")])


@pytest.mark.parametrize("name", ["lsq", *(pytest.param(n, marks=pytest.mark.slow) for n in SPELLINGS if n != "lsq")])
def test_a_spelled_range_needs_no_calibration(name: str) -> None:
    network = _network(*SPELLINGS[name])
    lite = jfuse.convert(network, quantize="int8", verify=False)
    assert names_of(lite.program) == ["quantize", "fully_connected", "fully_connected", "dequantize"]
    runner = LiteRt(lite.to_bytes())
    for seed in range(3):
        x = drawn(4, 16, seed=seed)
        (found,) = runner.run("serving_default", {"x": x}).values()
        assert snr_db(found, network(x).numpy()) > 25  # weights of the spelled network are no integers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["lsq", "v2"])
def test_without_integers_the_spelling_stays(name: str) -> None:
    lite = jfuse.convert(_network(*SPELLINGS[name]), quantize="dynamic")
    assert names_of(lite.program).count("round") == 3


@pytest.mark.parametrize(
    "other",
    [
        lambda x: tf.round(x * 10) / 10,  # no ends
        lambda x: tf.round(tf.clip_by_value(x * 10, -8, 8)) / 10,  # 17 numbers
        lambda x: tf.clip_by_value(tf.round(x * 10), -8.5, 7.5),  # an end between two numbers
    ],
)
def test_what_is_no_range_stays_as_it_is(other: Unary) -> None:
    function = tf.function(other, input_signature=[tf.TensorSpec([4, 16], tf.float32)])
    program = jfuse.convert(function, verify=False).program
    assert not any(map(has_trained_ranges, program.graphs()))
    assert "round" in names_of(program)


def _rounded(x: Any, low: float, high: float) -> Any:
    return tf.quantization.fake_quant_with_min_max_args(x, low, high)


@pytest.mark.parametrize("last", [lambda y: _rounded(y, -20.0, 20.0), tf.nn.softmax])
def test_sixteen_bits_are_no_worse_than_the_eight_that_were_trained(last: Unary) -> None:
    def network(x: Any) -> Any:
        h = _rounded(tf.nn.relu(tf.matmul(_rounded(x, -3.0, 3.0), FIRST)), 0.0, 6.0)
        return last(tf.matmul(h, SECOND))

    function = tf.function(network, input_signature=[tf.TensorSpec([4, 16], tf.float32, name="x")])
    calls = [drawn(4, 16, seed=i) for i in range(8)]
    wanted = np.stack([function(x).numpy() for x in calls])
    snr = {}
    for recipe in ("int8", "int16x8"):
        lite = jfuse.convert(function, quantize=recipe, calibration=[{"x": x} for x in calls], verify=False)
        runner = LiteRt(lite.to_bytes())
        found = [next(iter(runner.run("serving_default", {"x": x}).values())) for x in calls]
        snr[recipe] = min(snr_db(np.stack(found), wanted), 100.0)
    assert snr["int16x8"] >= snr["int8"] - 0.1


def test_a_recipe_of_training_alone_leaves_the_rest_float() -> None:
    def network(x: Any) -> Any:
        return tf.matmul(
            tf.nn.relu(tf.matmul(_rounded(tf.matmul(_rounded(x, -3.0, 3.0), FIRST), -6.0, 6.0), SECOND)),
            SECOND.T.copy(),
        )

    function = tf.function(network, input_signature=[tf.TensorSpec([4, 16], tf.float32, name="x")])
    lite = jfuse.convert(function, quantize=Recipe.named("int8", from_training=True), verify=False)
    wanted = ["quantize", "fully_connected", "dequantize", "fully_connected", "fully_connected"]
    assert names_of(lite.program) == wanted
    assert {q.reason for q in lite.report.quantized if q.form == "float"} == {
        "training gave it no range, and there is no calibration"
    }


def test_a_difference_of_a_spelled_range_is_no_part_of_it() -> None:
    def difference(x: Any) -> Any:
        return _lsq(x, STEP, -128, 127) - tf.matmul(x, FIRST[:, :16])

    program = jfuse.convert(
        tf.function(difference, input_signature=[tf.TensorSpec([4, 16], tf.float32, name="x")]),
        quantize="int8",
        calibration=[{"x": drawn(4, 16, seed=i)} for i in range(4)],
        verify=False,
    ).program
    assert "round" not in names_of(program)
