"""What the libraries below print: start-up lines about drivers, processors and delegates are not about the model."""

from __future__ import annotations

import faulthandler
import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_STDERR = 2
_LOGGERS = ("absl", "tensorflow", "jfuse.quantized_sizes")  # the last one's warnings stand in the summary


@contextmanager
def quiet(verbose: bool = False) -> Iterator[None]:
    """Drop what C++ writes to standard error; what Python writes passes. verbose: let everything through.

    absl writes some lines before TF_CPP_MIN_LOG_LEVEL counts, so the descriptor itself is turned away. A library that
    ends the process still leaves Python's stack. Enter it before TensorFlow is imported.
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
    with open(kept, "w", encoding="utf-8", errors="replace", buffering=1) as python_stderr:
        _replace_stderr()
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


def _replace_stderr() -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, _STDERR)
    os.close(nowhere)


def _writes_to(stream: object, descriptor: int) -> bool:
    with suppress(AttributeError, OSError, io.UnsupportedOperation):
        return isinstance(stream, io.TextIOBase) and stream.fileno() == descriptor
    return False
