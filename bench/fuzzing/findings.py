"""Findings of a fuzzer: counts of outcomes, and every exception that is no JfuseError."""

from __future__ import annotations

import re
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from jfuse.base.errors import InternalError, JfuseError

_ANSWERED = "answered"
_LONGEST = 2**15  # bytes of a file that is told with what it did
_NETS = ("the file is corrupt", "an operator cannot be read")
"""Messages of what was read before it was checked: right for users, and still a check that is missing."""


@dataclass
class Crash:
    """One exception that nobody foresaw: what it was, how often it came, and the first input that raised it."""

    what: str
    times: int = 0
    data: bytes = b""

    def told(self) -> dict[str, object]:
        """As JSON has it."""
        return {"what": self.what, "times": self.times, "bytes": self.data.hex() if len(self.data) < _LONGEST else ""}


@dataclass
class Stage:
    """One thing that is tried with an input: whether it was refused, and in which way it ended."""

    name: str
    refused: bool = False
    way: str = _ANSWERED


@dataclass
class Findings:
    """Of one process, since its last report.   data: the input that is tried now"""

    counts: Counter[str] = field(default_factory=Counter)
    bad: dict[str, Crash] = field(default_factory=dict)
    data: bytes = b""

    @contextmanager
    def at(self, name: str) -> Iterator[Stage]:
        """A stage of the work on an input; what it raises is noted, and goes no further."""
        stage = Stage(name)
        try:
            yield stage
        except Exception as error:
            stage.refused, stage.way = True, f"{name}: {plain(error)}"
            foreign = _foreign(error)
            self.counts[f"{name}: refused"] += 1
            if foreign is not None:
                self.note(f"{name}: {foreign}")

    def note(self, what: str) -> None:
        """Keep what the present input did, and the input, if it is the first one that did it."""
        found = self.bad.setdefault(what, Crash(what, 0, self.data))
        found.times += 1


def plain(error: Exception) -> str:
    """An error without its numbers."""
    found = getattr(error, "found", None)
    return re.sub(r"[\d.]+", "0", f"{type(error).__name__}: {getattr(error, 'message', error)} {found}")[:160]


def _foreign(error: Exception) -> str | None:
    """The exception that nobody foresaw and where it was raised; None for an error that was raised on purpose."""
    if isinstance(error, JfuseError) and not isinstance(error, InternalError) and error.message not in _NETS:
        return None
    cause: BaseException = error.__cause__ or error
    frames = [f for f in traceback.extract_tb(cause.__traceback__) if "jfuse" in Path(f.filename).parts]
    place = f"{Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "outside"
    return f"{type(cause).__name__} in {place}: {re.sub(r'[0-9]+', '0', str(cause))}"[:200]
