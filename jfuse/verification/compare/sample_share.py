"""The share of one process in a batch of samples: draw, compute, and report the differences."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.base.measure import Measure
from jfuse.proof.inputs import CallInputs
from jfuse.running.processes import own_share
from jfuse.verification.compare.element_errors import ElementErrors
from jfuse.verification.compare.scales import ElementRanges
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.compare.wrong import Excused, LargestDifference, WrongOutput, measured
from jfuse.verification.inputs.redraw import Redraw
from jfuse.verification.inputs.sample_batch import SampleBatch
from jfuse.verification.subject import Arrays, Subject, pair_of


@dataclass(frozen=True)
class OddCall:
    """One call of a sample with an output that is wrong as a whole, or may be by its elements.

    before: the calls before it in its sample. left: the unexplained part of an output that is
    wrong as a whole, with notes on the explained one; None where only elements may be wrong.
    """

    step: CallInputs
    before: tuple[CallInputs, ...]
    wrong: WrongOutput
    left: tuple[WrongOutput, ...] | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ShareResult:
    """Differences and notes of the share of one process.

    findings: by the number of a subject and the name of an output, in the order of the samples. notes: on the sides.
    """

    findings: Mapping[tuple[int, str], Sequence[LargestDifference | OddCall]]
    notes: Sequence[str]


@dataclass(frozen=True)
class SampleShare:
    """The share that this process has of a batch.

    in_a_row: a sample is several calls. tolerances: of the outputs that are compared, by name.
    """

    batch: SampleBatch
    in_a_row: bool
    reference: Subject
    subjects: Sequence[Subject]
    tolerances: Mapping[str, Tolerance]
    redraw: Redraw
    elements: ElementErrors
    excused: Excused

    @property
    def key(self) -> str:
        """The signature's."""
        return self.batch.signature.key

    def moves(self) -> dict[str, ElementRanges]:
        """Value ranges of the elements of each output, over the samples of this share."""
        return dict(self._moves()) if self._numbers else {}

    def _moves(self) -> Iterator[tuple[str, ElementRanges]]:
        expected, answers = self._answers
        for output in (n for n in expected if n in self.tolerances and any(n in outputs for outputs in answers[:1])):
            if self.tolerances[output].per_element:
                moves = self.elements.scales.moves(self.key, output, expected[output], self._axes)
                if moves is not None:
                    yield output, moves

    def found(self) -> ShareResult:
        """Compare with the scales of all processes; stop after the first call that differs."""
        findings = dict(self._findings()) if self._numbers else {}
        why = {s.name: s.singly(self.key) for s in (self.reference, *self.subjects)}
        return ShareResult(
            findings, [f"{name} computed samples one by one: {reason}" for name, reason in why.items() if reason]
        )

    def _findings(self) -> Iterator[tuple[tuple[int, str], Sequence[LargestDifference | OddCall]]]:
        expected, answers = self._answers
        for number, outputs in enumerate(answers):
            for output in (n for n in expected if n in outputs and n in self.tolerances):
                findings = list(self._of_output(number, output, outputs[output], expected[output]))
                yield (number, output), findings
                if any(isinstance(f, OddCall) and f.left for f in findings):
                    return

    @property
    def _axes(self) -> int:
        return 2 if self.in_a_row else 1

    @cached_property
    def _numbers(self) -> range:
        return own_share(self.batch.count)

    @cached_property
    def _inputs(self) -> Arrays:
        """The share, with shapes as their readers need them, drawn in the manner that the reference accepted."""
        drawn, redraw, signature = self.batch.draw(self._numbers), self.redraw, self.batch.signature
        if not redraw.kept.get(self.key) and not redraw.needed.get(self.key):
            return drawn
        shape = next(iter(drawn.values())).shape[: self._axes]
        samples = ({n: a[place] for n, a in drawn.items()} for place in np.ndindex(shape))
        first = (self.batch.first + self._numbers.start) * int(np.prod(shape[1:]))
        changed = [
            redraw.as_kept(self.key, redraw.as_needed(signature, sample), first + i) for i, sample in enumerate(samples)
        ]
        stacked = {n: np.stack([one[n] for one in changed]) for n in drawn}
        return {n: a.reshape(*shape, *a.shape[1:]) for n, a in stacked.items()}

    @cached_property
    def _answers(self) -> tuple[Arrays, Sequence[Arrays]]:
        """Of the reference, and of each subject."""
        sides = (self.reference, *self.subjects)
        expected, *answers = (s.batch(self._inputs, self.key, in_a_row=self.in_a_row) for s in sides)
        return expected, answers

    def _of_output(
        self, place: int, output: str, found: np.ndarray, wanted: np.ndarray
    ) -> Iterator[LargestDifference | OddCall]:
        """The findings of one output of a subject; the last of them is the first call that differs, if one does."""
        tolerance, pair = self.tolerances[output], pair_of(self.reference, self.subjects[place])
        if found.shape == wanted.shape and np.array_equal(found, wanted):
            count = int(np.prod(wanted.shape[: self._axes]))
            yield LargestDifference(Measure.of(found, wanted), tolerance, count)
            return
        worst: list[LargestDifference] = []
        for at in np.ndindex(wanted.shape[: self._axes]):
            f, w = found[at], wanted[at]
            wrong = WrongOutput(pair, output, measured(f, w, tolerance), tolerance, f, w, place)
            odd = self._odd(at, wrong)
            if wrong.measure.relative <= tolerance.value:
                own = LargestDifference(wrong.measure, tolerance, 1)
                worst = [worst[0].and_(own) if worst else own]
            if odd is not None:
                yield from worst
                yield odd
                worst = []
                if odd.left:
                    return
        yield from worst

    def _odd(self, at: tuple[int, ...], wrong: WrongOutput) -> OddCall | None:
        """The call where its output is wrong, or may be; None where it is right."""
        if wrong.measure.relative <= wrong.tolerance.value:
            if self.elements.wrong_elements(self.key, wrong) is None:
                return None
            *before, step = self._steps(at)
            return OddCall(step, tuple(before), wrong)
        *before, step = self._steps(at)
        left, notes = self.excused(step, [wrong], before)
        return OddCall(step, tuple(before), wrong, tuple(left), tuple(notes))

    def _steps(self, at: tuple[int, ...]) -> list[CallInputs]:
        """The calls of a sample up to one of them.   at: the sample's place in the share, and the call's in its row"""
        sample, *last = at
        rows = self._inputs.items()
        if not last:
            return [CallInputs(self.key, {name: array[sample] for name, array in rows})]
        return [CallInputs(self.key, {name: array[sample, i] for name, array in rows}) for i in range(last[0] + 1)]
