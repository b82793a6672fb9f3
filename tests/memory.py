"""Keeps a process that runs many tests small: jax holds every program that it has compiled."""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from pathlib import Path

_STATM = Path("/proc/self/statm")
_MIB = 2**20
# TensorFlow, jax and both Kerases take 700 MiB. Less room, and programs that the next test needs are compiled again.
_LEAST = 1000 * _MIB
_ROOM = 300 * _MIB


def resident() -> int:
    """The bytes of memory that the process holds now; 0 where the system does not tell."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") if _STATM.exists() else 0


class Keeper:
    """Frees memory whenever the process has grown by some hundred MiB since it last did."""

    def __init__(self) -> None:
        self.limit = _LEAST

    def free(self) -> None:
        """Drop the programs that jax has compiled, and give what is free back to the system."""
        if resident() <= self.limit or "jax" not in sys.modules:
            return
        import jax

        jax.clear_caches()
        gc.collect()
        if sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)
        self.limit = max(_LEAST, resident() + _ROOM)
