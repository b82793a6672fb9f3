"""A source that takes and returns its states, called in a row: each call gets the states of the one before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.ir.graph import Program
from jfuse.ir.states import ExplicitState, first_states, with_explicit_states
from jfuse.verification.runners.one_by_one import one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface, Subject, interfaces_of


@dataclass(frozen=True)
class WithStates:
    """A subject whose inputs and outputs of these names are states."""

    subject: Subject
    states: Sequence[ExplicitState]

    @property
    def name(self) -> str:
        """The subject's."""
        return self.subject.name

    @cached_property
    def program(self) -> Program:
        """The subject's, with the states."""
        assert self.subject.program is not None  # a source has one
        return with_explicit_states(self.subject.program, self.states)

    @cached_property
    def signatures(self) -> Mapping[str, Interface]:
        """Without the inputs and outputs that are states."""
        return interfaces_of(self.program)

    def start(self) -> Calls:
        """Calls from the initial values."""
        return _Calls(self, self.subject.start())

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls, together where the subject makes them so; rows one after the other."""
        if in_a_row:
            return one_by_one(self, inputs, key, in_a_row)
        count = len(next(iter(inputs.values())))
        first = self.given(key, first_states(self.program))
        states = {name: np.repeat(array[None], count, axis=0) for name, array in first.items()}
        outputs = self.subject.batch({**inputs, **states}, key)
        return {name: array for name, array in outputs.items() if name in self.signatures[key].outputs}

    def singly(self, key: str) -> str | None:
        """The subject's reason."""
        return self.subject.singly(key)

    def given(self, key: str, states: Arrays) -> dict[str, np.ndarray]:
        """The states that a signature takes, by the names of its inputs."""
        return {s.input: states[s.name] for s in self.states if s.input in self.subject.signatures[key].inputs}


class _Calls:
    def __init__(self, source: WithStates, calls: Calls) -> None:
        self._source = source
        self._calls = calls
        self.reset()

    @property
    def states(self) -> Arrays:
        return {**self._calls.states, **self._states}

    def reset(self) -> None:
        self._calls.reset()
        first = first_states(self._source.program)
        self._states = {s.name: first[s.name] for s in self._source.states}

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        assert key is not None
        outputs = self._calls.run({**inputs, **self._source.given(key, self._states)}, key)
        self._states |= {s.name: outputs.pop(s.output) for s in self._source.states if s.output in outputs}
        return outputs
