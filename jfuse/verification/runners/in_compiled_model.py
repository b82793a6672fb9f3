"""A file in LiteRT's CompiledModel, as one more side of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from jfuse.running.file_process import CompiledModelProcess
from jfuse.running.programs.device import Device
from jfuse.verification.runners.calls_in_process import InProcess


@dataclass(frozen=True)
class InCompiledModel(InProcess):
    """A file in CompiledModel.   device: where it runs; None for here"""

    name: str = "CompiledModel"
    device: Device | None = None

    def process(self) -> CompiledModelProcess:
        """Start a process with the file."""
        return CompiledModelProcess(self.data, self.program, self.limits, self.device)

    def anew(self, process: CompiledModelProcess) -> CompiledModelProcess:
        """Load the file again in its process, where that has not ended."""
        if process.has_ended:
            return self.process()
        process.reset()
        return process
