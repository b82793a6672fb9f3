"""`jfuse verify`: exit codes, the table, the command that shows a failure again, and the files it writes."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from jfuse.cli import app as cli
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run() -> Run:
    runner = CliRunner()
    return lambda *words: runner.invoke(cli.app, ["verify", *map(str, words)])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two files; the second doubles what the first does."""
    folder = tmp_path_factory.mktemp("files")
    for name, factor in (("one", 1.0), ("two", 2.0)):
        graph = trace_graph(lambda x, f=factor: ops.mul(ops.tanh(x), f), [TensorType((symbol("B"), 3), DType.f32)])
        program = Program((Signature("serving_default", graph, ("x",), ("y",)),))
        (folder / f"{name}.tflite").write_bytes(to_bytes(program))
    return folder / "one.tflite", folder / "two.tflite"


def test_files_that_agree(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(files[0], "--against", files[0], "--samples", 20, "--size", "B=4", "--json", tmp_path / "found.json")
    assert done.exit_code == 0, done.output
    assert "litert/xla" in done.output
    assert "f32 sums in another order" in done.output
    assert "31 calls compared" in done.output  # 3 in a row, 8 edges, 20 samples
    assert json.loads((tmp_path / "found.json").read_text())["samples"] == 31
    assert run(files[0]).exit_code == 0
    assert "xla/litert" in run(files[0]).output


def test_files_that_differ(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    done = run(*files[:1], "--against", files[1], "--save-failing", tmp_path, "--html", tmp_path / "found.html")
    assert done.exit_code == 1
    assert "output 'y' of signature 'serving_default' differs (litert/xla)" in done.output
    assert "mul" in (tmp_path / "found.html").read_text()
    (failing,) = tmp_path.glob("*.npz")
    line = next(line for line in done.output.splitlines() if "shows it again" in line)
    words = shlex.split(line.split("try", 1)[1].removesuffix("shows it again"))
    assert words[:2] == ["jfuse", "verify"]
    assert run(*words[2:], "--save-failing", tmp_path / "again").exit_code == 1
    with np.load(failing) as saved:
        assert [saved[name].shape for name in saved.files] == [(1, 3)]


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["absent.tflite"], 1, "does not exist"),
        (["{one}", "--against", "absent"], 1, "does not exist"),
        (["{one}", "--size", "Q=3"], 1, "no open size is called 'Q'"),
        (["{one}", "--size", "three"], 2, "write it as B=4"),
        (["{one}", "--device", "abacus"], 1, "LiteRT does not start on the device 'abacus'"),
        (["{one}", "--device", "tpu"], 1, "there is no device"),
        (["{one}", "--edges", "sharp"], 2, "is none of none, infinite, finite, nan"),
        (["{one}", "--calls", "0"], 2, "greater than or equal to 1"),
        (["{one}", "--json", "absent/found.json"], 2, "no such folder"),
        ([], 2, "Missing argument"),
        (["{one}", "--sideways"], 2, "No such option"),
    ],
)
def test_what_cannot_be_compared(run: Run, files: tuple[Path, Path], words: list[str], code: int, message: str) -> None:
    done = run(*(files[0] if word == "{one}" else word for word in words))
    assert done.exit_code == code
    assert message in done.output
