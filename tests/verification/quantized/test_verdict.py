"""`jfuse.verify` of quantized files beside float models: right ones of TensorFlow's converter pass, others fail."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.records.verification import Verification
from tests.verification.quantized.official_files import model, official, samples
from tests.verification.quantized.planted import (
    Opened,
    changed_weights,
    fused_activation,
    louder,
    louder_channel,
    other_operator,
    planted,
    requantized,
    same_operand,
    swapped_classes,
    without_assignments,
    without_bias,
)

_QUICK = {("mlp", "int8_io")}
_RIGHT = [
    *((name, mode) for name in ("mlp", "cnn", "spotter") for mode in ("int8", "int8_io", "int16x8", "float16")),
    *((name, "dynamic") for name in ("mlp", "cnn", "lstm", "counter")),
    *(("lstm", mode) for mode in ("int8", "int8_io", "int16x8", "float16")),
]


def _verified(name: str, data: bytes, **options: Any) -> Verification:
    return jfuse.verify(data, official(name, "float"), jfuse.Verify(edges="none", **options))


@pytest.mark.parametrize(
    ("name", "mode"), [pytest.param(*row, marks=() if row in _QUICK else pytest.mark.slow) for row in _RIGHT]
)
def test_right_files_pass(name: str, mode: str) -> None:
    found = _verified(name, official(name, mode))
    assert found.passed
    pairs = {d.pair: d for d in found.differences}
    parts = {"litert/weights", "weights/ranges", "rounded/xla", "rounded/litert", "litert/xla", "litert/litert"}
    assert parts <= pairs.keys()
    assert all(d.samples >= 64 for d in pairs.values() if d.pair in parts)
    assert pairs["litert/weights"].error > 0  # weights are rounded


@dataclass(frozen=True)
class Planted:
    """A fault, in a model's file of a mode.   shown: by which comparison"""

    what: str
    name: str
    mode: str
    fault: Callable[[Opened], None]
    shown: str = "litert/weights"
    quick: bool = False


def _negated_row(weights: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(weights))[:, None] == 5, -weights, weights)


_FAULTS = [
    Planted("weights of a layer times 1.3", "mlp", "int8_io", louder("FULLY_CONNECTED", 1), quick=True),
    Planted("swapped classes", "mlp", "int8_io", swapped_classes()),
    Planted("bias left out", "mlp", "int8", without_bias("FULLY_CONNECTED", 0)),
    Planted("transposed square weights", "mlp", "int8", changed_weights("FULLY_CONNECTED", 1, np.transpose)),
    Planted("scale of a channel doubled", "mlp", "int16x8", louder_channel("FULLY_CONNECTED", 2)),
    Planted("weights times 1.3, 16 bits", "mlp", "int16x8", louder("FULLY_CONNECTED", 0)),
    Planted("no activation, floats", "mlp", "dynamic", fused_activation("FULLY_CONNECTED", 0, 0)),
    Planted("weights times 1.05, f16", "mlp", "float16", louder("FULLY_CONNECTED", 1, 1.05)),
    Planted("weights times 1.3", "cnn", "int8", louder("CONV_2D", 1)),
    Planted("weights times 1.3, 16 bits", "cnn", "int16x8", louder("CONV_2D", 1)),
    Planted("weights times 1.3, floats", "cnn", "dynamic", louder("CONV_2D", 1)),
    Planted("filters upside down", "cnn", "int8_io", changed_weights("CONV_2D", 0, lambda w: w[:, ::-1])),
    Planted("scale of a channel doubled", "cnn", "int8", louder_channel("CONV_2D", 1)),
    Planted("bias left out, f16", "cnn", "float16", without_bias("CONV_2D", 2)),
    Planted("another pool", "cnn", "int8", other_operator("MAX_POOL_2D", 0, "AVERAGE_POOL_2D")),
    Planted("a sum of one operand", "cnn", "int8", same_operand("ADD", 0)),
    Planted("wrong zero point", "cnn", "int8", requantized("RESHAPE", 0, zero_point=10), "rounded/xla"),
    Planted("weights times 1.3", "spotter", "int8", louder("DEPTHWISE_CONV_2D", 1)),
    Planted("swapped classes", "spotter", "int8_io", swapped_classes(2, 7)),
    Planted("weights of a step times 1.3", "lstm", "int8", louder("FULLY_CONNECTED", 0)),
    Planted("a gate negated", "lstm", "int16x8", changed_weights("FULLY_CONNECTED", 0, _negated_row)),
    Planted("stale state", "counter", "dynamic", without_assignments),
    Planted("range too small by far", "cnn", "int8", requantized("CONV_2D", 2, scale=0.05), "weights/ranges"),
]


