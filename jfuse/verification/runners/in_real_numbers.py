"""A file with integer inputs and outputs, called with real numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.ir.graph import Program
from jfuse.ir.types import TensorType
from jfuse.quantization.real_numbers import as_integers, as_real
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
        return self.told(key, self.file.batch(self.given(key, inputs), key, in_a_row=in_a_row))

    def singly(self, key: str) -> str | None:
        """As the file."""
        return self.file.singly(key)

    def given(self, key: str, inputs: Arrays) -> dict[str, np.ndarray]:
        """Quantize real inputs to the types of the file."""
        types = self.file.signatures[key].inputs
        return {name: as_integers(array, types[name]) for name, array in inputs.items()}

    def told(self, key: str, outputs: Arrays) -> dict[str, np.ndarray]:
        """Dequantize the file's outputs."""
        types = self._outputs[key]
        return {name: as_real(a, types[name].quantization) if name in types else a for name, a in outputs.items()}

    @cached_property
    def _outputs(self) -> Mapping[str, Mapping[str, TensorType]]:
        signatures = self.file.program.signatures
        return {s.key: {n: a.type for n, a in zip(s.output_names, s.graph.outputs, strict=False)} for s in signatures}


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
        return self._file.told(key, self._calls.run(self._file.given(key, inputs), key))
