"""A model that was trained: what int8 costs it in accuracy, and that XLA tells the classes of each runtime."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from bench.trained import CHANNELS, CLASSES, STEPS, gestures, measure
from jfuse.verification.file_answers import file_answers


@pytest.mark.slow
def test_int8_costs_less_than_half_a_point_and_xla_tells_so() -> None:
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    found = measure(2000)
    rows = found["rows"]
    floats = rows.pop("float")["accuracy"]
    assert floats > 0.9  # it has learned something
    assert found["agree"] == {"LiteRT": True, "tflite-micro": True}
    assert all(rows[name]["accuracy"] > floats - 0.005 for name in rows if rows[name]["samples"] == 2000)
    assert rows["tflite-micro"]["samples"] == 500


def beside_a_large_channel(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Movements with a fourth channel of raw numbers, 300 times as large as the others and of no use."""
    moved, classes = gestures(count, seed)
    raw = 300 * np.random.default_rng(seed).standard_normal((count, STEPS, 1))
    return np.concatenate([moved, raw], -1).astype(np.float32), classes


class Compressed(keras.layers.Layer):
    """Numbers of any size between -1 and 1."""

    def call(self, x: Any) -> Any:
        return x * keras.ops.rsqrt(1.0 + keras.ops.square(x))


@pytest.mark.slow
def test_raw_numbers_are_normalized_before_they_have_8_bits() -> None:
    normalization = keras.layers.Normalization()
    normalization.adapt(beside_a_large_channel(4000, 0)[0])
    trained = Trained(normalization)
    assert trained.accuracy(trained.floats) > 0.85
    assert trained.accuracy(trained.quantized(None)) > trained.accuracy(trained.floats) - 0.015


@pytest.mark.slow
def test_the_accuracy_that_is_asked_for_holds_on_other_samples() -> None:
    """In 8 bits the small channels are lost before they are compressed."""
    trained = Trained(Compressed())
    wanted = trained.accuracy(trained.floats)
    assert wanted > 0.8
    assert trained.accuracy(trained.quantized(None)) < wanted - 0.1
    found = trained.quantized({"accuracy_drop": 0.005, "metric": trained.metric})
    assert trained.accuracy(found) > wanted - 0.015  # 0.005 of 500 samples, and what is chance of 1,000 others
    left = [note for note in found.report.notes if note.startswith("left float")]
    assert any(note.partition("; ")[0].endswith("Square") for note in left)


class Trained:
    """A network behind a first layer, trained on movements beside a large channel; its file in floats."""

    def __init__(self, first: keras.layers.Layer) -> None:
        keras.utils.set_random_seed(0)
        self.x, self.classes = beside_a_large_channel(4000, 0)
        self.others = beside_a_large_channel(1000, 1)
        layers = [first, keras.layers.LSTM(24), keras.layers.Dense(16, "relu"), keras.layers.Dense(CLASSES)]
        model = keras.Sequential([keras.Input((STEPS, CHANNELS + 1)), *layers])
        model.compile(keras.optimizers.Adam(5e-3), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(self.x, self.classes, batch_size=64, epochs=6, verbose=0)
        self.floats = jfuse.convert(model, batch=1, verify=False)

    def quantized(self, target: Mapping[str, Any] | None) -> jfuse.Model:
        return jfuse.quantize(self.floats, "int8", self.x[:500, None], target=target, verify=False)

    def accuracy(self, lite: jfuse.Model) -> float:
        (name,) = self.floats.program.signatures[0].input_names
        outputs = file_answers(lite, [{name: sample[None]} for sample in self.others[0]])
        return float(np.mean([scores.argmax() for o in outputs for scores in o.values()] == self.others[1]))

    def metric(self, outputs: Mapping[str, Any]) -> float:
        (scores,) = outputs.values()
        return float(np.mean(scores.reshape(len(scores), -1).argmax(-1) == self.classes[: len(scores)]))
