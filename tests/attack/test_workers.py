"""LiteRT runs in a process of its own: whatever ends or holds it, this one goes on, and the error tells what it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.errors import KernelFailed
from jfuse.ir.graph import Program
from jfuse.kernels import ops
from jfuse.limits import Limits
from jfuse.running import loaded_file
from jfuse.running.interpreter import LiteRt
from jfuse.running.worker import LiteRtFailed
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.programs import KEY, f32, i32, program

LEAST = np.full(4, -(2**31), np.int32)


def dividing() -> Program:
    """LiteRT's FLOOR_MOD divides the least number by -1, which the processor refuses (measured on 2.3.0)."""
    return program(lambda x, y: ops.add(ops.floor_mod(ops.maximum(x, -(2**31)), y), 1), i32(4), i32(4))


CRASH = {"x0": LEAST, "x1": np.full(4, -1, np.int32)}
GOOD = {"x0": np.arange(4, dtype=np.int32), "x1": np.full(4, 3, np.int32)}
ENDLESS = {"x0": np.zeros((), np.int32), "x1": np.zeros((), np.int32), "x2": np.zeros((2, 3), np.float32)}


def worker_pid() -> int:
    return loaded_file._SHARED.worker().pid


def large() -> Program:
    return program(lambda x: ops.tile(x, np.array([8000, 8000], np.int32)), f32(4, 4))


@pytest.mark.parametrize(
    ("make", "inputs", "limits", "cause", "message"),
    [
        (dividing, CRASH, Limits(), "crash", "takes its process down, in a call of .*\n.*SIGFPE"),
        (programs.loop, ENDLESS, Limits(seconds=0.5), "time", "does not come to an end, in a call.*\n.*within 0.5 s"),
        (
            large,
            {"x0": np.ones((4, 4), np.float32)},
            Limits(memory_bytes=2**28),
            "memory",
            "more memory than it may take, in a call.*\n.*at most 268,435,456 bytes",
        ),
    ],
)
def test_what_a_file_does_to_its_process(
    make: Any, inputs: dict[str, np.ndarray], limits: Limits, cause: str, message: str
) -> None:
    with pytest.raises(LiteRtFailed, match=message) as failed:
        LiteRt(to_bytes(make()), limits=limits).run(KEY, inputs)
    assert failed.value.cause == cause
    assert failed.value.calls[0][0] == KEY
    found = LiteRt(to_bytes(dividing())).run(KEY, GOOD)["y0"]
    np.testing.assert_array_equal(found, GOOD["x0"] % 3 + 1)  # in another process


@pytest.mark.parametrize(
    ("number", "cause", "message"),
    [
        (signal.SIGKILL, "killed", "was ended from outside, in a call.*\n.*SIGKILL.*\n.*run it again"),
        (signal.SIGTERM, "killed", "was ended from outside"),
        (signal.SIGSTOP, "stopped", "was stopped from outside.*\n.*within 1 s"),
    ],
)
def test_what_others_do_to_it(number: signal.Signals, cause: str, message: str) -> None:
    started = time.monotonic()
    lite = LiteRt(to_bytes(programs.loop()), limits=Limits(seconds=1.0))
    threading.Timer(0.3, os.kill, (worker_pid(), number)).start()
    with pytest.raises(LiteRtFailed, match=message) as failed:
        lite.run(KEY, ENDLESS)
    assert failed.value.cause == cause
    assert time.monotonic() - started < 30


def test_verification_names_the_call_and_the_operator(tmp_path: Path) -> None:
    calls = [GOOD, GOOD, CRASH]
    with pytest.raises(jfuse.VerifyFailed, match=r"the 3rd of a row at floor_mod") as failed:
        jfuse.verify(to_bytes(dividing()), inputs=calls, save_failing=tmp_path)
    assert len(failed.value.verification.inputs) == 3
    assert failed.value.verification.failing == tmp_path / "failing-sample.npz"
    with pytest.raises(jfuse.JfuseError, match=r"within 0.5 s"):  # of LiteRT or of XLA, whichever is asked first
        jfuse.verify(to_bytes(programs.loop()), inputs=ENDLESS, limits=Limits(seconds=0.5))


def test_states_that_went_with_their_process_are_told() -> None:
    kept = LiteRt(to_bytes(dividing()))
    kept.run(KEY, GOOD)
    loaded_file._SHARED.close()
    with pytest.raises(KernelFailed, match="and with it what the file kept between calls"):
        kept.run(KEY, GOOD)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_starts_its_own() -> None:
    lite = LiteRt(to_bytes(dividing()))
    pid = worker_pid()
    script = (
        "import os; from jfuse.running import loaded_file as f; a = f._SHARED.worker().pid\n"
        "child = os.fork()\n"
        "if not child: b = f._SHARED.worker().pid; f._SHARED.close(); os._exit(b == a)\n"
        "assert os.waitpid(child, 0)[1] == 0; os.kill(a, 0); print(a)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(found.stdout) != pid
    lite.run(KEY, GOOD)


def test_no_worker_outlives_its_parent() -> None:
    script = "import time; from jfuse.running import loaded_file as f; print(f._SHARED.worker().pid, flush=True); "
    parent = subprocess.Popen([sys.executable, "-c", script + "time.sleep(60)"], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 20
    while _runs(worker) and time.monotonic() < until:
        time.sleep(0.1)
    assert not _runs(worker)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
