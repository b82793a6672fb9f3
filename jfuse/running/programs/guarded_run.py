"""Runs external programs in a folder of their own; both end with this process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from jfuse.base.errors import KernelFailed
from jfuse.running.worker import name_of_signal

_GUARD = Path(__file__).with_name("guard.py")


def guarded_run(
    command: Sequence[str], folder: Path, limit_s: float, *, name: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command; return its output and exit code.   folder: removed, if this process ends first; name: for messages

    Raises KernelFailed where it takes longer than `limit_s`, or a signal ends it.
    """
    guard = [sys.executable, str(_GUARD), str(os.getpid()), str(folder)]
    process = subprocess.Popen(
        [*guard, *command],
        env=None if environment is None else dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        process_group=0,  # Ctrl-C in a terminal is for this process alone, which then ends the others
    )
    try:
        out, err = process.communicate(timeout=limit_s)
    except BaseException as error:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        if isinstance(error, subprocess.TimeoutExpired):
            raise KernelFailed(f"{name} does not end", expected=f"an end within {limit_s:g} s") from error
        raise
    if process.returncode < 0:
        how = name_of_signal(-process.returncode)
        raise KernelFailed(f"{name} was ended, from outside or by a crash", found=how, remedy="run it again")
    return subprocess.CompletedProcess(command, process.returncode, out, err)
