"""Calls one after the other: of a subject for each sample, and of a function that keeps nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.verification.subject import Arrays, Subject


def one_by_one(subject: Subject, inputs: Arrays, key: str, in_a_row: bool = False) -> dict[str, np.ndarray]:
    """As `Subject.batch`, a call at a time."""
    keeps = any(interface.states for interface in subject.signatures.values())
    calls = subject.start()

    def run(arrays: Arrays) -> dict[str, np.ndarray]:
        if keeps:
            calls.reset()
        return _stacked(arrays, lambda one: calls.run(one, key)) if in_a_row else calls.run(arrays, key)

    return _stacked(inputs, run)


def _stacked(inputs: Arrays, run: Callable[[Arrays], dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The outputs for each item along the first axis of every input, along a first axis."""
    count = len(next(iter(inputs.values())))
    runs = [run({name: array[i] for name, array in inputs.items()}) for i in range(count)]
    for name in runs[0]:
        shapes = {outputs[name].shape for outputs in runs}
        if len(shapes) > 1:
            raise JfuseError(
                f"the output {name!r} has another shape for each sample, as data decide it",
                expected="samples whose outputs can stand in one array",
                found=" and ".join(str(list(shape)) for shape in sorted(shapes)[:2]),
                remedy="options=jfuse.Verify(calls=…), which compares calls in a row, instead of samples",
            )
    return {name: np.stack([outputs[name] for outputs in runs]) for name in runs[0]}


@dataclass
class StatelessCalls:
    """Calls of a function of arrays by name."""

    function: Callable[[Arrays], dict[str, np.ndarray]]
    states: Arrays = field(default_factory=dict)

    def reset(self) -> None:
        """Nothing to do: no call leaves anything."""
        pass

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of the function by name; `key` is not asked for, as there is one."""
        return self.function(inputs)
