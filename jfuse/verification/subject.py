"""`Subject`: a side of a comparison, with named signatures that can be called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from jfuse.ir.graph import Program, Signature
from jfuse.ir.types import TensorType

Arrays = Mapping[str, np.ndarray]
"""Arrays by the name of an input, output or state."""

STATE = "state "
"""Before the name of a state among outputs: no output has such a name."""


@dataclass(frozen=True)
class Interface:
    """One signature: the types of the inputs by name (dimensions may be open), the names of the outputs.

    states: names of the states. exposed: the inputs and outputs that are states instead.
    """

    inputs: Mapping[str, TensorType]
    outputs: tuple[str, ...]
    states: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()


def interface_of(signature: Signature) -> Interface:
    """Inputs, outputs and states of a signature."""
    inputs = {n: v.type for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}
    states, exposed = (tuple(s.name for s in of) for of in (signature.states, signature.exposed))
    return Interface(inputs, signature.output_names, states, exposed)


def interfaces_of(program: Program) -> dict[str, Interface]:
    """Inputs, outputs and states of a program's signatures, by key."""
    return {s.key: interface_of(s) for s in program.signatures}


class Calls(Protocol):
    """Calls in a row, each from the states that the one before it left."""

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one signature by name. Raises VerifyFailed where the inputs are refused."""

    @property
    def states(self) -> Arrays:
        """Current states by name; empty if they cannot be read."""

    def reset(self) -> None:
        """Go back to the initial states."""


class Subject(Protocol):
    """One side of a comparison: "XLA", "LiteRT", "TensorFlow" or "JAX" running a model.

    program: the graph that it computes, where there is one to look into.
    """

    @property
    def name(self) -> str:
        """Who computes, in a word: as it stands in reports."""

    @property
    def signatures(self) -> Mapping[str, Interface]:
        """The signatures that can be called, by key."""

    @property
    def program(self) -> Program | None:
        """The program that is run; None for a subject without a graph."""

    def start(self) -> Calls:
        """Calls in a row from the initial states."""

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls on many samples at once: samples along a new first axis of every input, and of every output.

        Each sample is one call from the initial states, with the shapes that the signature states (batch included).
        in_a_row: it is several, along a new second axis, each from the states that the one before it left.
        """

    def singly(self, key: str) -> str | None:
        """Why `batch` made a call for each sample; None where it computes samples together."""


def pair_of(reference: Subject, subject: Subject) -> str:
    """Name of the comparison of two sides, such as "xla/litert"."""
    return f"{reference.name}/{subject.name}".lower()


def states_as_outputs(states: Arrays) -> dict[str, np.ndarray]:
    """States among outputs: under names that no output has."""
    return {f"{STATE}{name}": value for name, value in states.items()}


def outputs_and_states(calls: Calls, inputs: Arrays, key: str) -> dict[str, np.ndarray]:
    """One more call: its outputs, and the states after it under names that no output has."""
    return {**calls.run(inputs, key), **states_as_outputs(calls.states)}
