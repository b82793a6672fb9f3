"""Signals at any moment of a command: no traceback, nothing left in temporary folders, no process that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
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
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("delay", [0.2, 1.0, 2.5, 4.0])
def test_a_command_that_is_ended(number: signal.Signals, delay: float, tmp_path: Path) -> None:
    model, folder = tmp_path / "loop.tflite", tmp_path / "tmp"
    model.write_bytes(to_bytes(programs.lstm()))
    folder.mkdir()
    tag = f"JFUSE_TEST_TAG={tmp_path.name}-{os.getpid()}"
    environment = {**os.environ, "TMPDIR": str(folder), "JFUSE_TEST_TAG": tag.partition("=")[2]}
    command = [sys.executable, "-c", "from jfuse.cli import main; main()", "verify", str(model), "--samples", "5000"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, cwd=tmp_path
    )
    time.sleep(delay)
    process.send_signal(number)
    _, said = process.communicate(timeout=120)
    # Before the handlers stand, Python's own end the process.
    assert process.returncode in {-number, 128 + number} or (delay > 1 and process.returncode == 0)
    assert "Traceback" not in said or delay < 1
    assert list(folder.iterdir()) == []
    until = time.monotonic() + 20
    while _with(tag) and time.monotonic() < until:
        time.sleep(0.1)
    assert _with(tag) == []


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
