"""Biases of the products behind outputs: files are right on average over calibration data, where that is not chance."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
from keras import layers

import jfuse
from jfuse import QuantizeRule, Recipe
from jfuse.base.errors import VerifyFailed
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from jfuse.verification.quantization_noise import output_errors
from jfuse.verification.quantization_noise.output_errors import _mean_error
from tests.models.keras_libraries import awake

KEY = "serving_default"
CALLS = 64


def _pooled(**more: Any) -> Any:
    """Rectified convolutions, their mean over a sequence, a dense layer: noise averages out, its mean does not."""
    inputs = keras.Input((64, 12), batch_size=1, name="x")
    x = layers.Conv1D(32, 3, activation="relu")(layers.Conv1D(32, 3, activation="relu")(inputs))
    return awake(keras.Model(inputs, layers.Dense(6, name="last", **more)(layers.GlobalAveragePooling1D()(x))))


@pytest.fixture(scope="module")
def samples() -> np.ndarray:
    return np.random.default_rng(3).standard_normal((2 * CALLS, 64, 12)).astype(np.float32)


def _errors(model: Model, source: Any, samples: np.ndarray) -> np.ndarray:
    """What LiteRT's answers differ by from TensorFlow's: f[samples, ...]."""
    run, (name,) = LiteRt(model.to_bytes()), model.signature().output_names
    found = [run.run(KEY, {"x": x[None]})[name] for x in samples]
    return np.asarray(np.stack([a[0] for a in found]) - np.asarray(source(samples)))


@pytest.mark.parametrize("recipe", ["int16x8", "int8_weights", "int4_weights"])
def test_outputs_are_right_on_average(samples: np.ndarray, recipe: Any) -> None:
    source = _pooled()
    calibration, others = samples[:CALLS], samples[CALLS:]
    with_data = jfuse.convert(source, quantize=recipe, calibration=calibration, verify=False)
    assert with_data.statistics is not None
    without = jfuse.convert(source, quantize=recipe, calibration=with_data.statistics, verify=False)
    before, after = (_errors(m, source, calibration) for m in (without, with_data))
    assert np.square(after.mean(0)).sum() < 0.5 * np.square(before.mean(0)).sum()
    before, after = (_errors(m, source, others) for m in (without, with_data))
    assert np.square(after).sum() < np.square(before).sum()


def test_a_softmax_behind_the_product(samples: np.ndarray) -> None:
    source = _pooled(activation="softmax")
    calibration = samples[:CALLS]
    with_data = jfuse.convert(source, quantize="int4_weights", calibration=calibration, verify=False)
    without = jfuse.convert(source, quantize="int4_weights", calibration=with_data.statistics, verify=False)
    found, plain = ([b.tolist() for b in _biases(m)] for m in (with_data, without))
    logits = jfuse.convert(_pooled(), quantize="int4_weights", calibration=calibration, verify=False)
    assert found != plain
    assert _biases(logits)[0] == pytest.approx(np.array(found[0]), abs=1e-5)


def _biases(model: Model) -> list[np.ndarray]:
    (graph,) = model.program.graphs()
    return [e.inputs[2].array for e in graph.eqns if e.op.name == "fully_connected"]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "rule",
    [QuantizeRule("integer", activation_bits=16), QuantizeRule("integer", activation_bits=16, bias_correction=True)],
)
def test_the_rule_decides(samples: np.ndarray, rule: QuantizeRule) -> None:
    source = _pooled()
    recipe = Recipe((rule,))
    found = jfuse.convert(source, quantize=recipe, calibration=samples[:CALLS], verify=False)
    without = jfuse.convert(source, quantize=recipe, calibration=found.statistics, verify=False)
    is_same = all(np.array_equal(a, b) for a, b in zip(_biases(found), _biases(without), strict=True))
    assert is_same is not rule.bias_correction


def test_what_others_read_stays(samples: np.ndarray) -> None:
    base = _pooled()
    logits = base.output
    source = keras.Model(base.input, [logits, layers.Dense(3)(logits)])
    found = jfuse.convert(source, quantize="int16x8", calibration=samples[:CALLS], verify=False)
    without = jfuse.convert(source, quantize="int16x8", calibration=found.statistics, verify=False)
    first, second = (np.array_equal(a, b) for a, b in zip(_biases(found), _biases(without), strict=True))
    assert first, "the second product reads it"
    assert not second


def test_sequences_of_calls() -> None:
    """A state that is kept from call to call: the calls of an item run one after the other."""
    inputs = keras.Input((8, 6), batch_size=1, name="x")
    x = layers.LSTM(16, stateful=True)(inputs)
    source = awake(keras.Model(inputs, layers.Dense(4)(x)))
    rng = np.random.default_rng(1)
    items = [[{"x": rng.standard_normal((1, 8, 6)).astype(np.float32)} for _ in range(4)] for _ in range(8)]
    found = jfuse.convert(source, quantize="int4_weights", calibration=items)
    without = jfuse.convert(source, quantize="int4_weights", calibration=found.statistics, verify=False)
    assert not np.array_equal(_biases(found)[0], _biases(without)[0])
    assert min(n.snr_db for n in found.report.noise) > 15


def test_a_file_that_does_not_run_is_noted(samples: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(data: bytes) -> Any:
        raise VerifyFailed("LiteRT does not load the file", found="a reason")

    monkeypatch.setattr(output_errors, "in_litert", refused)
    found = jfuse.convert(_pooled(), quantize="int8", calibration=samples[:8], verify=False)
    assert any("not measured" in note and "a reason" in note for note in found.report.notes)


def test_chance_is_not_corrected() -> None:
    rng = np.random.default_rng(0)
    noise = rng.standard_normal((64, 200))
    assert np.square(_mean_error(noise)).sum() < 0.2 * np.square(noise.mean(0)).sum()
    assert _mean_error(noise + 3) == pytest.approx((noise + 3).mean(0), rel=0.01)
    assert not _mean_error(noise[:1]).any()
    assert not _mean_error(np.full((4, 3), np.nan)).any()
