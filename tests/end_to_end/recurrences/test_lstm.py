"""LSTMs from TensorFlow to LiteRT: one fused op a layer, no loop, and TensorFlow's answers on every invoke."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.model import Model
from jfuse.verification.runners.in_tensorflow import run_tensorflow
from tests.end_to_end.invokes import check_invokes
from tests.models import other
from tests.models.recurrences.lstm_keras import KerasLstm
from tests.models.recurrences.lstm_written import WRITTEN
from tests.models.sources import SOURCES, saved_call
from tests.slow import slow_but

WAYS = ("export", "saved_model", "concrete", "object")

LAYERS = (
    KerasLstm(units=1, features=1, steps=1, batch=1),
    KerasLstm(),
    KerasLstm(batch=1),
    KerasLstm(batch=4),
    KerasLstm(units=256, features=40, steps=5),
    KerasLstm(return_sequences=True),
    KerasLstm(batch=1, return_sequences=True),
    KerasLstm(units=256, batch=4, return_sequences=True),
    KerasLstm(return_state=True),
    KerasLstm(batch=4, return_sequences=True, return_state=True),
    KerasLstm(go_backwards=True),
    KerasLstm(go_backwards=True, return_sequences=True, return_state=True),
    KerasLstm(layers=2),
    KerasLstm(layers=2, batch=1, return_sequences=True),
    KerasLstm(initial_state="dense", return_sequences=True),
    KerasLstm(initial_state="encoder", return_state=True),
    KerasLstm(steps=None),
)
LIBRARIES = ("keras", "tf_keras")

# Each model in one way, each way with models of both libraries; the other combinations take minutes.
ROWS = [
    (replace(layers, library=library), WAYS[(i + k) % len(WAYS)])
    for i, layers in enumerate(LAYERS)
    for k, library in enumerate(LIBRARIES)
]
# One library for each model: tf_keras, which takes twice as long, for one in five, each in another way.
IN_TURN = [ROWS[2 * i + (i % 5 == 1)] for i in range(len(LAYERS))]
# Of these, the large one and the one of an open length are slow: their weights and sizes are met without Keras, too.
QUICK = [row for row in IN_TURN[::2] if row[0].units < 256 and row[0].steps is not None]
# Every layer in every way; rows with both libraries in every way are above. tf_keras takes seconds to save a model.
OTHER_ROWS = [
    (replace(layers, library=LIBRARIES[(i + j) % 2 if way != "saved_model" else 0]), way)
    for i, layers in enumerate(LAYERS)
    for j, way in enumerate(way for way in WAYS if way not in {row[1] for row in ROWS[2 * i : 2 * i + 2]})
]


def check_fused(lite: Model, layers: int) -> None:
    assert lite.report.operators.get("unidirectional_sequence_lstm") == layers
    assert not {"while", "if"} & lite.report.operators.keys()
    assert [f.composite for f in lite.report.fused] != []
    assert all(f.proof == "proven" or f.samples >= 64 for f in lite.report.fused)
    assert lite.report.refused == []
    check_invokes(lite)


def convert_and_check(model: KerasLstm, way: str, folder: Path, *, verify: bool) -> None:
    source = model.build()  # owns the variables, which functions hold weakly
    # The smallest model is saved with the traces of each layer that tf_keras adds, which take seconds.
    is_call_alone = (way, model.library) == ("saved_model", "tf_keras") and model.units > 1
    make = saved_call if is_call_alone else SOURCES[way]
    lite = jfuse.convert(make(source, folder / "model"), verify=verify)
    assert bool(lite.report.differences) == verify
    check_fused(lite, model.lstm_count)


@pytest.mark.parametrize(("model", "way"), slow_but(QUICK.__contains__, ROWS), ids=str)
def test_keras(model: KerasLstm, way: str, tmp_path: Path) -> None:
    convert_and_check(model, way, tmp_path, verify=(model, way) in QUICK)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "way"), OTHER_ROWS, ids=str)
def test_keras_in_every_way(model: KerasLstm, way: str, tmp_path: Path) -> None:
    convert_and_check(model, way, tmp_path, verify=False)


@pytest.mark.parametrize("name", slow_but(lambda name: "dynamic" not in name, WRITTEN))
def test_written(name: str) -> None:
    check_fused(jfuse.convert(WRITTEN[name].build()), 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_dropout_around_an_lstm(library: str) -> None:
    check_fused(jfuse.convert(other.recurrent("dropout", library)), 1)


def test_without_recovery_the_loop_stays() -> None:
    lite = jfuse.convert(KerasLstm(return_state=True).build(), forms=jfuse.Forms(recover=False, loop="while"))
    assert lite.report.operators["while"] == 1
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    check_invokes(lite)


def test_the_clip_is_the_sources() -> None:
    """Keras clips nothing: an op that clips c at 10, as the official converter writes, is wrong where c grows."""
    lite = jfuse.convert(KerasLstm(library="tf_keras", units=8, steps=24, return_state=True).build())

    def open_gates(seed: int) -> dict[str, np.ndarray]:
        rows = np.random.default_rng(seed).standard_normal((3 + seed, 1, 5)).astype(np.float32)
        return {"x": np.repeat(rows * 30, 24, axis=1)}

    assert lite.imported is not None
    answer = run_tensorflow(lite.imported.functions["serving_default"], open_gates(0))
    assert np.abs(answer["output_2"]).max() > 20
    check_invokes(lite, open_gates)


def test_an_open_length_is_assumed_to_hold_a_step() -> None:
    assert jfuse.convert(KerasLstm(steps=None).build(), verify=False).report.assumptions == ["N >= 1"]


@pytest.mark.parametrize(
    ("cut", "assumption"),
    [(lambda x: x[:, :-1], "N - 1 >= 1"), (keras.layers.Conv1D(3, 3), "max(0, N - 2) >= 1")],
    ids=["all-but-the-last", "convolution"],
)
def test_a_part_of_an_open_length(cut: Any, assumption: str) -> None:
    sequence = keras.Input((None, 2), name="x")
    hidden = keras.layers.LSTM(2, return_sequences=True)(cut(sequence))
    lite = jfuse.convert(keras.Model(sequence, keras.layers.Dense(3)(hidden)), verify=False)
    assert (lite.report.operators["unidirectional_sequence_lstm"], lite.report.assumptions) == (1, [assumption])
    check_invokes(lite, lambda n: {"x": np.random.default_rng(n).normal(size=(1 + n % 2, 3 + n, 2)).astype(np.float32)})
