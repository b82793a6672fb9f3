"""A file in tflite-micro's interpreter, as one more side of a comparison."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.errors import JfuseError
from jfuse.ir.graph import Program
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.running.micro import MicroInterpreter, has_micro
from jfuse.verification.runners.calls_in_process import CallsInProcess
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of


@dataclass(frozen=True)
class InMicro:
    """A file in tflite-micro, in a process of its own for each row of calls.

    program: what the file says. limits: of each process.
    """

    data: bytes
    program: Program
    limits: Limits = DEFAULT_LIMITS
    name: str = "tflite-micro"

    def __post_init__(self) -> None:
        if not has_micro():
            raise JfuseError("tflite-micro's interpreter is not installed", remedy="pip install 'jfuse[micro]'")
        for signature in self.program.signatures:
            for name, var in zip(signature.input_names, signature.graph.inputs, strict=False):
                if not var.type.is_static:
                    raise JfuseError(
                        "tflite-micro plans its memory before the first call: all sizes must be fixed",
                        where=name,
                        found=str(var.type),
                        remedy="fix the batch: batch=1 (--batch 1), or an input signature without open dimensions",
                    )

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """What the file's signatures take and give, by key."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls in a row, in an interpreter and a process of their own."""
        return CallsInProcess(self)

    def process(self) -> MicroInterpreter:
        """The file in a process of its own."""
        return MicroInterpreter(self.data, self.limits)

    def anew(self, process: MicroInterpreter) -> MicroInterpreter:
        """The file in another process."""
        process.close()
        return self.process()

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls, one after the other."""
        return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return "tflite-micro's interpreter takes one call at a time"
