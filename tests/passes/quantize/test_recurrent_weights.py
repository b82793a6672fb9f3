"""Recurrent layers with integer weights beside floats, against Keras in float, on calls in a row of several batches."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.kernels import ops
from jfuse.passes.quantize.forms import EVERY_STEP
from jfuse.running.interpreter import LiteRt
from tests.kernels.fused.lstm_oracle import LSTM, written
from tests.models.keras_libraries import awake
from tests.passes.quantize.models import in_litert, program_of, quantized, snr_db
from tests.tflite.programs import f32

layers = keras.layers
BATCHES = (1, 1, 3, 1, 40, 2)  # of calls in a row

LAYERS: dict[str, Any] = {
    "lstm": lambda: [layers.LSTM(48, return_sequences=True), layers.LSTM(40)],
    "bidirectional lstm": lambda: [layers.Bidirectional(layers.LSTM(48))],
    "rnn": lambda: [layers.SimpleRNN(48, return_sequences=True), layers.SimpleRNN(40)],
    "bidirectional rnn": lambda: [layers.Bidirectional(layers.SimpleRNN(48))],
    "gru": lambda: [layers.GRU(48)],
}
slow = [pytest.param(name, marks=pytest.mark.slow) for name in list(LAYERS)[1:]]


def converted(name: str, recipe: Any, batch: int | None = None) -> tuple[Any, Any]:
    model = awake(keras.Sequential([keras.Input((9, 32), batch_size=batch), *LAYERS[name]()]))
    return model, jfuse.convert(model, verify=False, quantize=recipe)


def snrs(model: Any, lite: Any, batches: tuple[int, ...] = BATCHES) -> list[float]:
    """Of each call, the later ones in an interpreter that the earlier ones have left their states in."""
    runner, (name,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    found = []
    for seed, batch in enumerate(batches):
        x = np.random.default_rng(seed).standard_normal((batch, 9, 32)).astype(np.float32)
        (y,) = runner.run("serving_default", {name: x}).values()
        found.append(snr_db(y, np.asarray(model(x))))
    return found


def test_both_directions_of_an_rnn_are_two_operators(tmp_path: Any) -> None:
    """One operator for both, steps first, starts from the states that it ends with: 11 dB where all steps are read."""
    layer = layers.Bidirectional(layers.SimpleRNN(48, return_sequences=True))
    model = awake(keras.Sequential([keras.Input((9, 32)), layer]))
    assert min(snrs(model, jfuse.convert(model, verify=False, quantize="dynamic"), (1, 3))) > 30
    jfuse.convert(model, verify=False).save(tmp_path / "float.tflite")
    of_file = jfuse.quantize(tmp_path / "float.tflite", "dynamic", verify=False)
    assert min(snrs(model, of_file, (1, 3))) > 30
    assert any("starts from the states that it ends with" in q.reason for q in of_file.report.quantized)


@pytest.mark.parametrize("name", ["lstm", *slow])
def test_integer_weights_of_an_open_batch(name: str) -> None:
    model, lite = converted(name, "dynamic")
    assert min(snrs(model, lite)) > 30
    fused = [q for q in lite.report.quantized if "sequence" in str(q)]
    assert [(q.form, q.reason) for q in fused] == [("i8 weights", EVERY_STEP)] * len(fused)
    assert bool(fused) == (name != "gru")


def test_one_number_a_step() -> None:
    """Its weights have one element for each unit, and the kernel takes all weights in few bits or none."""
    model = awake(keras.Sequential([keras.Input((9, 1), batch_size=1), layers.LSTM(40)]))
    (told,) = jfuse.convert(model, verify=False, quantize="dynamic", forms=jfuse.Forms(prefer="fused")).report.quantized
    assert str(told).startswith("1 unidirectional_sequence_lstm: i8 weights, as its kernel rounds")


@pytest.mark.parametrize("recipe", ["dynamic", pytest.param("int8", marks=pytest.mark.slow)])
def test_a_mask_among_the_weights_stays_float(recipe: Any) -> None:
    """Padded steps are switched off by one weight of 1e5 a gate, beside which all others would be 0 in 8 bits."""
    inputs = keras.Input((9, 32), batch_size=2)
    outputs = layers.LSTM(40, return_state=True)(layers.Masking()(inputs))
    model = awake(keras.Model(inputs, outputs))
    drawn = [np.random.default_rng(seed).standard_normal((2, 9, 32)).astype(np.float32) for seed in range(3)]
    for x in drawn:
        x[0, :4] = 0
    options: dict[str, Any] = {"calibration": drawn} if recipe == "int8" else {}
    lite = jfuse.convert(model, verify=False, forms=jfuse.Forms(padding="left"), quantize=recipe, **options)
    (told,) = [q for q in lite.report.quantized if "sequence_lstm" in str(q)]
    assert "would be 0 in 8 bits" in told.reason
    runner, (name,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for x in drawn:
        found = runner.run("serving_default", {name: x})
        for y, wanted in zip(found.values(), model(x), strict=True):
            assert snr_db(y, np.asarray(wanted)) > 25


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_weights_behind_dequantize(name: str) -> None:
    """They are made in each call where the batch is open, as LiteRT would lose them when it changes."""
    for recipe, least in (("float16", 55), ("int8_weights", 30))[: 1 if name == "lstm" else 2]:
        model, lite = converted(name, recipe)
        assert min(snrs(model, lite, BATCHES[1:4])) > least
        assert not [q for q in lite.report.quantized if q.reason]
        assert any("anew in each call" in note for note in lite.report.notes) == (name != "gru")
    model, lite = converted(name, "float16", batch=3)
    assert min(snrs(model, lite, (3,) * 4)) > 60
    assert not [q for q in lite.report.quantized if q.reason]


@pytest.mark.slow
@pytest.mark.parametrize(
    "of",
    [
        {"peephole": True},
        {"width": 40, "projection_bias": True},
        {"norm": True, "coupled": True},
        {"diagonal": True, "time_major": True},
    ],
    ids=lambda of: "-".join(of),
)
def test_every_variant_of_the_lstm(of: dict[str, Any]) -> None:
    lstm = LSTM(units=48, inputs=32, **of)
    x, h, c = lstm.inputs_and_state()
    program = program_of(
        lambda *a: ops.unidirectional_sequence_lstm(*lstm.in_file_order(*a), **lstm.options)[0],
        *(f32(*a.shape) for a in (x, h, c)),
    )
    lite = quantized(program, jfuse.Recipe.named("dynamic"))
    call = {"x0": x, "x1": h, "x2": c}
    for found in in_litert(lite, [call] * 3, delegates=True):
        assert snr_db(found, written(lstm, x, h, c)[0]) > 25
    eqn = next(e for e in lite.program.graphs()[0].eqns if e.op.cell)
    assert [str(a.type.dtype) for a in (eqn.inputs[2], eqn.inputs[13]) if a is not None] == ["DType.i8", "DType.f32"]
    assert str(eqn.inputs[6].type.dtype) == ("DType.f32" if lstm.diagonal else "DType.i8")  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("features", "units", "form", "reason"),
    [
        (16, 48, "i8 weights", EVERY_STEP),  # 768 of each gate for the inputs, 2,304 for the output before
        (3, 8, "float", "its weights have fewer than 1024 elements"),  # 4 * 8 * (3 + 8) = 352
    ],
)
def test_the_weights_of_a_recurrence_are_counted_together(features: int, units: int, form: str, reason: str) -> None:
    model = awake(keras.Sequential([keras.Input((9, features)), layers.LSTM(units)]))
    lite = jfuse.convert(model, verify=False, quantize="dynamic")
    (line,) = lite.report.quantized
    assert (line.form, line.reason) == (form, reason)


def test_svdf() -> None:
    rng = np.random.default_rng(0)
    feature, time = rng.standard_normal((64, 32)), rng.standard_normal((64, 16))
    bias = rng.standard_normal(64)
    arrays = [a.astype(np.float32) for a in (feature, time, bias)]
    program = program_of(lambda x, s: ops.svdf(x, *arrays, s, rank=1)[0], f32(2, 32), f32(2, 64 * 16))
    call = {"x0": rng.standard_normal((2, 32)), "x1": rng.standard_normal((2, 64 * 16))}
    call = {name: value.astype(np.float32) for name, value in call.items()}
    (wanted,) = in_litert(quantized(program, None), [call], delegates=True)
    lite = quantized(program, jfuse.Recipe.named("dynamic"))
    for found in in_litert(lite, [call] * 3, delegates=True):
        assert snr_db(found, wanted) > 30
    assert [(q.op, q.form, q.reason) for q in lite.report.quantized] == [("svdf", "i8 weights", EVERY_STEP)]
