"""Outputs within their tolerance as a whole, with single elements that err by more than they move by themselves."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.base.measure import Measure, relative_error
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.scales import ElementScales, moved_by_rounding, nudged
from jfuse.verification.compare.wrong import WrongOutput
from jfuse.verification.locate.inner_rounding import rounded_results
from jfuse.verification.subject import Arrays, Subject, outputs_and_states

_TRIES = 4  # an element may stand still by chance in one


@dataclass(frozen=True)
class Suspect:
    """An output of one call that passes as a whole, with elements beyond the tolerance by their scale so far."""

    step: CallInputs
    wrong: WrongOutput
    states: Arrays
    before: tuple[CallInputs, ...]


@dataclass
class ElementErrors:
    """Suspect outputs, judged by the scales of their elements, then by roundings of inputs and inner values.

    reference: is run again on rounded inputs. subject: its graph is run with rounded values.
    """

    reference: Subject
    subject: Subject | None
    scales: ElementScales
    suspects: list[Suspect] = field(default_factory=list)

    def add(self, suspects: Iterator[Suspect]) -> None:
        """Keep the suspects that remain, and the new ones that may be wrong by the scales so far."""
        candidates = [*self.suspects, *suspects]
        self.suspects = [s for s in candidates if self.wrong_elements(s.step.key, s.wrong, so_far=True) is not None]

    def wrong_elements(self, key: str, of: WrongOutput, *, so_far: bool = False) -> WrongOutput | None:
        """The output as one that is wrong by its elements' own scales; None where it is right.   so_far: or may be"""
        f, w, tolerance = of.found, of.wanted, of.tolerance
        if f.size != w.size or w.dtype.kind not in "fcV" or np.array_equal(f.reshape(w.shape), w):
            return None
        scale = self.scales.of(key, of.output, w, tolerance, so_far=so_far)
        if scale is None or relative_error(f.reshape(w.shape), w, scale) <= tolerance.value:
            return None
        return replace(of, found=f.reshape(w.shape), measure=Measure.of(f.reshape(w.shape), w, scale), scale=scale)

    def unexplained(self, suspect: Suspect) -> WrongOutput | None:
        """The output where elements are wrong, and no rounding on the way explains that; None where one does."""
        key, of = suspect.step.key, suspect.wrong
        wrong = self.wrong_elements(key, of)
        for moves in (self._by_inputs, self._by_inner_values):
            if wrong is not None:
                self.scales.widen(key, of.output, of.wanted, moves(suspect))
                wrong = self.wrong_elements(key, of)
        return wrong

    def _by_inputs(self, suspect: Suspect) -> np.ndarray:
        """How far the reference itself moves each element if the inputs of the calls are rounded otherwise."""
        of, row = suspect.wrong, (*suspect.before, suspect.step)
        again = [tuple(replace(s, inputs=nudged(s.inputs, of.tolerance.value, i)) for s in row) for i in range(_TRIES)]
        try:
            plain, *others = (self._last_of(calls, of.output) for calls in (row, *again))
        except VerifyFailed:
            return np.zeros(of.wanted.shape)
        alike = [o.reshape(of.wanted.shape) for o in others if o.size == of.wanted.size]
        return moved_by_rounding(plain.reshape(of.wanted.shape), alike)

    def _by_inner_values(self, suspect: Suspect) -> np.ndarray:
        """How far each element moves where all values on the way are; without limit where no graph can be run so.

        Roundings of inputs miss sums that always cancel, and integers cannot be rounded.
        """
        of, row = suspect.wrong, (*suspect.before, suspect.step)
        program = None if self.subject is None else self.subject.program
        signatures = {} if program is None else {s.key: s for s in program.signatures}
        if suspect.step.key not in signatures or any(s.key != suspect.step.key for s in row):
            return np.full(of.wanted.shape, np.inf)
        signature = signatures[suspect.step.key]
        plain, *others = (
            rounded_results(signature, row, seed, of.tolerance.unit).get(of.output) for seed in (None, *range(_TRIES))
        )
        moved = [o for o in others if o is not None and o.size == of.wanted.size]
        if plain is None or plain.size != of.wanted.size or len(moved) < len(others):
            return np.full(of.wanted.shape, np.inf)
        return moved_by_rounding(plain.reshape(of.wanted.shape), [o.reshape(of.wanted.shape) for o in moved])

    def _last_of(self, row: Sequence[CallInputs], output: str) -> np.ndarray:
        calls = self.reference.start()
        for step in row:
            outputs = outputs_and_states(calls, step.inputs, step.key)
        return np.asarray(outputs[output])
