"""Ctrl-C and SIGTERM end a command without a traceback, at any point; the exit code distinguishes them.

Python raises what a handler raises wherever the program is. In a callback of the garbage collector (jax has one) or in
a finalizer it would be printed and forgotten, and the command would go on: such an interrupt is raised again.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

_AGAIN_S = 0.02
_IMPORTS = "<frozen importlib._bootstrap>"
_RECEIVED: list[int] = []
ENDINGS: list[Callable[[], object]] = []
"""Called where an interrupt ends the process at once."""


class Interrupted(SystemExit):
    """The command was interrupted; as an exit, so that nothing takes it for an error."""


def install() -> None:
    """Take over the signals of this process."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    sys.unraisablehook = _unraisable


def need_none() -> None:
    """Raise Interrupted where a signal came that something has swallowed: asked before anything is written."""
    if _RECEIVED:
        if hasattr(signal, "setitimer"):
            signal.setitimer(signal.ITIMER_REAL, 0)
        raise Interrupted(128 + _RECEIVED[0])


def came() -> bool:
    """Whether an interrupt (SIGINT, SIGTERM) has arrived since the command began."""
    return bool(_RECEIVED)


def exit_code(code: int) -> int:
    """The exit code of a command that ended with this one, which may have swallowed a signal."""
    return 128 + _RECEIVED[0] if _RECEIVED else code


def _interrupt(number: int, frame: FrameType | None) -> None:
    _RECEIVED.append(number)
    if _is_importing(frame):  # an extension module that is taken apart on its way in may end the process by a crash
        for ending in ENDINGS:
            ending()
        os._exit(128 + number)
    if len(_RECEIVED) == 1:  # the first one ends the command, whose clean-up no other may interrupt
        raise Interrupted(128 + number)


def _is_importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported in this place of the program."""
    while frame is not None:
        if frame.f_code.co_filename == _IMPORTS:
            return True
        frame = frame.f_back
    return False


def _again(number: int, frame: FrameType | None) -> None:
    need_none()


def _unraisable(found: Any) -> None:
    """As Python's own hook, but for an interrupt that a callback would swallow."""
    if not isinstance(found.exc_value, Interrupted):
        sys.__unraisablehook__(found)
    elif hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, _again)
        signal.setitimer(signal.ITIMER_REAL, _AGAIN_S)
