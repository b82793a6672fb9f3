"""The notebook runs from top to bottom, and shows what it says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parents[2] / "examples" / "keras_lstm_fusion.ipynb"


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(NOTEBOOK.parents[1]), os.environ.get("PYTHONPATH", "")]))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "committed without outputs"
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]
    pages = [output["data"]["text/html"] for output in shown if "text/html" in output.get("data", {})]
    assert ["<table>" in page for page in pages] == [True, False]
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in pages[0]
    assert "<iframe" in pages[1]
    assert sum("image/png" in output.get("data", {}) for output in shown) == 3
    (accuracies,) = (eval(o["text"]) for o in shown if o.get("name") == "stdout" and o["text"].startswith("{"))
    assert accuracies["float"] > 0.9
    assert abs(accuracies["int8"] - accuracies["float"]) < 0.01
    assert (tmp_path / "waves_int8.tflite").stat().st_size < 0.6 * (tmp_path / "waves.tflite").stat().st_size
