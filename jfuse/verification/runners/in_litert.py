"""The bytes of a file, computed by the LiteRT interpreter."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.running.cores import cores
from jfuse.running.interpreter import LiteRt
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.partition import with_delegates
from jfuse.running.programs.device import Device
from jfuse.running.worker import Refused
from jfuse.verification.runners.calls_in_process import InProcess
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays

_FEW = 16  # samples for which no process is started


@dataclass(frozen=True)
class InLiteRt(InProcess):
    """A file in the LiteRT interpreter, with its default delegates where `with_delegates` says so.

    device: where it runs; None for here.
    """

    name: str = "LiteRT"
    device: Device | None = None

    def process(self) -> LiteRt:
        """Load the file in an interpreter of its own."""
        return LiteRt(self.data, delegates=self.delegates, limits=self.limits, device=self.device)

    def anew(self, process: LiteRt) -> LiteRt:
        """Load the file again."""
        return self.process()

    def call(self, process: LiteRt, inputs: Arrays, key: str | None) -> dict[str, np.ndarray]:
        """The outputs of one more call in the interpreter."""
        return process.run(key or next(iter(self.signatures)), inputs)

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
