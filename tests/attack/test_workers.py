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
from jfuse.base.errors import KernelFailed
from jfuse.base.limits import Limits
from jfuse.ir.graph import Program
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.running import loaded_file
from jfuse.running.interpreter import LiteRt
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.micro import MicroInterpreter, has_micro
from jfuse.running.programs.guarded_run import guarded_run
from jfuse.running.worker import LiteRtFailed
from jfuse.tflite.write.file import to_bytes
from tests.slow import slow_but
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


def endless() -> Program:
    """In fixed sizes, as tflite-micro takes no others; from 0 it never ends."""

    def main(a: Any, b: Any) -> Any:
        bodies = (lambda a, b: ops.less(a, 40), lambda a, b: (b, ops.add(a, b)))
        return ops.while_([a, b], [trace_graph(body, [i32(), i32()], "part") for body in bodies])

    return program(main, i32(), i32())


def sliced() -> Program:
    """tflite-micro's SLICE reads wherever it is told to (measured on 0.dev20261023)."""
    return program(lambda x, at: ops.slice_(x, at, np.array([2, 2], np.int32)), f32(4, 4), i32(2))


def wide() -> Program:
    return program(lambda x: ops.add(x, np.ones((1000, 1000), np.float32)), f32(1000, 1000))


ZEROS = {"x0": np.zeros((), np.int32), "x1": np.zeros((), np.int32)}


class Shared:
    """The one process of LiteRT that single calls share."""

    crash, memory = (dividing, CRASH), (large, {"x0": np.ones((4, 4), np.float32)}, 2**28)
    good = dividing, GOOD

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._lite = LiteRt(data, limits=limits)
        self.pid = worker_pid()

    def run(self, inputs: dict[str, np.ndarray]) -> Any:
        return self._lite.run(KEY, inputs)["y0"]

    def close(self) -> None:
        pass  # it lives as long as this process


class Batches:
    """A process for each core, for many samples; the last one meets the death."""

    crash, memory, good = Shared.crash, Shared.memory, Shared.good

    def __init__(self, data: bytes, limits: Limits) -> None:
        self._workers = LiteRtWorkers(data, count=2, limits=limits)
        self.pid = self._workers._started()[1].pid

    def run(self, inputs: dict[str, np.ndarray]) -> Any:
        first = {name: a if a.ndim else np.ones_like(a) for name, a in inputs.items()}  # from 1 the loop ends
        return self._workers.run({name: np.stack([first[name], a, a]) for name, a in inputs.items()}, KEY)["y0"][0]

    def close(self) -> None:
        self._workers.close()


class Micro:
    """A process of tflite-micro."""

    crash = sliced, {"x0": np.ones((4, 4), np.float32), "x1": np.full(2, 2**28, np.int32)}
    memory = wide, {"x0": np.ones((1000, 1000), np.float32)}, 2**24
    good = endless, {"x0": np.ones((), np.int32), "x1": np.ones((), np.int32)}

    def __init__(self, data: bytes, limits: Limits) -> None:
        if not has_micro():
            pytest.skip("tflite-micro's interpreter is not installed")
        self._interpreter = MicroInterpreter(data, limits)
        self.pid = self._interpreter._worker.pid

    def run(self, inputs: dict[str, np.ndarray]) -> Any:
        return self._interpreter.run(inputs)["y0"]

    def close(self) -> None:
        self._interpreter.close()


POOLS: tuple[type[Any], ...] = (Shared, Batches, Micro)
BY_ITSELF = ("crash", "time", "memory")
FROM_OUTSIDE = {signal.SIGKILL: "killed", signal.SIGTERM: "killed", signal.SIGSTOP: "stopped"}
SAYS = {
    "crash": r"takes its process down(.|\n)*SIG(FPE|SEGV)",
    "time": r"does not come to an end(.|\n)*within 1 s",
    "memory": r"more memory than it may take(.|\n)*at most [\d,]+ bytes",
    "killed": r"was ended from outside(.|\n)*SIG(KILL|TERM)(.|\n)*run it again",
    "stopped": r"was stopped from outside(.|\n)*within 1 s",
}


@pytest.mark.parametrize(
    ("pool", "cause"),
    slow_but(lambda row: row[0] is Shared or row[1] == "crash", [(p, c) for p in POOLS for c in BY_ITSELF]),
)
def test_what_a_file_does_to_its_process(pool: Any, cause: str) -> None:
    make, inputs, *most = {"crash": pool.crash, "time": (endless, ZEROS), "memory": pool.memory}[cause]
    limits = Limits(seconds=1.0 if cause == "time" else None, memory_bytes=most[0] if most else 2**34)
    with pytest.raises(LiteRtFailed, match=SAYS[cause]) as failed:
        pool(to_bytes(make()), limits).run(inputs)
    assert failed.value.cause == cause
    make, inputs = pool.good
    another = pool(to_bytes(make()), Limits())
    assert np.asarray(another.run(inputs)).size
    another.close()


@pytest.mark.parametrize(
    ("pool", "number"), slow_but(lambda row: row[0] is Shared, [(p, n) for p in POOLS for n in FROM_OUTSIDE])
)
def test_what_others_do_to_it(pool: Any, number: signal.Signals) -> None:
    started = time.monotonic()
    process = pool(to_bytes(endless()), Limits(seconds=1.0))
    threading.Timer(0.3, os.kill, (process.pid, number)).start()
    cause = FROM_OUTSIDE[number]
    with pytest.raises(LiteRtFailed, match=SAYS[cause]) as failed:
        process.run(ZEROS)
    assert failed.value.cause == cause
    assert time.monotonic() - started < 30
    process.close()
    if pool is Micro:
        with pytest.raises(KernelFailed, match="process has ended"):
            process.run(ZEROS)


