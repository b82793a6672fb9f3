"""The bytes of a file, computed by the LiteRT interpreter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Program
from jfuse.running.cores import cores
from jfuse.running.interpreter import LiteRt
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.partition import with_delegates
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of

_FEW = 16  # samples for which no process is started


@dataclass(frozen=True)
class InLiteRt:
    """A file in the LiteRT interpreter. program: of the file.

    limits: of its processes. device: where it runs; None for here.

    With its default delegates where `with_delegates` says so.
    """

    data: bytes
    program: Program
    name: str = "LiteRT"
    limits: Limits = DEFAULT_LIMITS
    device: Device | None = None

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the file's signatures, by key."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls in a row, in an interpreter of their own."""
        return _InterpreterCalls(self)

    @cached_property
    def delegates(self) -> bool:
        """Whether the interpreter may hand operators to XNNPACK, its default delegate."""
        return with_delegates(self.program)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one process for each core, or one on a device; a few of them in the one that all share."""
        if len(next(iter(inputs.values()))) < _FEW:
            return one_by_one(self, inputs, key, in_a_row)
        try:
            fresh = any(i.states for i in self.signatures.values())
            return self._workers.run(inputs, key, fresh=fresh, in_a_row=in_a_row)
        except Refused:
            return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Never: an interpreter takes one call at a time, but there is one for each core."""
        return None

    @cached_property
    def _workers(self) -> LiteRtWorkers:
        count = cores() if self.device is None else 1
        return LiteRtWorkers(self.data, count, self.delegates, self.limits, self.device)

    def close(self) -> None:
        """End the processes, if any; the next batch starts others."""
        if "_workers" in self.__dict__:
            self._workers.close()


class _InterpreterCalls:
    def __init__(self, of: InLiteRt) -> None:
        self._of = of
        self.states: Arrays = {}  # no interpreter tells
        self.reset()

    def reset(self) -> None:
        of = self._of
        self._interpreter = LiteRt(of.data, delegates=of.delegates, limits=of.limits, device=of.device)
        self._row: list[tuple[str, Arrays]] = []

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        self._row.append((key, inputs))
        try:
            return self._interpreter.run(key, inputs)
        except LiteRtFailed as error:
            error.message += f", the {ordinal(len(self._row))} of a row"
            error.calls = tuple(self._row)
            raise


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, …"""
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
