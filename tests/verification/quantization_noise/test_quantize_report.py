"""`jfuse.quantize_report` and its command: files of jfuse and of others, the page, and node data for Model Explorer."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.cli.app import app
from jfuse.model import Model
from jfuse.quantization.recipe import Recipe
from jfuse.reports import write_noise_html
from jfuse.reports.noise import noise_data
from jfuse.verification.quantization_noise.measured import measured
from jfuse.verification.quantization_noise.report import QuantizeReport
from tests.passes.quantize.models import calibrated, drawn, program_of, quantized, snr_db
from tests.reports.test_model_explorer import FORMAT
from tests.reports.test_page import data_of
from tests.verification.quantization_noise.test_figures_of_tensors import CALLS, ROW, dense


@pytest.fixture(scope="module")
def files(tmp_path_factory: Any) -> Path:
    """A folder with int8.tflite, float.tflite and x.npz."""
    folder: Path = tmp_path_factory.mktemp("quantized")
    program = program_of(dense, ROW)
    calibrated(program, Recipe.named("int8"), CALLS).save(folder / "int8.tflite")
    quantized(program, None).save(folder / "float.tflite")
    np.savez(folder / "x.npz", x0=np.concatenate([call["x0"] for call in CALLS]))
    return folder


def test_the_command(files: Path) -> None:
    outputs = {name: files / f"report.{name}" for name in ("json", "html", "explorer")}
    command = ["quantize-report", str(files / "int8.tflite"), "--against", str(files / "float.tflite")]
    command += ["--data", str(files / "x.npz"), *(w for n, p in outputs.items() for w in (f"--{n}", str(p)))]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "fully_connected" in done.output
    report = json.loads(outputs["json"].read_text())
    assert report["calls"] == len(CALLS)
    names = [t["tensor"] for t in report["tensors"] if t["op"] == "fully_connected"]
    assert names == [f"layer_{i}/MatMul" for i in range(3)][:1] or len(names) == 3
    assert all(t["is_paired"] for t in report["tensors"])
    page = data_of(outputs["html"].read_text(encoding="utf-8"))
    assert page["coloured"] == {"by": "noise", "pair": "alone"}
    shown = {e["pair"]: e["snr"] for g in page["sides"]["after"]["graphs"] for e in g["errors"] if e["row"] == 2}
    assert shown.keys() == {"alone", "as it arrives"}
    nodes = json.loads(outputs["explorer"].read_text())
    ((_, data),) = nodes.items()
    by_node = {int(n): r["value"] for n, r in data["results"].items()}
    assert by_node[1] == pytest.approx(min(t["own_snr_db"] for t in report["tensors"] if t["path"] == [1]))


def test_node_data_has_the_form_of_model_explorer(files: Path) -> None:
    from tests.reports.shape import misfits

    model = jfuse.load(files / "int8.tflite")
    report = jfuse.quantize_report(model, files / "float.tflite", {"x0": np.concatenate([c["x0"] for c in CALLS])})
    report.tensors[0] = replace(report.tensors[0], own_snr_db=np.inf)
    assert misfits(noise_data(report, model), FORMAT) == []


def test_what_is_not_told_is_an_error(files: Path) -> None:
    with pytest.raises(JfuseError, match="against="):
        jfuse.quantize_report(files / "int8.tflite")
    with pytest.raises(JfuseError, match="no graph to show"):
        write_noise_html(QuantizeReport("a", "b"), files / "none.html")
    with pytest.raises(JfuseError, match="propagated"):
        QuantizeReport("a", "b").ranked("size")  # type: ignore[arg-type]


def test_drawn_inputs_and_the_float_model_that_is_known() -> None:
    program = program_of(dense, ROW)
    model = calibrated(program, Recipe.named("int8"), CALLS)
    model.unquantized = quantized(program, None)
    report = jfuse.quantize_report(model)
    assert report.calls == 32
    assert "layer_1/MatMul" in str(report)
    assert len(report.table(2)[1]) == 2


def test_weights_beside_floats() -> None:
    """The figures of a dynamic file are those of its outputs in LiteRT; what stays float has no integers to use."""
    program = program_of(dense, ROW)
    rules = (jfuse.QuantizeRule("dynamic", min_elements=0),)
    lite, floats = quantized(program, Recipe(rules)), quantized(program, None)
    report = measured(lite.program, floats.program, CALLS)
    from tests.passes.quantize.models import in_litert

    answers = np.stack(in_litert(lite, CALLS, delegates=False))
    wanted = np.stack(in_litert(floats, CALLS, delegates=False))
    first = report.tensors[0]
    assert first.snr_db == pytest.approx(snr_db(answers, wanted), abs=0.01)
    assert first.own_snr_db == pytest.approx(first.snr_db, abs=0.01)
    assert {t.utilisation for t in report.tensors} == {None}


@pytest.mark.slow
def test_files_of_the_official_converter(tmp_path: Path) -> None:
    """Its int8 file beside its float file, and beside the Keras model: the same tensors, the same figures."""
    import keras
    import tensorflow as tf

    keras.utils.set_random_seed(3)
    layers = keras.layers
    inputs = keras.Input((8, 8, 3), batch_size=1)
    x = layers.Conv2D(8, 3, padding="same", activation="relu")(inputs)
    x = layers.Add()([layers.Conv2D(8, 3, padding="same")(x), x])
    model = keras.Model(inputs, layers.Dense(6)(layers.GlobalAveragePooling2D()(x)))
    samples = [drawn(1, 8, 8, 3, seed=s) for s in range(8)]
    model.export(tmp_path / "saved", verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(str(tmp_path / "saved"))
    (tmp_path / "float.tflite").write_bytes(converter.convert())
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: ([x] for x in samples)
    (tmp_path / "int8.tflite").write_bytes(converter.convert())
    data = np.concatenate(samples)
    found = [
        jfuse.quantize_report(tmp_path / "int8.tflite", against, data, unsafe=True)
        for against in (tmp_path / "float.tflite", tmp_path / "saved")
    ]
    for report in found:
        assert [t.tensor for t in report.tensors if not t.is_paired] == []
        assert report.unmatched == []
    assert [t.op for t in found[0].tensors].count("conv_2d") == 2
    for mine, theirs in zip(found[0].tensors, found[1].tensors, strict=True):
        assert mine.snr_db == pytest.approx(theirs.snr_db, abs=0.05)


@pytest.mark.slow
def test_a_recurrence_with_its_states() -> None:
    """A fused LSTM has a row for its output and each of its states, whose cell has 16 bits."""
    import keras

    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((6, 4), batch_size=1), keras.layers.LSTM(12), keras.layers.Dense(3)])
    samples = [drawn(1, 6, 4, seed=s) for s in range(8)]
    lite = jfuse.convert(model, quantize="int8", calibration=samples, verify=False, forms=jfuse.Forms(prefer="fused"))
    report = jfuse.quantize_report(lite, data=samples)
    states = [t for t in report.tensors if t.op == "unidirectional_sequence_lstm"]
    assert [t.type[:3] for t in states] == ["i8[", "i8[", "i16"]
    assert all(15 < t.snr_db < 80 and t.is_paired for t in states)
    assert isinstance(lite, Model)
    last = next(t for t in reversed(report.tensors) if t.op == "fully_connected")
    answers = np.stack([lite.run({next(iter(lite.signature().input_names)): x})["output_0"] for x in samples])
    wanted = np.stack([np.asarray(model(x)) for x in samples])
    assert last.snr_db == pytest.approx(snr_db(answers, wanted), abs=0.05)


def test_loops_that_count_apart_are_not_run_as_one() -> None:
    """Float loops take several steps in a turn, the integer loop takes one: each ends by its own count."""
    keras.utils.set_random_seed(0)
    layers = keras.layers.Masking(), keras.layers.LSTM(4), keras.layers.Dense(2)
    model = keras.Sequential([keras.Input((None, 3)), *layers])
    samples = [np.random.default_rng(i).normal(size=(1, 5, 3)).astype(np.float32) for i in range(4)]
    result = jfuse.convert(model, quantize="int8", calibration=samples, verify=False)
    report = jfuse.quantize_report(result, jfuse.convert(model, verify=False), samples)
    assert [text for text in report.unmatched if text.startswith("while")]
    assert {t.op for t in report.tensors if t.is_paired} >= {"fully_connected", "select_v2", "transpose"}


def test_the_quantized_model_comes_first(files: Path) -> None:
    with pytest.raises(JfuseError, match="the model to compare against computes with integers"):
        jfuse.quantize_report(files / "float.tflite", files / "int8.tflite", [CALLS[0]])
