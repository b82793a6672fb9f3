"""How long the command has been running, as a clock on the wall has it: Python's start and all imports count."""

from __future__ import annotations

import os
import time
from pathlib import Path

_IMPORTED = time.perf_counter()
_START = 19  # of /proc/PID/stat behind the name: clock ticks from the system's start (proc(5), field 22)


def elapsed_s() -> float:
    """Seconds since the process began; where the system does not tell, since this module was imported."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[_START]) / os.sysconf("SC_CLK_TCK")
    except (AttributeError, OSError):
        return time.perf_counter() - _IMPORTED
