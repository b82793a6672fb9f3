"""Quantization never enlarges a model by its loops: forms of a file stay, and others are chosen by their size."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.base.errors import LowerError
from jfuse.passes.scans.to_loops.loop_cost import ROOMS, LoopSize, smallest
from tests.models.keras_libraries import awake

layers = keras.layers
SAMPLES = [np.random.default_rng(seed).standard_normal((1, 24, 8)).astype(np.float32) for seed in range(6)]


def model_of(*of: Any) -> Any:
    return awake(keras.Sequential([keras.Input((24, 8), batch_size=1, name="x"), *of]))


@pytest.fixture(scope="module")
def gru() -> Any:
    return model_of(layers.GRU(24))


@pytest.mark.parametrize("recipe", ["dynamic", "float16", "int8"])
def test_a_while_of_a_file_stays(gru: Any, tmp_path: Path, recipe: Any) -> None:
    jfuse.convert(gru, forms=jfuse.Forms(loop="while"), verify=False).save(tmp_path / "while.tflite")
    lite = jfuse.quantize(tmp_path / "while.tflite", recipe, SAMPLES if recipe == "int8" else None)
    assert lite.report.operators["while"] == 1
    assert lite.size_bytes < (tmp_path / "while.tflite").stat().st_size
    assert not lite.report.warnings


@pytest.mark.parametrize("recipe", ["dynamic", "float16"])
def test_a_quantized_model_has_small_loops(gru: Any, recipe: Any) -> None:
    """Straight code, which is faster, would have five to seven times the bytes."""
    small = jfuse.convert(gru, quantize=recipe, verify=False)
    assert small.report.operators["while"] == 1
    straight = jfuse.convert(gru, quantize=recipe, verify=False, forms=jfuse.Forms(prefer="speed"))
    assert "while" not in straight.report.operators
    assert small.size_bytes < 0.25 * straight.size_bytes


def test_steps_that_a_file_writes_out_stay(gru: Any, tmp_path: Path) -> None:
    """Also where a WHILE would be smaller; loop= and prefer= ask for it."""
    jfuse.convert(gru, forms=jfuse.Forms(loop="unroll"), verify=False).save(tmp_path / "steps.tflite")
    kept = jfuse.quantize(tmp_path / "steps.tflite", "dynamic", verify=False)
    assert "while" not in kept.report.operators
    assert kept.size_bytes < (tmp_path / "steps.tflite").stat().st_size
    asked = jfuse.quantize(tmp_path / "steps.tflite", "dynamic", verify=False, forms=jfuse.Forms(loop="while"))
    assert asked.report.operators["while"] == 1
    assert asked.size_bytes < kept.size_bytes


@pytest.mark.parametrize(
    ("layer", "recipe", "operator"),
    [
        (lambda: layers.SimpleRNN(40), "int8", "while"),
        pytest.param(lambda: layers.SimpleRNN(40), "int16x8", "while", marks=pytest.mark.slow),
        # The loop alone takes more than the weights: it computes in floats, with weights in 8 bits.
        (lambda: layers.SimpleRNN(8), "int8", "unidirectional_sequence_rnn"),
        pytest.param(lambda: layers.LSTM(24), "int16x8", "while", marks=pytest.mark.slow),
        pytest.param(lambda: layers.SimpleRNN(40, activation="relu"), "int8", "while", marks=pytest.mark.slow),
        pytest.param(
            lambda: layers.Bidirectional(layers.LSTM(8)),
            "int16x8",
            "bidirectional_sequence_lstm",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_integers_are_no_larger_than_floats(layer: Any, recipe: Any, operator: str) -> None:
    lite = jfuse.convert(model_of(layer()), quantize=recipe, calibration=SAMPLES)
    assert lite.size_bytes <= lite.unquantized.size_bytes  # type: ignore[union-attr]
    assert lite.report.operators[operator] == 1
    assert any('loop="unroll" takes that' in note for note in lite.report.notes)
    assert bool(lite.report.warnings) == (operator != "while")
    assert min(n.snr_db for n in lite.report.noise) > 20


def test_the_smallest_form_is_no_larger_than_floats() -> None:
    lite = jfuse.convert(
        model_of(layers.SimpleRNN(8)),
        quantize="int8",
        calibration=SAMPLES,
        forms=jfuse.Forms(prefer="size"),
        verify=False,
    )
    assert lite.size_bytes <= lite.unquantized.size_bytes  # type: ignore[union-attr]
    assert any('loop="while" takes that' in text for text in lite.report.warnings)


def test_a_form_that_is_asked_for_stays() -> None:
    model = model_of(layers.SimpleRNN(40))
    lite = jfuse.convert(model, quantize="int8", calibration=SAMPLES, forms=jfuse.Forms(loop="unroll"), verify=False)
    assert "while" not in lite.report.operators
    (warning,) = lite.report.warnings
    assert warning.startswith(f"the recipe 'int8' made the file no smaller: {lite.size_bytes:,} bytes")
    small = jfuse.convert(model, quantize="int8", calibration=SAMPLES, forms=jfuse.Forms(prefer="size"), verify=False)
    assert small.report.operators["while"] == 1


def test_the_smallest_form() -> None:
    """Few steps of few operators take less than a WHILE does."""
    room = ROOMS["size"]
    assert smallest(LoopSize(3, 4, 1000, 1, 32, 32), room).unrolled
    assert str(smallest(LoopSize(30, 4, 1000, 1, 32, 32), room)) == "WHILE, one step a turn"
    assert not smallest(LoopSize(3, 4, 1000, 1, 32, 32), room, unroll=False).unrolled


def test_a_recipe_that_does_nothing_says_so(caplog: pytest.LogCaptureFixture) -> None:
    model = awake(keras.Sequential([keras.Input((8,), batch_size=1), layers.Dense(9)]))
    source = jfuse.load(model)
    with caplog.at_level("WARNING", logger="jfuse.api.quantized_sizes"):
        lite = jfuse.lower(source, quantize="dynamic")
    (warning,) = lite.report.warnings
    size = f"{lite.size_bytes:,} bytes, {jfuse.lower(source).size_bytes:,} in floats"
    assert f"the recipe 'dynamic' quantized nothing: {size}; 1 fully_connected: float, as" in warning
    assert warning in caplog.text
    with pytest.raises(LowerError, match="quantized nothing") as refused:
        jfuse.lower(source, quantize="dynamic", forms=jfuse.Forms(strict=True))
    assert "min_elements=" in str(refused.value)
