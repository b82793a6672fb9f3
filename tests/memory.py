"""Keeps a process that runs many tests small and quick: what jax holds, and what Python searches for garbage."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest

_STATUS = Path("/proc/self/status")
_STATM = Path("/proc/self/statm")
_MIB = 2**20
# All tests and the libraries that they import take 1,100 MiB. Less room, and programs that the next test needs are
# compiled again; a worker stays under 2 GB.
_LEAST = 1450 * _MIB
_ROOM = 100 * _MIB
# Python's own limits search a million modules, functions and tests for garbage every few seconds.
_GARBAGE = (50_000, 10, 10)


@contextmanager
def without_collection() -> Iterator[None]:
    """No search for garbage within, and later none among the objects that are there by then: they stay."""
    gc.disable()
    yield
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)
    gc.enable()


def peak() -> int:
    """The most bytes of memory that the process has held; 0 where the system does not tell."""
    try:
        import resource
    except ImportError:
        return 0
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def resident() -> int:
    """The bytes of memory that the process holds now; 0 where the system does not tell."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _STATM.exists() else 0


def of_files_mib() -> float:
    """How much of the memory of this process is that of mapped files. Skips the test where the system does not tell."""
    if not _STATUS.exists():
        pytest.skip("the system does not tell")
    line = next(line for line in _STATUS.read_text(encoding="utf-8").splitlines() if line.startswith("RssFile"))
    return int(line.split()[1]) / 1024


def mapped_copy(array: np.ndarray, path: Path) -> np.ndarray:
    """The array as a view of a file of that path, which only reads it."""
    array.tofile(path)
    return np.memmap(path, array.dtype, mode="r").reshape(array.shape)


def give_back() -> None:
    """Give back to the system what nothing refers to, the programs of jax and the kernels that TensorFlow keeps."""
    if "jax" in sys.modules:
        import jax

        jax.clear_caches()
    gc.collect()
    if "tensorflow" in sys.modules:
        from tensorflow.python.eager import context

        # One of each variable and of each op with its attributes: half a megabyte of each model, for good.
        context.context().clear_kernel_cache()
    if sys.platform == "linux":
        ctypes.CDLL(None).malloc_trim(0)


_PROGRAMS_OF_A_CONTEXT = 50  # each leaves its constants in the context


def share_contexts() -> None:
    """Let some programs of jax have one context of MLIR: another one for each takes 5 ms and half a megabyte.

    What jax calls it is no public name; where it has another one, each program gets its own.
    """
    from jax._src.interpreters import mlir

    make = getattr(mlir, "make_ir_context", None)
    if make is None:
        return
    contexts = (context for context in iter(make, None) for _ in range(_PROGRAMS_OF_A_CONTEXT))
    lock = Lock()

    def shared() -> Any:
        with lock:
            return next(contexts)

    vars(mlir)["make_ir_context"] = shared


class Keeper:
    """Frees memory whenever the process has grown by some hundred MiB since it last did.

    most: the most bytes of memory that the process has held, and the test that took them.
    """

    def __init__(self) -> None:
        self.limit = _LEAST
        self.most = (0, "no test")

    def free(self, test: str) -> None:
        """Give back what the process can do without, where it holds much.   test: the last one"""
        if peak() > self.most[0]:
            self.most = peak(), test
        if resident() <= self.limit or "jax" not in sys.modules:
            return
        give_back()
        self.limit = max(_LEAST, resident() + _ROOM)
