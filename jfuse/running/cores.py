"""What of the machine this process may use."""

from __future__ import annotations

import os


def cores() -> int:
    """How many cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
