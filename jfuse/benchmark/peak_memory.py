"""The peak memory of this process, on Linux."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")
_RESET = "5"  # proc(5): the peak begins anew with what is held now


def begin_peak() -> None:
    """Reset the peak, if the system supports that."""
    with suppress(OSError):
        _CLEAR.write_text(_RESET)


def peak_mib() -> float | None:
    """The peak memory since `begin_peak`, libraries included, in MiB; None if the system does not report it.

    The line VmHWM, unlike `getrusage`, does not count what the parent process held.
    """
    try:
        lines = dict(line.split(":", 1) for line in _STATUS.read_text().splitlines() if ":" in line)
        return int(lines["VmHWM"].split()[0]) / 1024
    except (OSError, KeyError, ValueError):
        return None
