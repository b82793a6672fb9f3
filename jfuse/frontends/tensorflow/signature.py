"""One signature of a source: the imported part of its function, and TensorFlow's own function to run."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from jfuse.base.errors import ImportFailed
from jfuse.ir.types import DType
from jfuse.tf_nodes.attributes import Library, PartialShape
from jfuse.tflite.mapped_file import MappedFile


@dataclass(frozen=True)
class FunctionInput:
    """An argument as nodes refer to it. shape: None where the rank is unknown."""

    name: str
    shape: PartialShape | None
    dtype: DType


@dataclass(frozen=True)
class FunctionGraph:
    """The nodes of a function, in jfuse's class of messages.

    results: references to its results. captures: objects that the function holds, by the name that nodes use;
    equal captures of two functions are one object. written: those that the function, or a function it calls,
    writes, by name.
    """

    nodes: Sequence[Any]
    results: Sequence[str]
    library: Library
    inputs: Sequence[FunctionInput]
    captures: Mapping[str, Hashable]
    written: frozenset[str]


class FunctionSource(Protocol):
    """A function of TensorFlow, live or in a file."""

    @property
    def function(self) -> Any:
        """The concrete function, for running it; a file is loaded by TensorFlow for this."""

    @property
    def variable_names(self) -> Sequence[str]:
        """The names of the variables that the function captures, without `:0`."""

    @property
    def mapped(self) -> Sequence[MappedFile]:
        """The files that constants are views of, where they are too large to be copied."""

    def graph(self) -> FunctionGraph:
        """The graph to import; raises ImportFailed if an argument or result is no plain tensor."""

    def captured(self, capture: Hashable, written: bool) -> Any:
        """A Resource for a variable or table that the function holds, the array of a tensor.

        written: whether any function of the model writes it.
        """


@dataclass(frozen=True)
class TfSignature:
    """One function with the names that its inputs and outputs go by, flat and in TensorFlow's order."""

    key: str
    source: FunctionSource
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]

    @property
    def function(self) -> Any:
        """The concrete function of TensorFlow, for running it; of a folder it is loaded at the first use."""
        return self.source.function

    def graph(self) -> FunctionGraph:
        """The graph to import; raises ImportFailed, with the signature's key, if an argument is no plain tensor."""
        try:
            return self.source.graph()
        except ImportFailed as error:
            error.where = error.where or f"the signature {self.key!r}"
            raise


def flat_names(structure: Any, stem: str) -> tuple[str, ...]:
    """Names for the tensors of a nest as TensorFlow's SavedModels give them: dict keys, else stem_0, stem_1, …"""
    if isinstance(structure, Mapping):
        names = [n for key in sorted(structure) for n in _leaf_names(structure[key], str(key))]
    elif isinstance(structure, list | tuple):
        names = [n for i, item in enumerate(structure) for n in _leaf_names(item, f"{stem}_{i}")]
    else:
        names = [] if structure is None else [f"{stem}_0"]
    return unique_names(names)


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names with a number behind those that came before, as TensorFlow saves them: v, v_1, v_2."""
    taken: dict[str, None] = {}
    for name in names:
        candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        taken[next(c for c in candidates if c not in taken)] = None
    return tuple(taken)


def _leaf_names(structure: Any, name: str) -> tuple[str, ...]:
    if isinstance(structure, Mapping):
        return tuple(n for key in sorted(structure) for n in _leaf_names(structure[key], f"{name}_{key}"))
    if isinstance(structure, list | tuple):
        return tuple(n for i, item in enumerate(structure) for n in _leaf_names(item, f"{name}_{i}"))
    return () if structure is None else (name,)
