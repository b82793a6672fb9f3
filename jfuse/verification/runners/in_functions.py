"""The source of a model: functions of jax or PyTorch, each by its own library, or TensorFlow's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from jfuse.frontends.imported_functions import ImportedFunctions
from jfuse.ir.graph import Program
from jfuse.verification.runners.in_jax import InJax
from jfuse.verification.runners.in_tensorflow import InTensorFlow
from jfuse.verification.runners.in_torch import InTorch
from jfuse.verification.runners.on_xla import ComparedModel
from jfuse.verification.runners.with_states import WithStates
from jfuse.verification.subject import Arrays, Calls, Interface, Subject, interfaces_of


@dataclass(frozen=True)
class InFunctions:
    """The functions that a model was made from, of jax arrays or of PyTorch: each signature by its own."""

    imported: ImportedFunctions

    @property
    def name(self) -> str:
        """The library that computes, as reports print it: JAX or PyTorch."""
        return next(iter(self.imported.functions.values())).library

    @property
    def program(self) -> Program:
        """The functions as they were imported."""
        return self.imported.program

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the functions, by key."""
        return interfaces_of(self.program)

    @cached_property
    def _parts(self) -> Mapping[str, InJax | InTorch]:
        return {
            key: InJax(f.call, f.inputs, key=key) if f.library == "JAX" else InTorch(f, self.signatures[key])
            for key, f in self.imported.functions.items()
        }

    def start(self) -> Calls:
        """Start a row of calls without states."""
        return _FunctionCalls(self._parts)

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls in one program, as `InJax` makes them, or as `InTorch` does."""
        return self._parts[key].batch(inputs, key, in_a_row=in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return self._parts[key].singly(key)


@dataclass
class _FunctionCalls:
    parts: Mapping[str, InJax | InTorch]
    states: Arrays = field(default_factory=dict)

    def reset(self) -> None:
        pass

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        return self.parts[key].start().run(inputs, key)


def source_of(model: ComparedModel) -> Subject | None:
    """Whoever computes the source of a model, where it has one."""
    source = model.functions or model.imported
    if source is None:
        return None
    plain: Subject = InFunctions(source) if isinstance(source, ImportedFunctions) else InTensorFlow(source)
    return WithStates(plain, source.explicit_states) if source.explicit_states else plain
