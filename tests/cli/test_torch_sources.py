"""Files of torch.export from the command line, with operators and rules that the user brings along."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from jfuse.cli import app as cli

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

pytestmark = pytest.mark.slow

OPERATOR = """
import torch

@torch.library.custom_op("acme_cli::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2

@twice.register_fake
def _(x):
    return torch.empty_like(x)
"""
RULES = """
import jfuse

@jfuse.lowers_torch("acme_cli.twice", default=False)
def lower_twice(x):
    return jfuse.ops.add(x, x)
"""


def run(*words: Any) -> Any:
    return CliRunner().invoke(cli.app, [str(w) for w in words])


def saved(module: Any, example: Any, path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch.export's own
        program = torch.export.export(module.eval(), (example,), strict=False)
        torch.export.save(program, path)
    return path


def test_a_file_of_torch_export_converts_where_its_author_is_trusted(tmp_path: Path) -> None:
    path = saved(nn.LSTM(3, 4, batch_first=True), torch.zeros(2, 5, 3), tmp_path / "model.pt2")
    refused = run("convert", path, "-o", tmp_path / "m.tflite")
    assert refused.exit_code == 1
    assert "--unsafe" in refused.output
    done = run("convert", path, "-o", tmp_path / "m.tflite", "--unsafe")
    assert done.exit_code == 0, done.output
    assert "unidirectional_sequence_lstm" in run("inspect", tmp_path / "m.tflite").output
    missing = run("convert", tmp_path / "none.pt2", "-o", tmp_path / "m.tflite", "--unsafe")
    assert missing.exit_code == 1
    assert "does not exist" in missing.output


def test_operators_and_rules_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "acme_cli_ops.py").write_text(OPERATOR)
    (tmp_path / "acme_cli_rules.py").write_text(RULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    __import__("acme_cli_ops")

    class Twice(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.ops.acme_cli.twice(x) + 1

    path = saved(Twice(), torch.zeros(3), tmp_path / "twice.pt2")
    words = ["convert", path, "-o", tmp_path / "m.tflite", "--unsafe", "--import", "acme_cli_ops"]
    refused = run(*words)
    assert refused.exit_code == 1
    assert '@jfuse.lowers_torch("acme_cli.twice")' in refused.output
    done = run(*words, "--rules", tmp_path / "acme_cli_rules.py")
    assert done.exit_code == 0, done.output
