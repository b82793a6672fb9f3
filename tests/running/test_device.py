"""Devices: a second Python, to which LiteRT's worker is sent. What it is, what it answers, and what ends it."""

from __future__ import annotations

import io
import os
import pickle
import platform
import signal
import struct
import subprocess
import sys
import threading
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.base.limits import Limits
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.running import loaded_file
from jfuse.running.interpreter import LiteRt
from jfuse.running.litert_worker.messages import Messages
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Worker
from jfuse.tflite.write.file import to_bytes
from tests.attack.test_workers import CRASH, GOOD, dividing, endless
from tests.tflite.programs import KEY, f32, program

PYTHON = sys.executable
ENDLESS, ENDING = ({"x0": np.full((), a, np.int32), "x1": np.full((), a, np.int32)} for a in (0, 1))


@pytest.fixture(autouse=True, scope="module")
def no_device_stays() -> Any:
    yield
    for shared in loaded_file._ON_DEVICES.values():
        shared.close()


def changed(folder: Path, text: str) -> str:
    """A Python that runs a text before anything else."""
    (folder / "sitecustomize.py").write_text(text)
    return f"env PYTHONPATH={folder} {PYTHON}"


@pytest.mark.parametrize("command", [PYTHON, f"sh -c 'cd / && exec {PYTHON}'", f"sh -c {PYTHON}"])
def test_a_device_says_what_it_is(command: str) -> None:
    about = loaded_file.asked(Device(command))
    assert about.name == platform.node()
    assert about.machine == platform.machine()
    assert about.versions["ai-edge-litert"] == version("ai-edge-litert")
    assert about.versions["Python"] == platform.python_version()
    assert str(about).startswith(f"{platform.node()} (")


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("no-such-program", "No such file or directory: 'no-such-program'"),
        (f"{PYTHON} -S", "ModuleNotFoundError: No module named 'numpy'"),
        ("sh -c 'echo there is no road >&2; exit 7; true'", "exit code 7: there is no road"),
        ("sh -c 'echo hello; read line; true'", "exit code 0: hello"),
    ],
)
def test_a_command_that_starts_no_litert(command: str, expected: str) -> None:
    with pytest.raises(JfuseError, match="LiteRT does not start on the device") as error:
        Worker("litert", Device(command))
    assert error.value.found == expected
    assert error.value.remedy


@pytest.mark.parametrize("command", ["", " ", 3, "python3 'un"])
def test_what_is_no_command(command: Any) -> None:
    with pytest.raises(JfuseError, match="device"):
        Device(command)


def test_a_device_without_compiled_model(tmp_path: Path) -> None:
    gone = (
        "import sys\nclass Gone:\n    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ai_edge_litert.compiled_model': raise ModuleNotFoundError(name=name)\n"
        "sys.meta_path.insert(0, Gone())\n"
    )
    device = Device(changed(tmp_path, gone))
    Worker("litert", device).close()
    with pytest.raises(JfuseError, match="CompiledModel does not start") as error:
        Worker("compiled_model", device)
    assert "a later ai-edge-litert" in str(error.value)


def test_a_device_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jfuse.running.patience._START_S", 0.0)
    with pytest.raises(JfuseError, match="does not start") as error:
        Worker("litert", Device("sh -c 'exec sleep 60; true'"), Limits(seconds=0.5))
    assert "no answer within 0.5 s" in str(error.value)


def test_arrays_of_any_type_and_size_go_there_and_back() -> None:
    device = Device(PYTHON)
    large = np.random.default_rng(0).normal(size=(1500, 1000)).astype(np.float32)
    lite = LiteRt(to_bytes(program(ops.neg, f32(1500, 1000))), device=device)
    np.testing.assert_array_equal(lite.run(KEY, {"x0": large})["y0"], -large)
    empty = LiteRt(to_bytes(program(ops.neg, f32(0, 3))), device=device)
    assert empty.run(KEY, {"x0": np.zeros((0, 3), np.float32)})["y0"].shape == (0, 3)
    for dtype in (DType.bool, DType.i64, DType.bf16):
        same = to_bytes(program(lambda x: ops.reshape(x, np.array([3, 2], np.int32)), TensorType((2, 3), dtype)))
        x = np.arange(6).reshape(2, 3).astype(dtype.numpy)
        y = LiteRt(same, device=device).run(KEY, {"x0": x})["y0"]
        assert y.dtype == dtype.numpy
        np.testing.assert_array_equal(y, x.reshape(3, 2))


