"""Every command that writes, on a disk that is full: one clear error, and no file that is half written."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.cli import app as cli
from jfuse.frontends.example_model import export_example
from jfuse.tflite.write.file import to_bytes
from tests.api.files import projected_first
from tests.slow import slow_but
from tests.tflite import programs

FULL = os.strerror(errno.ENOSPC)
ROOM = 40  # bytes that each file finds


@dataclass(frozen=True)
class Models:
    """A SavedModel of an LSTM; files of a dense layer, with other weights, in integers, and of an unrolled LSTM."""

    source: Path
    file: Path
    other: Path
    small: Path
    unrolled: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    root = tmp_path_factory.mktemp("models")
    found = Models(root / "source", *(root / f"{name}.tflite" for name in ("file", "other", "small", "unrolled")))
    export_example(found.source)
    found.file.write_bytes(to_bytes(programs.dense()))
    found.other.write_bytes(to_bytes(programs.dense()).replace(programs.BIAS.tobytes(), (programs.BIAS + 1).tobytes()))
    jfuse.quantize(found.file, "dynamic", verify=False).save(found.small)
    found.unrolled.write_bytes(projected_first("lstm"))
    return found


class _OnDisk:
    """A file on the full disk."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self._room = ROOM

    def write(self, data: Any) -> Any:
        """As far as there is room."""
        self._file.write(data[: self._room])
        self._room -= len(data)
        if self._room < 0:
            raise OSError(errno.ENOSPC, FULL)
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _OnDisk:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on a disk that is full; what is opened elsewhere is as it is."""
    folder = tmp_path / "disk"
    folder.mkdir()
    opened = Path.open

    def on_disk(path: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        file = opened(path, mode, *args, **kwargs)
        writes = bool(set("wxa+") & set(mode)) and path.resolve().is_relative_to(folder)
        return _OnDisk(file) if writes else file

    monkeypatch.setattr(Path, "open", on_disk)
    return folder


CONVERT, QUANTIZE = "convert {source} --no-verify -o", "quantize {file} --recipe dynamic -o"
REPORT, BENCH = "quantize-report {small} --against {file}", "bench {file} --seconds 0.01 --threads 1 --no-profile"
COMMANDS: dict[str, str] = {
    "convert": f"{CONVERT} {{disk}}/m.tflite",
    "convert, page": f"{CONVERT} {{out}}/m.tflite --html {{disk}}/m.html",
    "convert, report": f"{CONVERT} {{out}}/m.tflite --json {{disk}}/m.json",
    "convert, C++": f"{CONVERT} {{out}}/m.tflite --c-array {{disk}}/m.cc",
    "convert, stages": f"{CONVERT} {{out}}/m.tflite --dump-dir {{disk}}",
    "inspect, page": "inspect {file} --html {disk}/m.html",
    "explain": "explain {source} --json {disk}/m.json",
    "quantize": f"{QUANTIZE} {{disk}}/m.tflite",
    "quantize, report": f"{QUANTIZE} {{out}}/m.tflite --json {{disk}}/m.json",
    "quantize-report": f"{REPORT} --json {{disk}}/m.json",
    "quantize-report, page": f"{REPORT} --html {{disk}}/m.html",
    "quantize-report, explorer": f"{REPORT} --explorer {{disk}}/m.json",
    "optimize": "optimize {unrolled} -o {disk}/m.tflite",
    "optimize, the file as it is": "optimize {file} -o {disk}/m.tflite",
    "optimize, report": "optimize {file} -o {out}/m.tflite --json {disk}/m.json",
    "tune": "tune {file} -o {disk}/m.tflite",
    "tune, candidates": "tune {source} -o {out}/m.tflite --candidates {disk}",
    "tune, report": "tune {file} -o {out}/m.tflite --json {disk}/m.json",
    "verify, report": "verify {file} --calls 1 --json {disk}/m.json",
    "verify, page": "verify {file} --calls 1 --html {disk}/m.html",
    "verify, failing samples": "verify {file} --against {other} --calls 1 --save-failing {disk}",
    "check": "check {file} --target tflite-micro --json {disk}/m.json",
    "bench": f"{BENCH} --json {{disk}}/m.json",
    "bench, page": f"{BENCH} --html {{disk}}/m.html",
    "diff": "diff {file} {other} --json {disk}/m.json",
    "ops": "ops Conv2D --json {disk}/m.json",
    "rules": "rules --json {disk}/m.json",
}
_SLOW = ("bench", "tune", "quantize-report", "optimize", "verify, failing")


@pytest.mark.parametrize("name", slow_but(lambda name: not name.startswith(_SLOW), COMMANDS))
def test_commands(name: str, models: Models, disk: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    places = {field: getattr(models, field) for field in models.__dataclass_fields__}
    words = [word.format(**places, disk=disk, out=tmp_path / "out") for word in COMMANDS[name].split()]
    targets = [Path(word) for word in words if Path(word).parent == disk]
    for target in targets:
        target.touch()
        os.truncate(target, 10)
    before = {p: p.read_bytes() for p in targets}
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code in (1, 2), done.output
    assert isinstance(done.exception, SystemExit), done.exception
    assert done.output.count(FULL) == 1, done.output
    assert "jfuse itself failed" not in done.output
    assert {p: p.read_bytes() for p in disk.iterdir()} == before
    for made in (tmp_path / "out").iterdir():
        jfuse.load(made)


@pytest.mark.parametrize(
    "words", slow_but("--version".__eq__, ["--version", "ops", "convert --help", "inspect {file}"])
)
def test_what_is_printed(words: str, models: Models) -> None:
    command = [sys.executable, "-c", "from jfuse.cli import main; main()", *words.format(file=models.file).split()]
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (1, f"cannot read or write: [Errno {errno.ENOSPC}] {FULL}\n")
