"""Every example runs as it stands, in a folder of its own, and its file answers like TensorFlow."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jfuse.base.measure import relative_error
from jfuse.lowering.defaults import default_rules
from jfuse.running.interpreter import LiteRt

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def own_rules() -> Iterator[None]:
    """Take back what an example registers."""
    before = dict(default_rules().fuses)
    yield
    default_rules().fuses.clear()
    default_rules().fuses.update(before)


@pytest.mark.usefixtures("own_rules")
def test_own_cell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = runpy.run_path(str(EXAMPLES / "own_cell.py"))
    assert len((EXAMPLES / "own_cell.py").read_text().splitlines()) < 40
    (fusion,) = ran["result"].report.fused
    assert (fusion.composite, fusion.becomes) == ("acme.PeepholeLstm", ("UNIDIRECTIONAL_SEQUENCE_LSTM",))
    interpreter = LiteRt((tmp_path / "own_cell.tflite").read_bytes())
    generator = np.random.default_rng(1)
    for batch in (1, 4, 2):
        x = generator.standard_normal((batch, 12, 8)).astype(np.float32)
        (found,) = interpreter.run("serving_default", {"x": x}).values()
        assert relative_error(found, ran["model"](x).numpy()) < 1e-5  # 20-term sums in f32 over 12 steps


@pytest.mark.usefixtures("own_rules")
def test_own_lstm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = runpy.run_path(str(EXAMPLES / "own_lstm.py"))
    (fusion,) = ran["result"].report.fused
    assert (fusion.composite, fusion.rule) == ("acme.ProjectedLstm", "fuse_projected_lstm")
    assert fusion.cell == "LSTM of 16 units, 8 inputs, 12 steps; peepholes, projection to 6"
    interpreter = LiteRt((tmp_path / "own_lstm.tflite").read_bytes())
    generator = np.random.default_rng(1)
    for batch in (1, 4, 2):
        x, c = (generator.standard_normal(s).astype(np.float32) for s in ((batch, 12, 8), (batch, 16)))
        found = interpreter.run("serving_default", {"x": x, "c": c})
        for name, wanted in ran["model"](x, c).items():
            assert relative_error(found[name], wanted.numpy()) < 1e-5  # 20-term sums in f32 over 12 steps


def test_compiled_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ran = runpy.run_path(str(EXAMPLES / "compiled_model.py"))
    ran["model"].layers[1].reset_states()
    for x, answer in zip(ran["pieces"], ran["answers"], strict=True):
        assert relative_error(answer[None], np.asarray(ran["model"](x))) < 1e-5  # 20-term sums in f32 over 8 steps


def test_micro(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The program needs tflite-micro's library; what needs none is compiled here, and the model runs."""
    pytest.importorskip("tflite_micro", reason="the wheel is for Python 3.11 alone")
    monkeypatch.chdir(tmp_path)
    ran = runpy.run_path(str(EXAMPLES / "micro" / "model.py"))
    assert {d.pair for d in ran["result"].report.differences} >= {"tensorflow/tflite-micro"}
    assert "tflite-micro: takes the file" in capsys.readouterr().out
    main = (EXAMPLES / "micro" / "main.cc").read_text()
    made = {name: (tmp_path / name).read_text() for name in ("keywords.cc", "keywords.h", "keywords_ops.h")}
    for name in ("keywords", "keywords_arena_bytes", "keywords_op_count", "keywords_add_ops"):
        assert name in main
        assert name in made["keywords.h"] + made["keywords_ops.h"]
    assert "resolver.AddUnidirectionalSequenceLSTM()" in made["keywords_ops.h"]
    listed = (EXAMPLES / "micro" / "README.md").read_text()
    assert all(f"`{name}`" in listed for name in (*made, "main.cc", "model.py", "keywords.tflite"))
    if shutil.which("g++"):
        compiled = subprocess.run(
            ["g++", "-std=c++17", "-Wall", "-Werror", "-c", "keywords.cc"], check=False, timeout=60
        )
        assert compiled.returncode == 0


@pytest.mark.slow
def test_a_package_with_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Installed by pip, its rule is one of the command line's."""
    import tensorflow as tf

    @tf.function(experimental_implements="acme.softsign")
    def softsign(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.softsign(x)

    module = tf.Module()
    module.call = tf.function(softsign, input_signature=[tf.TensorSpec([None, 3], name="x")], autograph=False)
    tf.saved_model.save(module, str(tmp_path / "model"), signatures=module.call.get_concrete_function())
    package, site = tmp_path / "package", tmp_path / "site"
    shutil.copytree(EXAMPLES / "rules_package", package)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", "--target", str(site)]
    subprocess.run([*pip, str(package)], check=True, timeout=120)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(EXAMPLES.parent)]))
    command = [sys.executable, "-c", "from jfuse.cli import main; main()"]
    convert = [*command, "convert", str(tmp_path / "model"), "-o", str(tmp_path / "model.tflite")]
    said = subprocess.run(convert, check=True, timeout=300, capture_output=True, text=True).stdout
    assert "acme.softsign at" in said
    listed = subprocess.run([*command, "rules"], check=True, timeout=300, capture_output=True, text=True).stdout
    assert "fuse_softsign" in listed
    x = np.linspace(-2, 2, 6, dtype=np.float32).reshape(2, 3)
    (found,) = LiteRt((tmp_path / "model.tflite").read_bytes()).run("serving_default", {"x": x}).values()
    np.testing.assert_allclose(found, x / (1 + np.abs(x)), rtol=1e-6)
