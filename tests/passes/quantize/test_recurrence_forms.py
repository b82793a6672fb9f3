"""LSTMs in 8 bits: which form the file has, by what decides it, with answers beside Keras on calls in a row."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt
from tests.models.keras_libraries import awake
from tests.passes.quantize.models import snr_db

layers = keras.layers
FUSED = "unidirectional_sequence_lstm"
SHAPE = (12, 32)
SAMPLES = [np.random.default_rng(seed).standard_normal((1, *SHAPE)).astype(np.float32) for seed in range(8)]


def model_of(*of: Any, batch: int | None = 1) -> Any:
    return awake(keras.Sequential([keras.Input(SHAPE, batch_size=batch), *of]))


@pytest.fixture(scope="module")
def large() -> Any:
    """An open batch, 128 units."""
    return model_of(layers.LSTM(128), batch=None)


def quantized(model: Any, recipe: Any = "int8", **options: Any) -> Any:
    data = SAMPLES if recipe != "dynamic" else None
    return jfuse.lower(jfuse.load(model, **options.pop("load", {})), quantize=recipe, calibration=data, **options)


def activations_of(lite: Any) -> list[str]:
    """The type that each fused LSTM of a file reads."""
    eqns = [eqn for graph in lite.program.graphs() for eqn in graph.eqns]
    return [str(eqn.inputs[0].type.dtype.value) for eqn in eqns if eqn.op.name == FUSED]


@pytest.mark.parametrize("recipe", ["int8", "dynamic"])
def test_a_large_one_is_a_loop_about_as_small(large: Any, recipe: str) -> None:
    lite = quantized(large, recipe)
    fused = quantized(large, recipe, prefer="fused")
    assert (lite.report.operators["while"], activations_of(lite)) == (1, [])
    assert activations_of(fused) == ["i8" if recipe == "int8" else "f32"]
    assert lite.size_bytes <= 1.2 * fused.size_bytes
    bodies = [g for graph in lite.program.graphs() for e in graph.eqns for g in e.bodies]
    weights = [
        a.type.dtype.value
        for g in bodies
        for e in g.eqns
        for a in e.inputs
        if a is not None and a.type.shape == (512, 128)
    ]
    assert set(weights) == {"i8"}
    assert any('prefer="fused" writes' in note for note in lite.report.notes) == (recipe == "int8")
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    found, wanted, operator = [], [], []
    beside = LiteRt(fused.to_bytes())
    for seed, batch in enumerate((1, 1, 3, 1, 2)):
        x = np.random.default_rng(100 + seed).standard_normal((batch, *SHAPE)).astype(np.float32)
        found += [*next(iter(runner.run("serving_default", {given: x}).values()))]
        operator += [*next(iter(beside.run("serving_default", {given: x}).values()))]
        wanted += [*np.asarray(large(x))]
    assert snr_db(np.stack(found), np.stack(wanted)) > snr_db(np.stack(operator), np.stack(wanted)) - 0.5


def test_a_small_one_stays_one_operator() -> None:
    """A loop would be more than 1.2 times as large."""
    lite = quantized(model_of(layers.LSTM(16)))
    assert activations_of(lite) == ["f32"]
    assert [q.form for q in lite.report.quantized if q.op == FUSED] == ["i8 weights"]
    assert any("one operator with int8 weights between floats" in note for note in lite.report.notes)


@pytest.mark.parametrize(
    ("options", "activations"),
    [
        ({"prefer": "fused"}, "i8"),
        ({"prefer": "size"}, "f32"),
        ({"target": "tflite-micro"}, "i8"),
        ({"target": "litert,tflite-micro"}, "i8"),
        ({"recipe": jfuse.Recipe.named("micro")}, "i8"),
        ({"forms": True}, "i8"),
    ],
    ids=lambda of: "-".join(of) if isinstance(of, dict) else of,
)
def test_the_operator_where_it_is_asked_for(options: dict[str, Any], activations: str) -> None:
    model = model_of(layers.LSTM(64))
    if options.pop("forms", False):
        (fusion,) = jfuse.lower(jfuse.load(model)).report.fused
        options["by_source"] = {fusion.source: "fused"}
    lite = quantized(model, **options)
    assert activations_of(lite) == [activations]
    assert "while" not in lite.report.operators


@pytest.mark.parametrize("recipe", ["int8", pytest.param("dynamic", marks=pytest.mark.slow)])
def test_an_operator_of_a_file(large: Any, tmp_path: Path, recipe: Any) -> None:
    """Its loops stay in their form; what is one operator has none, and its state goes with it."""
    jfuse.lower(jfuse.load(large)).save(tmp_path / "float.tflite")
    data = SAMPLES if recipe == "int8" else None
    lite = jfuse.quantize(tmp_path / "float.tflite", recipe, data, verify=False)
    assert (lite.report.operators["while"], activations_of(lite)) == (1, [])
    kept = jfuse.quantize(tmp_path / "float.tflite", recipe, data, verify=False, forms=jfuse.Forms(prefer="fused"))
    assert len(activations_of(kept)) == 1


@pytest.mark.slow
def test_states_that_go_on() -> None:
    """In variables; pieces of a stream are answered as the whole sequence is."""
    source = awake(keras.Sequential([keras.Input(batch_shape=(1, 3, 64)), layers.LSTM(128, stateful=True)]))
    calls = [np.random.default_rng(seed).standard_normal((1, 3, 64)).astype(np.float32) for seed in range(5)]
    lite = jfuse.lower(jfuse.load(source), quantize="dynamic")
    assert activations_of(lite) == []
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for x in calls:
        (found,) = runner.run("serving_default", {given: x}).values()
        assert snr_db(found, np.asarray(source(x))) > 30


@pytest.mark.slow
def test_both_directions() -> None:
    model = model_of(layers.Bidirectional(layers.LSTM(128)))
    lite = quantized(model)
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for x in SAMPLES[:3]:
        (found,) = runner.run("serving_default", {given: x}).values()
        assert snr_db(found, np.asarray(model(x))) > 30
    assert lite.report.operators.get("while") == 2
