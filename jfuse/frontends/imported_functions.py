"""A program that was made from functions in memory, with these functions: of jax arrays, or modules of PyTorch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jfuse.ir.graph import Program
from jfuse.ir.states import ExplicitState
from jfuse.ir.types import TensorType


class SourceFunction(Protocol):
    """A function behind a signature: the types of its flat arguments by name, and how it is called."""

    @property
    def key(self) -> str:
        """The key of the signature that the function becomes, as `serving_default`."""

    @property
    def inputs(self) -> Mapping[str, TensorType]:
        """The types of the arguments by name, in order."""

    @property
    def library(self) -> str:
        """Whose function it is, as reports name it: "JAX" or "PyTorch"."""

    def call(self, *flat: Any) -> dict[str, Any]:
        """The results by name, for arrays in the order of `inputs`."""


@dataclass(frozen=True)
class KeptValue:
    """A value that one call of a function hands to the next one.

    name: of the state, one for all functions that share it. initial: the value at import. is_written: by this function.
    """

    name: str
    initial: np.ndarray
    is_written: bool

    @property
    def input(self) -> str:
        """The name of the input that takes the value."""
        return f"{self.name}/before"

    @property
    def output(self) -> str:
        """The name of the output that gives the new one."""
        return f"{self.name}/after"


def explicit_states(kept: Iterable[Sequence[KeptValue]]) -> tuple[ExplicitState, ...]:
    """The states of several functions, each once: a function that does not write a value has no output for it."""
    states_by_name = {value.name: value for each in kept for value in each}
    return tuple(ExplicitState(v.name, v.input, v.output, v.initial) for v in states_by_name.values())


@dataclass(frozen=True)
class ImportedFunctions:
    """A program with the functions behind its signatures, and notes for the report."""

    program: Program
    functions: Mapping[str, SourceFunction]
    notes: tuple[str, ...] = ()
    explicit_states: tuple[ExplicitState, ...] = ()
