"""Calls of a file in a runtime that takes one at a time, in a process of its own for each row of calls."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from jfuse.running.worker import LiteRtFailed
from jfuse.verification.runners.in_litert import ordinal
from jfuse.verification.subject import Arrays


class ProcessRunner(Protocol):
    """A file in such a runtime."""

    @property
    def signatures(self) -> Any:
        """What the file's signatures take and give, by key."""

    def process(self) -> Any:
        """The file in a new process: it has `run` and `close`."""

    def anew(self, process: Any) -> Any:
        """The file without what earlier calls left, in the process or in another one."""


class CallsInProcess:
    """A row of calls."""

    def __init__(self, of: ProcessRunner) -> None:
        self._of = of
        self.states: Arrays = {}  # no such runtime tells
        self._row: list[tuple[str, Arrays]] = []
        self._process = of.process()

    def reset(self) -> None:
        """Begin anew."""
        self._process = self._of.anew(self._process)
        self._row = []

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one more call."""
        self._row.append((key or next(iter(self._of.signatures)), inputs))
        try:
            found: dict[str, np.ndarray] = self._process.run(dict(inputs), key)
        except LiteRtFailed as error:
            error.message += f", the {ordinal(len(self._row))} of a row"
            error.calls = tuple(self._row)
            raise
        return found

    def __del__(self) -> None:
        if "_process" in self.__dict__:
            self._process.close()