def test_a_crash_there_names_its_sample() -> None:
    device = Device(PYTHON)
    inputs = {name: np.stack([GOOD[name]] * 3 + [CRASH[name]]) for name in GOOD}
    workers = LiteRtWorkers(to_bytes(dividing()), 1, device=device)
    with pytest.raises(LiteRtFailed, match="LiteRT on the device ends on sample 3") as error:
        workers.run(inputs, KEY)
    assert error.value.cause == "killed"
    assert "SIGFPE" in str(error.value)
    again = workers.run({name: array[:3] for name, array in inputs.items()}, KEY)
    np.testing.assert_array_equal(again["y0"][0], np.arange(4) % 3 + 1)
    workers.close()


def test_a_device_that_is_killed_in_the_middle() -> None:
    device = Device(PYTHON)
    lite = LiteRt(to_bytes(endless()), device=device)
    pid = loaded_file._ON_DEVICES[device].worker().pid
    threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()
    with pytest.raises(LiteRtFailed, match="LiteRT on the device ends") as error:
        lite.run(KEY, ENDLESS)
    assert error.value.cause == "killed"
    assert "the device is still there" in str(error.value)
    anew = LiteRt(to_bytes(endless()), device=device)
    assert anew.run(KEY, ENDING)["y0"] >= 40


def test_a_call_there_that_does_not_end() -> None:
    lite = LiteRt(to_bytes(endless()), device=Device(PYTHON), limits=Limits(seconds=1.0))
    with pytest.raises(LiteRtFailed, match="does not come to an end") as error:
        lite.run(KEY, ENDLESS)
    assert error.value.cause == "time"


def test_nothing_stays_on_the_device(tmp_path: Path) -> None:
    """A process that nobody here can kill ends by itself once the line is cut, whatever it computes."""
    device = Device(f"setsid {changed(tmp_path, _TELL_PID.format(folder=tmp_path))}")
    lite = LiteRt(to_bytes(endless()), device=device, limits=Limits(seconds=0.5))
    pid = int((tmp_path / "pid").read_text())
    with pytest.raises(LiteRtFailed):
        lite.run(KEY, ENDLESS)
    end = time.monotonic() + 20
    while _lives(pid) and time.monotonic() < end:
        time.sleep(0.1)
    assert not _lives(pid)


_TELL_PID = "import os\nwith open('{folder}/pid', 'w') as file: file.write(str(os.getpid()))\n"


def _lives(pid: int) -> bool:
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(found.stdout.strip()) and not found.stdout.startswith("Z")


def _named(module: str, name: str) -> bytes:
    """A message that is what a module has under a name, which may lead on to others."""
    texts = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name))
    return b"\x80\x04" + texts + b"\x93."


MESSAGES = [*(pickle.dumps(m, 5) for m in (os.system, subprocess.Popen, Path("/"), np.load))]
MESSAGES += [_named("ml_dtypes", "_finfo.np.load"), _named("ml_dtypes._finfo", "np"), _named("numpy", "dtype.mro")]


@pytest.mark.parametrize("data", MESSAGES)
def test_a_device_sends_arrays_and_nothing_that_runs(data: bytes) -> None:
    whole = pickle.dumps((data, []), 5)
    line = io.BytesIO(struct.pack("<q", len(whole)) + whole)
    with pytest.raises(EOFError, match="nothing that messages hold"):
        Messages(line.read, lambda data: None).receive()


def small_file(folder: Path) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(to_bytes(program(lambda x: ops.tanh(ops.add(x, 1.0)), f32(2, 3))))
    return path


def test_verification_runs_the_file_there(tmp_path: Path) -> None:
    file, name = small_file(tmp_path), platform.node()
    found = jfuse.verify(file, options=jfuse.Verify(device=PYTHON, runtimes=["compiled-model"]), edges="none")
    pairs = {d.pair: d.samples for d in found.differences}
    assert pairs.keys() == {f"xla/{n}".lower() for n in ("LiteRT", "CompiledModel", *_on(name))}
    assert len(set(pairs.values())) == 1
    assert f"LiteRT on {name} (" in found.backend
    model = keras.Sequential([keras.Input(batch_shape=(1, 4)), keras.layers.Dense(2)])
    with pytest.raises(JfuseError, match="there is no file for the device"):
        jfuse.verify(model, model, jfuse.Verify(device=PYTHON))


def _on(name: str) -> tuple[str, str]:
    return f"LiteRT on {name}", f"CompiledModel on {name}"


