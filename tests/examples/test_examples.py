"""Every example runs as it stands, in a folder of its own, and its file answers like TensorFlow."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from jfuse.lowering.rules import DEFAULT
from jfuse.measure import relative_error
from jfuse.running.interpreter import LiteRt

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
def own_rules() -> Iterator[None]:
    """Take back what an example registers."""
    before = dict(DEFAULT.fuses)
    yield
    DEFAULT.fuses.clear()
    DEFAULT.fuses.update(before)


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
