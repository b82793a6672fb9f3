"""No command writes over what it reads, nor one file over another: exit code 2, before anything is run."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import get_type_hints

import pytest
from typer.models import OptionInfo
from typer.testing import CliRunner

from jfuse.cli import app as cli
from jfuse.cli.frame import FILES, need_apart

READ = ("a.tflite", "b.tflite", "in.npz", "recipe.json", "labels.txt", "data/1.npz", "sm/saved_model.pb", "rule.py")
READ_OVER = [
    ["quantize", "a.tflite", "--recipe", "dynamic", "-o", "a.tflite"],
    ["quantize", "a.tflite", "--recipe", "dynamic", "-o", "./sub/../a.tflite"],
    ["quantize", "a.tflite", "--recipe", "dynamic", "-o", "soft.tflite"],
    ["quantize", "a.tflite", "--recipe", "dynamic", "-o", "hard.tflite"],
    ["quantize", "a.tflite", "--recipe", "recipe.json", "-o", "recipe.json"],
    ["quantize", "a.tflite", "--recipe", "int8", "--calibration", "in.npz", "-o", "in.npz"],
    ["quantize", "a.tflite", "--recipe", "int8", "--calibration", "data", "-o", "data/1.npz"],
    ["convert", "sm", "-o", "sm/model.tflite"],
    ["convert", "sm", "-o", "o.tflite", "--inputs", "in.npz", "--html", "in.npz"],
    ["convert", "sm", "-o", "o.tflite", "--labels", "y=labels.txt", "--json", "labels.txt"],
    ["convert", "sm", "-o", "o.tflite", "--metadata", "metadata.json", "--json", "labels.txt"],
    ["convert", "sm", "-o", "o.tflite", "--import", "rule", "--json", "rule.py"],
    ["rules", "--rules", "rule.py", "--json", "rule.py"],
    ["verify", "a.tflite", "--against", "b.tflite", "--json", "b.tflite"],
    ["verify", "a.tflite", "--inputs", "in.npz", "--html", "in.npz"],
    ["optimize", "a.tflite", "-o", "o.tflite", "--json", "a.tflite"],
    ["tune", "sm", "-o", "o.tflite", "--timings", "labels.txt", "--json", "labels.txt"],
    ["quantize-report", "a.tflite", "--against", "b.tflite", "--explorer", "b.tflite"],
    ["bench", "a.tflite", "b.tflite", "--png", "b.tflite"],
    ["diff", "a.tflite", "b.tflite", "--json", "b.tflite"],
    ["check", "a.tflite", "--target", "litert", "--json", "a.tflite"],
]
EACH_OTHER = [
    ["convert", "sm", "-o", "new.tflite", "--json", "new.tflite"],
    ["convert", "sm", "-o", "new.h", "--c-array", "new.cc"],
    ["verify", "a.tflite", "--json", "r.txt", "--html", "./r.txt"],
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("data", "sm", "sub"):
        (tmp_path / name).mkdir()
    for name in READ:
        (tmp_path / name).write_text(name)
    (tmp_path / "metadata.json").write_text(json.dumps({"outputs": {"y": {"labels": "labels.txt"}}}))
    (tmp_path / "soft.tflite").symlink_to("a.tflite")
    os.link(tmp_path / "a.tflite", tmp_path / "hard.tflite")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("words", [*READ_OVER, *EACH_OTHER], ids=" ".join)
def test_nothing_is_overwritten(words: list[str], folder: Path) -> None:
    found = CliRunner().invoke(cli.app, words)
    assert found.exit_code == 2, found.output
    assert "would be overwritten" in found.output
    assert all((folder / name).read_text() == name for name in READ)


def test_files_beside_what_is_read_are_written(folder: Path) -> None:
    """A second run, too: in a folder of data only data are read."""
    Path("data/out.tflite").write_text("of an earlier run")
    values = {"source": Path("a.tflite"), "calibration": "data", "output": Path("data/out.tflite"), "json": Path("r")}
    need_apart(values, {name: name for name in values})


def test_every_option_that_names_a_file_to_write_is_known() -> None:
    """Those that take a path which need not be there, and is no folder."""
    paths = set()
    for command in cli.app.registered_commands:
        for name, hint in get_type_hints(command.callback, include_extras=True).items():
            info = getattr(hint, "__metadata__", (None,))[0]
            if isinstance(info, OptionInfo) and "Path" in str(hint) and not info.exists and info.file_okay:
                paths.add(name)
    assert paths >= FILES
    assert paths - FILES <= {"against", "folder"}