@pytest.mark.slow
@pytest.mark.skipif(not has_micro(), reason="tflite-micro's interpreter is not installed")
def test_verification_in_tflite_micro_keeps_the_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[Any] = []
    run = MicroInterpreter.run

    def dying(self: MicroInterpreter, inputs: dict[str, np.ndarray], key: str | None = None) -> Any:
        calls.append(inputs)
        if len(calls) == 2:
            os.kill(self._worker.pid, signal.SIGKILL)
        return run(self, inputs, key)

    monkeypatch.setattr(MicroInterpreter, "run", dying)
    x = np.ones((2, 3), np.float32)
    data = to_bytes(program(lambda x: ops.add(x, 1.0), f32(2, 3)))
    with pytest.raises(LiteRtFailed, match=r"tflite-micro's process was ended from outside, the 2nd of") as failed:
        jfuse.verify(
            data, inputs=[(x,), (2 * x,)], options=jfuse.Verify(runtimes=["tflite-micro"]), save_failing=tmp_path
        )
    assert [dict(given) for _, given in failed.value.calls] == [calls[0], calls[1]]
    assert (tmp_path / "failing-sample.npz").is_file()


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_fork_after_jax_has_run_is_told_at_once() -> None:
    """There jax would wait for threads that only its parent has."""
    script = (
        "import os, sys, warnings, jax, jfuse; warnings.simplefilter('ignore'); text = sys.argv[1]; jfuse.parse(text)\n"
        "before = os.fork()\n"
        "if not before: jfuse.parse(text); os._exit(0)\n"
        "assert os.waitpid(before, 0)[1] == 0; jax.devices()\n"
        "if os.fork(): os.wait(); sys.exit()\n"
        "try: jfuse.parse(text)\n"
        "except jfuse.JfuseError as error: print(error, flush=True)\n"
        "os._exit(0)"
    )
    text = 'program {\n  signature "f"("x") -> ("y") = graph 0\n  graph main(a: f32[2]) {\n    return a\n  }\n}'
    found = subprocess.run([sys.executable, "-c", script, text], capture_output=True, text=True, check=True)
    assert "jax has run in the process from which this one was forked" in found.stdout


def test_streams_that_are_closed() -> None:
    """A file of the worker's must not get the number of a stream, which the worker has of its own."""
    script = (
        "import os; [os.close(n) for n in (0, 2)]; from jfuse.running.worker import _nameless as n; print(n('a') > 2)"
    )
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert found.stdout == "True\n"


@pytest.mark.parametrize("pool", slow_but(lambda pool: pool is Shared, POOLS))
def test_no_worker_outlives_its_parent(pool: Any) -> None:
    script = (
        f"import time; from tests.attack.test_workers import *; a = {pool.__name__}(to_bytes(endless()), Limits())\n"
        "print(a.pid, flush=True); a.run(ZEROS)"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    assert _ends(worker)


class TestGuardedRuns:
    """Arm's compiler, and the conversions that `jfuse bench` measures: programs on a folder of their own."""

    def test_its_end(self, tmp_path: Path) -> None:
        done = guarded_run([sys.executable, "-c", "print('said'); raise SystemExit(3)"], tmp_path, 60, name="it")
        assert (done.stdout, done.returncode) == ("said\n", 3)
        assert tmp_path.is_dir()

    def test_a_signal(self, tmp_path: Path) -> None:
        command = [sys.executable, "-c", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)"]
        with pytest.raises(KernelFailed, match=r"it was ended, from outside or by a crash\n.*SIGSEGV"):
            guarded_run(command, tmp_path, 60, name="it")

    def test_the_time(self, tmp_path: Path) -> None:
        note = tmp_path / "pid"
        with pytest.raises(KernelFailed, match=r"it does not end\n.*within 2 s"):
            guarded_run([sys.executable, "-c", _waiting(note)], tmp_path, 2, name="it")
        assert not note.exists() or _ends(int(note.read_text()))

    @pytest.mark.slow
    def test_its_parent(self, tmp_path: Path) -> None:
        folder, note = tmp_path / "its own", tmp_path / "pid"
        folder.mkdir()
        asks = (
            "import sys; from pathlib import Path; from jfuse.running.programs.guarded_run import guarded_run; "
            f"guarded_run([sys.executable, '-c', {_waiting(note)!r}], Path({str(folder)!r}), 60, name='it')"
        )
        parent = subprocess.Popen([sys.executable, "-c", asks])
        until = time.monotonic() + 60
        while not (note.exists() and note.read_text()) and time.monotonic() < until:
            time.sleep(0.1)
        parent.kill()
        parent.wait()
        until = time.monotonic() + 20
        while (_runs(int(note.read_text())) or folder.exists()) and time.monotonic() < until:
            time.sleep(0.1)
        assert not _runs(int(note.read_text()))
        assert not folder.exists()


def _waiting(note: Path) -> str:
    """A program that writes its number and waits."""
    return f"import os, time; open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"


def _ends(process: int) -> bool:
    """Whether a process that was killed is gone soon: what it printed to is closed before it is."""
    until = time.monotonic() + 20
    while _runs(process) and time.monotonic() < until:
        time.sleep(0.1)
    return not _runs(process)


def _runs(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
