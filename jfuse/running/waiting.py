"""Waits for another thread's result, and notices Ctrl-C and the time limit."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextvars import copy_context
from threading import Thread
from typing import TypeVar

T = TypeVar("T")

_LOOK_S = 0.1
_GRACE_S = 5.0  # a loop asks every 50 ms whether to end, but one turn of it may take longer


def waited_for(work: Callable[[], T], give_up: Callable[[], None], seconds: float | None = None) -> T:
    """The result of `work`, computed in another thread with this one's context.

    give_up: lets the work end, called for an interrupt, and where it takes longer than `seconds`, which raises
    TimeoutError. What does not end then within a few seconds goes on until the process ends, and nobody waits for it.
    """
    done: list[T] = []
    failed: list[BaseException] = []
    settings = copy_context()

    def run() -> None:
        try:
            done.append(settings.run(work))
        except BaseException as error:
            failed.append(error)

    thread = Thread(target=run, daemon=True)
    thread.start()
    end = None if seconds is None else time.monotonic() + seconds
    try:
        while thread.is_alive():
            if end is not None and time.monotonic() > end:
                raise TimeoutError
            thread.join(_LOOK_S)
    except BaseException:
        give_up()
        thread.join(_GRACE_S)
        raise
    if failed:
        raise failed[0]
    return done[0]
