"""A file with integer inputs and outputs, called with real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.ir.graph import Program
from jfuse.quantization.real_numbers.boundaries import Boundaries
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.subject import Arrays, Calls, Interface, interfaces_of


@dataclass(frozen=True)
class InRealNumbers:
    """A file in LiteRT: inputs are quantized by its own parameters, outputs dequantized.

    program: the file's, as `with_real_boundaries` has it.
    """

    file: InLiteRt
    program: Program

    @property
    def name(self) -> str:
        """The runner's."""
        return self.file.name

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the file, in real numbers."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls in a row."""
        return _Calls(self, self.file.start())

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """As the file's."""
        given = self.boundaries.integers(key, inputs)
        return self.boundaries.real(key, self.file.batch(given, key, in_a_row=in_a_row))

    def singly(self, key: str) -> str | None:
        """As the file."""
        return self.file.singly(key)

    @cached_property
    def boundaries(self) -> Boundaries:
        """Converts the file's inputs and outputs."""
        return Boundaries(self.file.program)


class _Calls:
    def __init__(self, file: InRealNumbers, calls: Calls) -> None:
        self._file = file
        self._calls = calls

    @property
    def states(self) -> Arrays:
        return self._calls.states

    def reset(self) -> None:
        self._calls.reset()

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        boundaries = self._file.boundaries
        return boundaries.real(key, self._calls.run(boundaries.integers(key, inputs), key))
