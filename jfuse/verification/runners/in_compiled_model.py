"""A file in LiteRT's CompiledModel, as one more side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.ir.graph import Program
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.running.file_process import CompiledModelProcess
from jfuse.verification.runners.calls_in_process import CallsInProcess
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of


@dataclass(frozen=True)
class InCompiledModel:
    """A file in CompiledModel, in a process of its own for each row of calls.

    program: what the file says. limits: of each process.
    """

    data: bytes
    program: Program
    limits: Limits = DEFAULT_LIMITS
    name: str = "CompiledModel"

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """What the file's signatures take and give, by key."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls in a row, in a process of their own."""
        return CallsInProcess(self)

    def process(self) -> CompiledModelProcess:
        """The file in a process of its own."""
        return CompiledModelProcess(self.data, self.program, self.limits)

    def anew(self, process: CompiledModelProcess) -> CompiledModelProcess:
        """The file, loaded again by its process where that has not ended."""
        if process.has_ended:
            return self.process()
        process.reset()
        return process

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls, one after the other."""
        return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return "CompiledModel takes one call at a time"
