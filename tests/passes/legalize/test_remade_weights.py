"""Weights beside fused states of an open batch: right in LiteRT as the batch changes, with XNNPACK and without it."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.running.interpreter import LiteRt
from jfuse.verification.quantization_noise.of_file import noise_of
from tests.models.keras_libraries import awake
from tests.passes.quantize.models import snr_db

layers = keras.layers
BATCHES = (1, 3, 1, 20, 2)  # of calls in a row

LAYERS: dict[str, Any] = {
    "conv, lstm": lambda: [layers.Conv1D(40, 3, activation="relu"), layers.LSTM(16)],
    "rnn, separable conv": lambda: [layers.SimpleRNN(40, return_sequences=True), layers.SeparableConv1D(40, 3)],
    "dilated conv, bidirectional": lambda: [
        layers.Conv1D(40, 3, dilation_rate=2, padding="causal"),
        layers.Bidirectional(layers.LSTM(16)),
    ],
    "conv of images, lstm": lambda: [
        layers.Reshape((9, 4, 8)),
        layers.Conv2D(32, 3, padding="same"),
        layers.Reshape((9, 128)),
        layers.LSTM(16),
    ],
    "transposed conv, rnn": lambda: [layers.Conv1DTranspose(40, 3), layers.SimpleRNN(32)],
}
slow = [pytest.param(name, marks=pytest.mark.slow) for name in list(LAYERS)[1:]]
LEAST_DB: dict[Any, int] = {"dynamic": 25, "int8_weights": 25, "int4_blocks": 5, "float16": 55}


def model_of(name: str) -> Any:
    return awake(keras.Sequential([keras.Input((9, 32)), *LAYERS[name]()]))


@pytest.mark.parametrize("name", ["conv, lstm", *slow])
def test_calls_of_several_batches(name: str) -> None:
    model = model_of(name)
    source = jfuse.load(model)
    for recipe, least in LEAST_DB.items():
        lite = jfuse.lower(source, quantize=recipe)
        assert any("anew in each call" in note for note in lite.report.notes)
        assert lite.size_bytes < 0.7 * lite.unquantized.size_bytes  # type: ignore[union-attr]
        for delegates in (True, False):
            runner, (key,) = LiteRt(lite.to_bytes(), delegates=delegates), lite.signature().input_names
            for seed, batch in enumerate(BATCHES):
                x = np.random.default_rng(seed).standard_normal((batch, 9, 32)).astype(np.float32)
                (y,) = runner.run("serving_default", {key: x}).values()
                assert snr_db(y, np.asarray(model(x))) > least, (recipe, delegates, seed)


def test_a_fixed_batch_has_nothing_to_lose() -> None:
    model = awake(keras.Sequential([keras.Input((9, 32), batch_size=2), *LAYERS["conv, lstm"]()]))
    lite = jfuse.lower(jfuse.load(model), quantize="float16")
    assert not any("anew" in note for note in lite.report.notes)
    assert lite.report.operators["dequantize"] > 1


def test_what_would_be_lost_is_found() -> None:
    """The file is run at several batches in a row: without the pass it is refused."""
    without = jfuse.rewrites(instead="remade_weights", default=False)(lambda graph: graph)
    lite = jfuse.lower(
        jfuse.load(model_of("conv, lstm")), quantize="dynamic", pipeline=jfuse.Pipeline(passes=[without])
    )
    assert lite.unquantized is not None
    with pytest.raises(VerifyFailed, match=r"otherwise after a call of another size: output 'output_0'"):
        noise_of(lite, lite.unquantized, None)
