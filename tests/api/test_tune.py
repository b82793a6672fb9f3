"""`jfuse.tune`: the fastest form of each recurrence, by given times and by measurement."""

from __future__ import annotations

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import layers
from typer.testing import CliRunner

import jfuse
from jfuse.api.benchmark_output import benchmark_times
from jfuse.base.errors import JfuseError
from jfuse.cli import app as cli
from tests.api.test_optimize import answers

STEPS, FEATURES = 12, 4


def model(*recurrences: keras.layers.Layer) -> keras.Model:
    keras.utils.set_random_seed(0)
    x = y = keras.Input((STEPS, FEATURES), batch_size=1, name="x")
    for layer in recurrences:
        y = layer(y)
    return keras.Model(x, y)


def printed(name: str, us: float) -> str:
    """What benchmark_model prints of one file, the lines around the times left out."""
    return (
        f"INFO: STARTING!\nINFO: Graph: [/data/local/tmp/{name}.tflite]\nINFO: Loaded model\n"
        f"INFO: Inference timings in us: Init: 511, First inference: 99, Warmup (avg): 50.5, Inference (avg): {us}\n"
    )


def test_times_of_a_device_are_read(tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text(printed("r0-x2-0a", 12.5) + printed("r0-unrolled-1b", 1.5e3) + printed("r0-x2-0a", 11))
    two.write_text("INFO: Inference timings in us: Init: 5, Inference (avg): 3\n")
    assert benchmark_times([one]) == {"r0-x2-0a": 11.0, "r0-unrolled-1b": 1500.0}
    with pytest.raises(JfuseError, match="there are no times in this text"):
        benchmark_times([two])


@pytest.mark.parametrize("fastest", ["x", "unrolled"])
def test_the_form_that_a_device_runs_fastest_is_taken(fastest: str, tmp_path: Path) -> None:
    source = model(layers.GRU(3))
    # A target whose times cannot be had here: the candidates are written, and nothing is timed.
    untimed = jfuse.tune(source, target="tflite-micro", candidates=tmp_path, verify=False)
    assert not untimed.report.tuned
    assert any("nothing was timed" in note for note in untimed.report.notes)
    names = sorted(path.stem for path in tmp_path.glob("*.tflite"))
    log = tmp_path / "log.txt"
    is_fast = {n: (fastest == "unrolled") is (n.startswith("chosen") or "unrolled" in n) for n in names}
    log.write_text("".join(printed(n, 10 + i if is_fast[n] else 100 + i) for i, n in enumerate(names)))
    result = jfuse.tune(source, target="tflite-micro", timings=[log], verify=False)
    (tuned,) = result.report.tuned
    assert tuned.chosen.startswith(fastest)
    assert min(tuned.microseconds.values()) == tuned.microseconds[tuned.chosen]
    assert ("while" in result.report.operators) is (fastest == "x")


def test_times_of_another_model_are_refused(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    log.write_text(printed("chosen-00000000", 10) + printed("r0-x1-00000000", 5))
    with pytest.raises(JfuseError, match="of other files than this model's candidates"):
        jfuse.tune(model(layers.GRU(3)), timings=[log], verify=False)


def test_a_form_that_is_asked_for_is_taken_and_the_operator_refused() -> None:
    loaded = jfuse.load(model(layers.SimpleRNN(3)))
    (fusion,) = jfuse.lower(loaded).report.fused
    lowered = jfuse.lower(loaded, forms=jfuse.Forms(by_source={fusion.source: "x2"}))
    assert [r.condition for r in lowered.report.refused] == ["another_form"]
    assert [loop.form for loop in lowered.report.loops] == ["WHILE, 2 steps a turn"]
    expected = lowered.report.loops[0].forms
    assert "unrolled" in expected
    assert any(form.startswith("x") for form in expected)
    with pytest.raises(JfuseError, match="by_source= has no such form"):
        jfuse.lower(loaded, forms=jfuse.Forms(by_source={fusion.source: "fast"}))


@pytest.mark.slow
def test_a_model_is_tuned_on_this_machine(tmp_path: Path) -> None:
    source = model(layers.LSTM(3, return_sequences=True), layers.GRU(3))
    source.save(tmp_path / "model.keras")
    out = tmp_path / "out.tflite"
    done = CliRunner().invoke(cli.app, ["tune", str(tmp_path / "model.keras"), "-o", str(out)])
    assert done.exit_code == 0, done.output
    assert done.output.count("tuned: ") == 2
    x = np.random.default_rng(3).standard_normal((1, STEPS, FEATURES)).astype(np.float32)
    # The same five calls as `answers` makes; the model keeps nothing, so that TensorFlow needs one.
    np.testing.assert_allclose(answers(out.read_bytes())[0], np.asarray(source(x)).reshape(-1), atol=1e-5)
