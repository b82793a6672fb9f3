"""Outputs that are wrong: by how much, in which call, and the exception that ends a comparison with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from jfuse.base.measure import Measure
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.subject import Arrays

Excused = Callable[
    [CallInputs, Sequence["WrongOutput"], Sequence[CallInputs]], tuple[Sequence["WrongOutput"], Sequence[str]]
]
"""Takes a call, its wrong outputs and the calls before it; returns the unexplained outputs, and notes on the others."""


def either(*reasons: Excused) -> Excused:
    """Combine several excuses; each one sees the differences that those before it left."""

    def excused(
        step: CallInputs, wrong: Sequence[WrongOutput], before: Sequence[CallInputs]
    ) -> tuple[Sequence[WrongOutput], Sequence[str]]:
        notes: list[str] = []
        for reason in reasons:
            if wrong:
                wrong, more = reason(step, wrong, before)
                notes += more
        return wrong, notes

    return excused


@dataclass(frozen=True)
class WrongOutput:
    """An output beyond its tolerance: the pair, the error, and the values of both sides.

    place: index of the subject. scale: of its elements, None for max|b|.
    """

    pair: str
    output: str
    measure: Measure
    tolerance: Tolerance
    found: np.ndarray
    wanted: np.ndarray
    place: int = 0
    scale: np.ndarray | None = None


class Differs(Exception):
    """A call whose outputs differ.

    states: of the first subject before it; before: the calls that led to it. others: some calls that show
    the scales of elements, if only these show the difference. earlier: all calls of the same runners before it,
    though no state is kept between them: one with other sizes may have left wrong data.
    """

    def __init__(
        self,
        step: CallInputs,
        wrong: Sequence[WrongOutput],
        states: Arrays,
        before: Sequence[CallInputs],
        others: Sequence[CallInputs] = (),
        earlier: Sequence[CallInputs] = (),
    ) -> None:
        super().__init__(step.key)
        self.step = step
        self.wrong = tuple(wrong)
        self.states = states
        self.before = tuple(before)
        self.others = tuple(others)
        self.earlier = tuple(earlier)


@dataclass(frozen=True)
class LargestDifference:
    """The largest difference of an output in all calls so far, the tolerance of that call, and how many calls."""

    measure: Measure
    tolerance: Tolerance
    samples: int

    def and_(self, other: LargestDifference) -> LargestDifference:
        """The worse of both, over the calls of both."""
        worse = self.tolerance if self.tolerance.value >= other.tolerance.value else other.tolerance
        return LargestDifference(self.measure.worst(other.measure), worse, self.samples + other.samples)


def measured(found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> Measure:
    """The distance of two arrays. Numbers below the least normal one count as equal: either side may flush them.

    This is for finite numbers: a NaN or an infinity on one side alone is an infinite distance.
    """
    measure = Measure.of(found, wanted)
    if wanted.dtype.kind not in "fV" or not np.isfinite(measure.absolute):
        return measure
    if measure.absolute < float(ml_dtypes.finfo(wanted.dtype).tiny):  # type: ignore[no-untyped-call]
        return Measure.of(wanted, wanted)
    largest = float(np.abs(wanted.astype(np.float64)).max(initial=0.0))
    return replace(measure, relative=measure.absolute / tolerance.least) if largest < tolerance.least else measure
