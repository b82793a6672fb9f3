"""A file in tflite-micro's interpreter, as one more side of a comparison."""

from __future__ import annotations

from dataclasses import dataclass

from jfuse.base.errors import JfuseError
from jfuse.running.micro import MicroInterpreter, has_micro
from jfuse.verification.runners.calls_in_process import InProcess


@dataclass(frozen=True)
class InMicro(InProcess):
    """A file in tflite-micro; all its sizes are fixed."""

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
                        remedy="fix the batch: batch=1, or an input signature without open dimensions",
                    )

    def process(self) -> MicroInterpreter:
        """Start a process with the file."""
        return MicroInterpreter(self.data, self.limits)

    def anew(self, process: MicroInterpreter) -> MicroInterpreter:
        """Start another process with the file."""
        process.close()
        return self.process()
