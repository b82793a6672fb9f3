"""A batch of independent samples, any part of which can be drawn without the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jfuse.ir.graph import Signature
from jfuse.verification.subject import Arrays


@dataclass(frozen=True)
class SampleBatch:
    """Samples of one signature, each independent of all others.

    count: how many. draw: the inputs of those in a range from 0 to count, along a new first axis of each, as
    `Subject.batch` takes them; it is not asked for none. first: the number of the first one, among all that are drawn
    of its signature. calls: in a row, of each sample.
    """

    signature: Signature
    count: int
    draw: Callable[[range], Arrays]
    first: int = 0
    calls: int = 1

    @property
    def whole(self) -> Arrays:
        """The inputs of all samples."""
        return self.draw(range(self.count))
