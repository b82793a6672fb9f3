"""A file in a runtime in another process, as one side of a comparison: rows of calls, each in its own interpreter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Program
from jfuse.running.worker import LiteRtFailed
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of


@dataclass(frozen=True)
class InProcess(ABC):
    """A file in a runtime that takes one call at a time.

    program: of the file. limits: of each process. name: of the runtime.
    """

    data: bytes
    program: Program
    limits: Limits = DEFAULT_LIMITS
    name: str = ""

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the file's signatures, by key."""
        return interfaces_of(self.program)

    @abstractmethod
    def process(self) -> Any:
        """Start a process with the file: it ends with the object that is given."""

    @abstractmethod
    def anew(self, process: Any) -> Any:
        """Reset the file to its initial states, in this process or in another one."""

    def call(self, process: Any, inputs: Arrays, key: str | None) -> dict[str, np.ndarray]:
        """The outputs of one more call in the process."""
        outputs: dict[str, np.ndarray] = process.run(dict(inputs), key)
        return outputs

    def start(self) -> Calls:
        """Calls in a row, in a process of their own."""
        return CallsInProcess(self)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls, one after the other."""
        return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return f"{self.name} takes one call at a time"


class CallsInProcess:
    """A row of calls."""

    def __init__(self, of: InProcess) -> None:
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
            return self._of.call(self._process, inputs, key)
        except LiteRtFailed as error:
            error.message += f", the {ordinal(len(self._row))} of a row"
            error.calls = tuple(self._row)
            raise


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
