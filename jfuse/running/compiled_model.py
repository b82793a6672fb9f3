"""Files in LiteRT's CompiledModel, the API of LiteRT 2 with accelerators, here on the CPU."""

from __future__ import annotations

import numpy as np

from jfuse.ir.graph import Program
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.running.file_process import FileProcess


class CompiledModelProcess(FileProcess):
    """One file in CompiledModel, in a process of its own.   program: what the file says"""

    def __init__(self, data: bytes, program: Program, limits: Limits = DEFAULT_LIMITS) -> None:
        types = output_types(program)
        super().__init__("compiled_model", "CompiledModel", "compiled-model", data, limits, types)
        self._first = next(iter(types))

    def run(self, inputs: dict[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one call by name, after the calls before it.   key: of the signature, None for the first"""
        given = {name: np.asarray(array, order="C") for name, array in inputs.items()}
        return {name: np.array(array) for name, array in self.ask("call", key or self._first, given).items()}

    def reset(self) -> None:
        """Clear what the file keeps from call to call."""
        self.ask("reset")


def output_types(program: Program) -> dict[str, dict[str, str]]:
    """The element types of each signature's outputs, by key and name, as NumPy calls them."""
    return {
        s.key: {n: str(a.dtype) for n, a in zip(s.output_names, s.graph.outputs, strict=False)}
        for s in program.signatures
    }
