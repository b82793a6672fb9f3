"""A program that was made from functions in memory, with these functions: of jax arrays, or modules of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

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
class ImportedFunctions:
    """A program with the functions behind its signatures, and notes for the report."""

    program: Program
    functions: Mapping[str, SourceFunction]
    notes: tuple[str, ...] = ()
    explicit_states: tuple[ExplicitState, ...] = ()
