"""How long a call in another process may take: one that takes longer has to be ended, or all would wait for ever."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread
from typing import Protocol

_FIRST_S = 600.0  # while no call has ended: of a file and its first call nothing is known
_LEAST_S = 60.0  # a machine may be busy with other things for as long
_TIMES = 100  # calls of one signature take about as long each, unless inputs decide how often loops run
_LOOK_S = 0.5


@dataclass
class Patience:
    """How long one call may take.

    limit_s: seconds; None for a hundred times as long as those that ended took on average, and at least a minute; ten
    minutes while none has ended. Loading the file may take ten minutes, too, or longer where a call may.
    """

    limit_s: float | None = None
    _calls: int = 0
    _seconds: float = 0.0

    def ended(self, calls: int, seconds: float) -> None:
        """Take note of calls that ended, and of the time from the first's begin to the last's end."""
        self._calls += calls
        self._seconds += seconds

    def seconds(self, loading: bool) -> float:
        """The limit by now."""
        if loading:
            return max(_FIRST_S, self.limit_s or 0)
        if self.limit_s is not None:
            return self.limit_s
        return max(_LEAST_S, _TIMES * self._seconds / self._calls) if self._calls else _FIRST_S


class Watched(Protocol):
    """A process at work."""

    def progress(self) -> tuple[int, int] | None:
        """How many calls it has begun, and the number of the sample, below 0 while it loads; None while it has none."""

    def give_up(self, limit_s: float) -> None:
        """End it, as a call has taken longer."""


@contextmanager
def watched(processes: Sequence[Watched], patience: Patience) -> Iterator[None]:
    """Within the `with` no call of the processes takes longer than allowed."""
    stop = Event()
    thread = Thread(target=_watch, args=(processes, patience, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _watch(processes: Sequence[Watched], patience: Patience, stop: Event) -> None:
    seen: dict[Watched, tuple[tuple[int, int], float]] = {}
    look = _LOOK_S if patience.limit_s is None else min(_LOOK_S, patience.limit_s / 4)
    last = time.monotonic()
    while not stop.wait(look):
        now = time.monotonic()
        passed, last = min(now - last, 2 * look), now  # all may have been stopped for a while, or the machine asleep
        for process in processes:
            at = process.progress()
            if at is None:
                continue
            before, waited = seen.get(process, (at, 0.0))
            waited += passed
            if at != before:
                patience.ended(at[0] - before[0], waited)
                waited = 0.0
            elif waited > (limit := patience.seconds(at[1] < 0)):
                process.give_up(limit)
            seen[process] = at, waited
