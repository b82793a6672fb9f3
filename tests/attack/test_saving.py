"""Saving under faults: each system call fails once, targets are no files, processes are killed; never half a file."""

from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.base.files import write_atomic

OLD, NEW = b"old" * 1000, b"new" * 1000


def left(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


CALLS = {
    "open": (Path, "open"),
    "fsync": (os, "fsync"),
    "chmod": (Path, "chmod"),
    "replace": (Path, "replace"),
}


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EDQUOT], ids=errno.errorcode.get)
@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_fails_leaves_the_old_file(
    call: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "m.tflite"
    target.write_bytes(OLD)

    def fails(*args: Any, **kwargs: Any) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(*CALLS[call], fails)
    with pytest.raises(JfuseError, match=os.strerror(code)):
        write_atomic(target, NEW)
    monkeypatch.undo()
    assert target.read_bytes() == OLD
    assert left(tmp_path) == ["m.tflite"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, RuntimeError])
def test_data_that_break_off_leave_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "m.tflite"
    target.write_bytes(OLD)

    def parts() -> Any:
        yield NEW
        raise error

    with pytest.raises(error):
        write_atomic(target, parts())
    assert target.read_bytes() == OLD
    assert left(tmp_path) == ["m.tflite"]


def test_a_full_disk_leaves_the_old_file(tmp_path: Path) -> None:
    """The size that a process may write is limited, as a disk would."""
    program = (
        "import resource, signal, sys; from jfuse.base.files import write_atomic\n"
        "from jfuse.base.errors import JfuseError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))\n"
        "try: write_atomic(sys.argv[1], (bytes(1000) for _ in range(100)))\n"
        "except JfuseError as error: print(error.found)\n"
    )
    target = tmp_path / "m.tflite"
    target.write_bytes(OLD)
    run = subprocess.run([sys.executable, "-c", program, str(target)], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == os.strerror(errno.EFBIG)
    assert target.read_bytes() == OLD
    assert left(tmp_path) == ["m.tflite"]


@pytest.mark.parametrize(("make", "kind"), [(Path.mkdir, "a folder"), (os.mkfifo, "a pipe")], ids=["folder", "pipe"])
def test_what_is_no_file_is_refused(make: Callable[[Path], None], kind: str, tmp_path: Path) -> None:
    make(tmp_path / "target")
    with pytest.raises(JfuseError, match=kind):
        write_atomic(tmp_path / "target", NEW)
    assert left(tmp_path) == ["target"]


def test_a_device_is_refused() -> None:
    with pytest.raises(JfuseError, match="a device"):
        write_atomic("/dev/null", NEW)
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    real, link = tmp_path / "folder" / "real.tflite", tmp_path / "link.tflite"
    real.write_bytes(OLD)
    link.symlink_to(real)
    write_atomic(link, NEW)
    assert link.is_symlink()
    assert real.read_bytes() == NEW
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(JfuseError, match="cannot be written"):
        write_atomic(tmp_path / "a", NEW)


@pytest.mark.parametrize("mode", [0o600, 0o644, 0o640])
def test_the_mode_is_kept(mode: int, tmp_path: Path) -> None:
    target = tmp_path / "m.tflite"
    target.write_bytes(OLD)
    target.chmod(mode)
    write_atomic(target, NEW)
    assert stat.S_IMODE(target.stat().st_mode) == mode


def test_what_a_killed_process_left_is_removed(tmp_path: Path) -> None:
    target = tmp_path / "m[1].tflite"
    program = (
        "import sys, time; from jfuse.base.files import write_atomic\n"
        "def parts():\n yield b'x' * 100_000\n print('writing', flush=True)\n time.sleep(60)\n"
        "write_atomic(sys.argv[1], parts())\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(target)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writing\n"
        write_atomic(target, OLD)  # a living process keeps its file
        assert len(left(tmp_path)) == 2
        writer.send_signal(signal.SIGKILL)
    time.sleep(0.05)
    write_atomic(target, NEW)
    assert left(tmp_path) == [target.name]
    assert target.read_bytes() == NEW


def test_long_names_are_one_error(tmp_path: Path) -> None:
    with pytest.raises(JfuseError, match="cannot be written"):
        write_atomic(tmp_path / ("x" * 300), NEW)