@pytest.mark.parametrize(
    "fault",
    [pytest.param(f, id=f"{f.name}-{f.mode}-{f.what}", marks=() if f.quick else pytest.mark.slow) for f in _FAULTS],
)
def test_planted_faults_are_found(fault: Planted) -> None:
    wrong = planted(official(fault.name, fault.mode), fault.fault)
    with pytest.raises(VerifyFailed) as failed:
        _verified(fault.name, wrong)
    assert f"({fault.shown})" in failed.value.message
    assert isinstance(failed.value.verification, Verification)
    assert not failed.value.verification.passed
    assert failed.value.verification.inputs


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["int8", "int8_io"])
def test_own_inputs_and_keras(mode: str) -> None:
    """Real numbers are given, whatever the file takes; one call is enough."""
    given = samples("cnn", 1, seed=3)[0]
    assert jfuse.verify(official("cnn", mode), model("cnn"), inputs=given).passed
    wrong = planted(official("cnn", mode), louder("CONV_2D", 1))
    with pytest.raises(VerifyFailed, match="tensorflow/weights"):
        jfuse.verify(wrong, model("cnn"), inputs=given)


@pytest.mark.slow
def test_a_tolerance_that_is_asked_for_counts_alone() -> None:
    data = official("mlp", "int8_io")
    assert _verified("mlp", data, tolerance=0.2, inputs=samples("mlp", 1, seed=3)[0]).passed
    with pytest.raises(VerifyFailed, match="as asked for"):
        _verified("mlp", data, tolerance=1e-4)


def test_calls_of_several_sizes_to_a_file_that_keeps_a_state() -> None:
    """They are judged in rows of one size each; a louder layer shows in the second row as well."""
    import tensorflow as tf

    class Running(tf.Module):
        def __init__(self) -> None:
            super().__init__()
            drawn = np.random.default_rng(4).standard_normal((48, 48)) / 7
            self.weights = tf.constant(drawn.astype(np.float32))
            self.kept = tf.Variable(tf.zeros((1, 48)), name="kept")

        @tf.function(input_signature=[tf.TensorSpec((None, 48), tf.float32, name="x")])
        def __call__(self, x: Any) -> Any:
            self.kept.assign(tf.tanh(tf.reduce_mean(x, 0, keepdims=True) + tf.matmul(self.kept, self.weights)))
            return tf.matmul(x + self.kept, self.weights)

    module, rng = Running(), np.random.default_rng(5)
    data = jfuse.convert(module, quantize="dynamic").to_bytes()
    calls = [{"x": rng.standard_normal((rows, 48)).astype(np.float32)} for rows in (3, 3, 5, 5, 3)]
    found = jfuse.verify(data, module, inputs=calls)
    assert found.passed
    with pytest.raises(VerifyFailed, match="half a step of weights"):
        jfuse.verify(planted(data, louder("FULLY_CONNECTED", 1)), module, inputs=calls)


def test_an_infinity_before_weights_of_integers_is_not_tried() -> None:
    """LiteRT takes the steps of such floats from the largest of them; the tanh hides that one was infinite."""
    import tensorflow as tf

    rng = np.random.default_rng(0)
    first, second, last = (rng.standard_normal(s).astype(np.float32) / 8 for s in ((8, 64), (64, 64), (64, 4)))

    def run(x: Any) -> Any:
        return tf.tanh(tf.nn.relu(x @ first) @ second) @ last

    source = tf.function(run, input_signature=[tf.TensorSpec((1, 8), tf.float32)], autograph=False)
    data = jfuse.convert(source, quantize="dynamic", verify=False).to_bytes()
    assert jfuse.verify(data, source).passed
    with pytest.raises(VerifyFailed):
        jfuse.verify(planted(data, louder("FULLY_CONNECTED", 1)), source)
