"""Batches of given samples, and a subject that is wrong in some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.graph import Signature
from jfuse.verification.inputs.sample_batch import SampleBatch
from jfuse.verification.subject import Arrays, Calls, Subject


def batch_of(signature: Signature, inputs: Arrays) -> SampleBatch:
    """All samples of arrays that have them along their first axis."""
    count = len(next(iter(inputs.values())))
    return SampleBatch(signature, count, lambda part: {n: a[part.start : part.stop] for n, a in inputs.items()})


@dataclass
class OffInSamples:
    """A subject whose output is off by a number in samples whose first input has squares that add up to enough."""

    subject: Subject
    output: str
    by: float
    above: float

    def __getattr__(self, name: str) -> Any:
        return getattr(self.subject, name)

    def start(self) -> Calls:
        return _OffCalls(self, self.subject.start())

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        found = self.subject.batch(inputs, key, in_a_row=in_a_row)
        samples = [
            self.off({n: a[i] for n, a in inputs.items()}, found[self.output][i])
            for i in range(len(found[self.output]))
        ]
        return {**found, self.output: np.stack(samples)}

    def off(self, inputs: Arrays, wanted: np.ndarray) -> np.ndarray:
        """What one call gives."""
        first = next(iter(inputs.values()))
        return wanted + np.float32(self.by * (np.square(first).sum() > self.above))


@dataclass
class _OffCalls:
    of: OffInSamples
    calls: Calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self.calls, name)

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        found = self.calls.run(inputs, key)
        return {**found, self.of.output: self.of.off(inputs, found[self.of.output])}
