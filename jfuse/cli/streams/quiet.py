"""Filter what libraries print: start-up lines about drivers, processors and delegates."""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from jfuse.cli import interrupts

_STDERR = 2
_LOGGERS = ("absl", "tensorflow", "jfuse.api.quantized_sizes")  # the last one's warnings stand in the summary
_LISTENER = Path(__file__).with_name("last_words.py")


@contextmanager
def quiet(verbose: bool = False) -> Iterator[None]:
    """Drop C++ output on standard error; Python's passes. verbose: let everything through.

    absl writes some lines before TF_CPP_MIN_LOG_LEVEL counts, so the descriptor itself is turned away: to a process
    that tells the last of it where a library ends this one (XLA does for a flag that it does not know). Such an end
    still leaves Python's stack. Enter it before TensorFlow is imported.
    """
    if verbose:
        yield
        return
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # read once, at the import; workers inherit it
    for name in _LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        kept = os.dup(_STDERR)
    except OSError:  # it is closed
        yield
        return
    shown = sys.stderr
    theirs = not faulthandler.is_enabled()
    with open(kept, "w", encoding="utf-8", errors="replace", buffering=1) as python_stderr, _listener():
        if _writes_to(shown, _STDERR):
            sys.stderr = python_stderr
        if theirs:
            faulthandler.enable(python_stderr)
        try:
            yield
        finally:
            if theirs:
                faulthandler.disable()
            sys.stderr = shown
            os.dup2(kept, _STDERR)


@contextmanager
def _listener() -> Iterator[None]:
    """Standard error goes to a process that keeps it; nowhere, where none can be started."""
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(_LISTENER)],
            stdin=subprocess.PIPE,
            process_group=0 if os.name == "posix" else None,  # Ctrl-C in a terminal is for this process alone
        )
    except OSError:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), _STDERR)
        yield
        return
    assert process.stdin is not None
    os.dup2(process.stdin.fileno(), _STDERR)
    process.stdin.close()
    interrupts.ENDINGS.append(process.kill)
    try:
        yield
    finally:  # the command ends in order: there is nothing to tell
        interrupts.ENDINGS.remove(process.kill)
        process.kill()
        process.wait()


def _writes_to(stream: object, descriptor: int) -> bool:
    with suppress(AttributeError, OSError, io.UnsupportedOperation):
        return isinstance(stream, io.TextIOBase) and stream.fileno() == descriptor
    return False
