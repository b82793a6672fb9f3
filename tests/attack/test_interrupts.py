"""Signals at any moment of a command: no traceback, nothing left in temporary folders, no process that goes on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs

SWALLOWED = """
import gc, os, signal, time
from jfuse.cli import interrupts
interrupts.install()
def callback(phase, info):
    if phase == "start":
        os.kill(os.getpid(), signal.SIGINT)
gc.callbacks.append(callback)
gc.collect()
gc.callbacks.clear()
time.sleep(10)
print("went on")
"""


def test_an_interrupt_in_a_callback_of_the_collector_is_not_lost() -> None:
    found = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


def test_nothing_is_written_after_one_that_was_swallowed() -> None:
    script = SWALLOWED.replace("time.sleep(10)", "interrupts.need_none()")
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "delay"),
    [(n, d) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL) for d in (0.2, 2.5)]
    + [(signal.SIGINT, 1.0), (signal.SIGTERM, 4.0)],
)
def test_a_command_that_is_ended(number: signal.Signals, delay: float, tmp_path: Path) -> None:
    model, folder = tmp_path / "loop.tflite", tmp_path / "tmp"
    model.write_bytes(to_bytes(programs.lstm()))
    folder.mkdir()
    command = [sys.executable, "-c", "from jfuse.cli import main; main()", "verify", str(model), "--samples", "5000"]
    with _started(command, folder, tmp_path) as process:
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=120)
    # Before the handlers stand, Python's own end the process.
    assert process.returncode in {-number, 128 + number} or (delay > 1 and process.returncode == 0)
    assert "Traceback" not in said or delay < 1


AT_A_STAGE = """
import os, sys, threading
from contextlib import contextmanager
from jfuse.cli import console, main
stage, number = sys.argv.pop(1), int(sys.argv.pop(1))
progress = console.progress
@contextmanager
def watched():
    with progress() as on_stage:
        first = iter([True])
        def at(name):
            on_stage(name)
            if name.startswith(stage) and next(first, False):
                threading.Timer(0.03, os.kill, (os.getpid(), number)).start()
        yield at
console.progress = watched
main()
"""
STAGES = [
    ("convert {folder} -o new.tflite", "verify", signal.SIGINT),
    ("convert {folder} -o new.tflite --html new.html", "verify", signal.SIGTERM),
    ("quantize {file} -o new.tflite --recipe int8 --calibration random", "quantize", signal.SIGTERM),
    ("quantize {file} -o new.tflite --recipe int8 --calibration random", "verify", signal.SIGINT),
    ("optimize {file} -o new.tflite", "recover", signal.SIGTERM),
    ("optimize {file} -o new.tflite", "measure", signal.SIGINT),
    ("optimize {file} -o new.tflite", "measure", signal.SIGKILL),
    ("tune {folder} -o new.tflite", "verify", signal.SIGTERM),
    ("tune {folder} -o new.tflite", "measure", signal.SIGKILL),
    ("bench {small} --seconds 0.1 --threads 1 --json new.json --html new.html", "converting: jfuse", signal.SIGINT),
    ("bench {small} --seconds 0.1 --threads 1 --json new.json --html new.html", "converting: jfuse", signal.SIGKILL),
    ("bench {small} --seconds 0.1 --threads 1 --json new.json --html new.html", "measure: 1", signal.SIGTERM),
    ("bench {small} --seconds 0.1 --threads 1 --json new.json --html new.html", "comparing", signal.SIGKILL),
]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """A SavedModel of an LSTM, a file of one that is unrolled, and one without recurrences."""
    from jfuse.frontends.example_model import export_example
    from tests.api.files import projected_first

    root = tmp_path_factory.mktemp("models")
    export_example(root / "folder")
    (root / "file.tflite").write_bytes(projected_first("lstm"))
    (root / "small.tflite").write_bytes(to_bytes(programs.dense()))
    return {name: next(root.glob(f"{name}*")) for name in ("folder", "file", "small")}


@pytest.mark.slow
@pytest.mark.parametrize(("command", "stage", "number"), STAGES)
def test_a_command_that_is_ended_at_a_stage(
    command: str, stage: str, number: signal.Signals, models: Mapping[str, Path], tmp_path: Path
) -> None:
    temporary, folder = tmp_path / "tmp", tmp_path / "work"
    temporary.mkdir()
    folder.mkdir()
    words = [word.format(**models) for word in command.split()]
    with _started([sys.executable, "-c", AT_A_STAGE, stage, str(int(number)), *words], temporary, folder) as process:
        printed, said = process.communicate(timeout=240)
    assert (process.returncode, said) == (-number if number == signal.SIGKILL else 128 + number, "")
    assert "written" not in printed
    left = list(folder.iterdir())
    if (stage, number) != ("comparing", signal.SIGKILL):
        assert left == []
    for path in left:  # the last stage: the figures may be there, whole
        json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def _started(command: Sequence[str], temporary: Path, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command in a folder; soon after its end it has left no temporary file and no process.

    temporary: where it is to make its temporary files.
    """
    tag = f"{folder.parent.name}-{folder.name}-{os.getpid()}-{time.time_ns()}"
    environment = {**os.environ, "TMPDIR": str(temporary), "JFUSE_TEST_TAG": tag}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=folder
    )
    yield process
    until = time.monotonic() + 20
    while (_with(f"JFUSE_TEST_TAG={tag}") or any(temporary.iterdir())) and time.monotonic() < until:
        time.sleep(0.1)
    assert _with(f"JFUSE_TEST_TAG={tag}") == []
    assert list(temporary.iterdir()) == []


def _with(tag: str) -> list[str]:
    """The processes with this entry in their environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if tag.encode() in (process / "environ").read_bytes():
                found.append(process.name)
        except OSError:
            continue
    return found
