"""What Windows lacks: files are converted and written all the same, and running them is refused with a reason."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from jfuse.base.errors import JfuseError
from jfuse.base.files import write_atomic
from jfuse.tflite.mapped_file import read_file

PROGRAM = """
import sys
import jax, jax.numpy as jnp, numpy as np  # these have ways of their own on Windows
import subprocess, tempfile, multiprocessing  # and so has the standard library
import os, select, signal
LACKING = {
    signal: "SIGKILL SIGHUP SIGQUIT SIGALRM SIGUSR1 setitimer ITIMER_REAL pthread_sigmask",
    os: "fork memfd_create pread pwrite sched_getaffinity sysconf killpg setsid register_at_fork getuid",
    select: "poll",
}
for module, names in LACKING.items():
    for name in names.split():
        if hasattr(module, name):
            delattr(module, name)
for name in ("resource", "fcntl", "termios", "pwd", "grp"):
    sys.modules[name] = None

import jfuse
from jfuse.cli.app import app

spec = [jax.ShapeDtypeStruct((2, 3), np.float32)]
model = jfuse.convert(jnp.tanh, spec, verify=False)
model.save("m.tflite")
assert jfuse.diff("m.tflite", model).equal
np.testing.assert_allclose(jfuse.load("m.tflite")(np.ones((2, 3), "f")), np.tanh(1), rtol=1e-6)
try:
    jfuse.convert(jnp.tanh, spec)
except jfuse.JfuseError as error:
    print(error)
"""


@pytest.mark.slow
def test_files_are_written_and_not_run(tmp_path: Path) -> None:
    """The names are taken away here, as there is no Windows: a stand-in for it, and no more."""
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "LiteRT runs in a process that is watched, for which this system lacks the means" in run.stdout
    assert "verify=False writes the file" in run.stdout


def test_files_are_read_as_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows takes a file for text unless the flag says otherwise: ^Z ends it there, and line ends become others."""
    binary, given = 0x8000, []
    opened = os.open

    def as_windows(path: object, flags: int, *more: int) -> int:
        given.append(flags & binary)
        return opened(path, flags & ~binary, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "O_BINARY", binary, raising=False)
    monkeypatch.setattr(os, "open", as_windows)
    (tmp_path / "m.tflite").write_bytes(b"a\r\n\x1ab")
    assert read_file(tmp_path / "m.tflite")[0] == b"a\r\n\x1ab"
    assert given == [binary]


def test_a_file_that_is_in_use_is_kept_and_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: Path, target: Path) -> Path:
        raise PermissionError(13, "Permission denied")

    (tmp_path / "m.tflite").write_bytes(b"old")
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(JfuseError, match=r"Permission denied\n  try +another name: on Windows"):
        write_atomic(tmp_path / "m.tflite", b"new")
    assert [(p.name, p.read_bytes()) for p in tmp_path.iterdir()] == [("m.tflite", b"old")]
