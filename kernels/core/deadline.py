"""The deadline of a run: loops of a file that somebody else wrote may never end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError

_EVERY_S = 0.05  # how often a loop asks
FIRST_TURNS = 64  # of a loop before it asks for the first time: shorter loops cost nothing
_MOST = 2**20


class Deadline:
    """The time at which the run that goes on now is ended."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._at: float | None = None
        self._loop: str | None = None

    def start(self) -> None:
        """A run begins; its time, when the first loop asks, as compiling takes its own."""
        self._at = None
        self._loop = None

    def end(self) -> None:
        """Let the run end at once, as nobody waits for it any more."""
        self._at = 0.0

    def is_over(self) -> bool:
        """Whether the time that was allowed has passed."""
        now = time.monotonic()
        if self._at is None:
            self._at = now + self.seconds
        return now > self._at

    def need_time(self, loop: str) -> None:
        """Raise JfuseError where the time is over, in a loop that Python runs."""
        if self.is_over():
            self._loop = self._loop or loop
        self.check()

    def check(self) -> None:
        """Raise JfuseError where a loop was ended."""
        if self._loop is not None:
            raise JfuseError(
                "the model does not come to an end",
                where=f"the loop {self._loop}",
                expected=f"an answer within {self.seconds:g} s",
                remedy="other inputs; for a model as slow as that jfuse.load(…, limits=jfuse.Limits(seconds=…))",
            )

    def asker(self, loop: str) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
        """Return the function that a loop calls from time to time.

        Its argument is the number of turns since the last call. It returns whether to stop, and the number of turns
        before the next call.
        """
        last = [0.0]

        def ask(turns: Any) -> tuple[np.ndarray, np.ndarray]:
            now = time.monotonic()
            passed, last[0] = now - last[0], now
            wanted = float(np.max(turns)) * _EVERY_S / max(passed, 1e-6)
            if is_over := self.is_over():
                self._loop = self._loop or loop
            return np.array(is_over), np.array(min(max(wanted, 1.0), _MOST), np.int32)

        return ask


_ACTIVE: ContextVar[Deadline | None] = ContextVar("jfuse_deadline", default=None)


def active_deadline() -> Deadline | None:
    """The deadline of what is traced or evaluated now."""
    return _ACTIVE.get()


@contextmanager
def until(deadline: Deadline | None) -> Iterator[None]:
    """Within the `with`, loops that are traced or evaluated have this deadline."""
    token = _ACTIVE.set(deadline)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