_WRONG = (
    "import ai_edge_litert.interpreter as lite\ncall = lite.SignatureRunner.__call__\n"
    "lite.SignatureRunner.__call__ = lambda self, **x: {n: y + 0.01 for n, y in call(self, **x).items()}\n"
)


def test_a_device_that_answers_otherwise_is_found(tmp_path: Path) -> None:
    with pytest.raises(jfuse.VerifyFailed, match=f"litert on {platform.node()}") as error:
        jfuse.verify(small_file(tmp_path), options=jfuse.Verify(device=changed(tmp_path, _WRONG)), edges="none")
    failed = {d.pair for d in error.value.verification.differences if d.error > d.tolerance}
    assert failed == {f"xla/litert on {platform.node()}".lower()}


_SLOW = (
    "import time\nimport ai_edge_litert.interpreter as lite\ninvoke = lite.Interpreter.invoke\n"
    "def slow(self):\n    if 'names' not in self.__dict__:\n"
    "        self.names = [o['op_name'] for o in self._get_ops_details()]\n"
    "    time.sleep(0.002 * ('WHILE' {of} self.names))\n    return invoke(self)\nlite.Interpreter.invoke = slow\n"
)


@pytest.mark.parametrize(("of", "is_loop"), [("in", False), ("not in", True)])
def test_tuning_takes_what_is_fastest_there(of: str, is_loop: bool, tmp_path: Path) -> None:
    layers = keras.layers
    model = keras.Sequential([keras.Input(batch_shape=(1, 6, 4)), layers.GRU(3)])
    device = changed(tmp_path, _SLOW.format(of=of))
    result = jfuse.tune(model, device=device, seconds=0.01, verify=False)
    assert ("while" in result.report.operators) == is_loop
    (tuned,) = result.report.tuned
    assert (tuned.chosen != "unrolled") == is_loop
    assert any(f"in LiteRT on {platform.node()} (" in note for note in result.report.notes)


_DYING = (
    "import os\nimport ai_edge_litert.interpreter as lite\ncalls = []\ndef dying(call):\n"
    "    def counted(*args, **named):\n        calls.append(call)\n"
    "        return call(*args, **named) if len(calls) < 3 else os.kill(os.getpid(), 9)\n    return counted\n"
    "lite.Interpreter.invoke = dying(lite.Interpreter.invoke)\n"
    "lite.SignatureRunner.__call__ = dying(lite.SignatureRunner.__call__)\n"
)


def tuned_there(folder: Path, device: str) -> None:
    model = keras.Sequential([keras.Input(batch_shape=(1, 6, 4)), keras.layers.GRU(3)])
    jfuse.tune(model, device=device, seconds=0.01, verify=False)


def verified_there(folder: Path, device: str) -> None:
    jfuse.verify(small_file(folder), options=jfuse.Verify(device=device), edges="none")


@pytest.mark.parametrize("command", [verified_there, tuned_there])
def test_a_device_that_ends_in_the_middle_of_a_command(command: Any, tmp_path: Path) -> None:
    device = changed(tmp_path, _DYING)
    with pytest.raises(LiteRtFailed, match="LiteRT on the device ends") as error:
        command(tmp_path, device)
    assert error.value.cause == "killed"
    assert "the device is still there" in str(error.value)


def test_check_and_noise_there(tmp_path: Path) -> None:
    name = platform.node()
    found = jfuse.check(small_file(tmp_path), ("litert", "compiled-model"), device=PYTHON)
    assert found.device is not None
    assert found.device.runs
    assert [line.split() for line in found.device.lines()][1:] == [
        ["Interpreter", "takes", "the", "file"],
        ["CompiledModel", "takes", "the", "file"],
    ]
    model = keras.Sequential([keras.Input(batch_shape=(1, 16)), keras.layers.Dense(8)])
    result = jfuse.quantize(model, "int8", "random", device=PYTHON)
    decibels = {n.where: n.snr_db for n in result.report.noise}
    assert decibels[f"LiteRT on {name}"] == decibels["LiteRT"]
    assert any(f"also measured on {name} (" in note for note in result.report.notes)


@pytest.mark.slow
def test_bench_measures_there(tmp_path: Path) -> None:
    found = jfuse.bench(small_file(tmp_path), device=PYTHON, threads=(1,), seconds=0.01)
    assert found.machine.startswith(f"{platform.node()} (")
    row = found.row("jfuse")
    assert 1 in row.latency
    assert [o.op for o in row.profile if o.us] == ["ADD", "TANH"]
    assert row.difference is not None
