"""How long the command has been running: Python's start and all imports count.

When the process began says less: a shell that replaces itself by its last command hands its process on, with all the
time that the commands before took. Processor time it hands on as well, but only its own, which is next to nothing. So
the command began as long before this import as it has computed by then.
"""

from __future__ import annotations

import time

_IMPORTED = time.perf_counter()
_BEFORE = time.process_time()


def elapsed_s() -> float:
    """Seconds since Python began, less what it waited for before `jfuse.cli` was imported."""
    return _BEFORE + time.perf_counter() - _IMPORTED
