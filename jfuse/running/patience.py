"""Timeouts of calls in other processes: a call that takes longer is ended, or the caller would wait for ever."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

FIRST_S = 600.0  # while no call has ended: of a file and its first call nothing is known
_START_S = 20.0  # for a process, on a busy machine
_LEAST_S = 60.0  # a machine may be busy with other things for as long
_TIMES = 100  # calls of one signature take about as long each, unless inputs decide how often loops run
LOOK_S = 0.5


@dataclass
class Patience:
    """How long one call may take.

    limit_s: seconds; None for a hundred times as long as those that ended took on average, and at least a minute; ten
    minutes while none has ended. Loading the file may take ten minutes, too, where no limit is given; else the limit,
    and the seconds in which its process starts.
    """

    limit_s: float | None = None
    _calls: int = 0
    _seconds: float = 0.0

    def ended(self, calls: int, seconds: float) -> None:
        """Take note of calls that ended, and of the time from the first's begin to the last's end."""
        self._calls += calls
        self._seconds += seconds

    def seconds(self, loading: bool) -> float:
        """How many seconds the next call may take, by what the calls until now have taken."""
        if self.limit_s is not None:
            return self.limit_s + (_START_S if loading else 0.0)
        if loading:
            return FIRST_S
        return max(_LEAST_S, _TIMES * self._seconds / self._calls) if self._calls else FIRST_S

    @property
    def look_s(self) -> float:
        """How often to look whether the limit is reached, in seconds."""
        return LOOK_S if self.limit_s is None else min(LOOK_S, self.limit_s / 4)


class Watched(Protocol):
    """A process that computes for this one, and that can be ended from here."""

    def progress(self) -> tuple[int, int] | None:
        """How many calls it has begun, and the number of the sample, below 0 while it loads; None while it has none."""

    def give_up(self, limit_s: float) -> None:
        """End it, as a call has taken longer."""


class ProcessWatch:
    """Processes at work since now: whoever waits for them calls `look` from time to time, which ends those too slow."""

    def __init__(self, processes: Sequence[Watched], patience: Patience) -> None:
        self._processes = processes
        self._patience = patience
        self._seen: dict[int, tuple[tuple[int, int], float]] = {}
        self._last = time.monotonic()
        self.look_s = patience.look_s

    def look(self) -> None:
        """Record the calls that ended since the last look, and end processes whose call takes longer than allowed."""
        now = time.monotonic()
        passed = min(now - self._last, 2 * self.look_s)  # all may have been stopped for a while, or the machine asleep
        self._last = now
        for number, process in enumerate(self._processes):
            at = process.progress()
            if at is None:
                continue
            before, waited = self._seen.get(number, (at, 0.0))
            waited += passed
            if at != before:
                self._patience.ended(at[0] - before[0], waited)
                waited = 0.0
            elif waited > (limit := self._patience.seconds(at[1] < 0)):
                process.give_up(limit)
            self._seen[number] = at, waited
