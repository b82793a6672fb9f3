"""The comparison: calls of several subjects against a reference, and the largest differences so far."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.errors import JfuseError, KernelFailed, VerifyFailed
from jfuse.base.measure import Measure
from jfuse.ir.graph import Signature
from jfuse.proof.inputs import LONGER, CallInputs
from jfuse.records.conversion import Difference
from jfuse.running.processes import of_all_processes
from jfuse.verification.compare.constant_outputs import ConstantOutputs, chooses_among_nans
from jfuse.verification.compare.element_errors import ElementErrors, Suspect
from jfuse.verification.compare.matching import need_same_types
from jfuse.verification.compare.sample_share import OddCall, SampleShare
from jfuse.verification.compare.scales import ElementScales
from jfuse.verification.compare.steep_inputs import accepted, is_steep, ties_in_loops
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.compare.vectors import with_signs_of
from jfuse.verification.compare.wrong import Differs, Excused, LargestDifference, WrongOutput, measured
from jfuse.verification.inputs.edges import ONE_INFINITE, OVERFLOWING, STEEP
from jfuse.verification.inputs.redraw import Redraw
from jfuse.verification.inputs.sample_batch import SampleBatch
from jfuse.verification.runners.without_custom_ops import AroundCustom, results_by_chance, results_of_stubs
from jfuse.verification.subject import STATE, Arrays, Calls, Subject, outputs_and_states, pair_of, states_as_outputs

MOVING = frozenset({"random", "given"})
"""Calls that count for the scales of elements. Edges do not: they exceed every input that a model is made for."""
_EARLIER_KEPT = 64  # calls that may be saved with one that is wrong after them
_MOVING_KEPT = 8  # calls that are saved with one that is wrong by the scales of elements
_EQUAL = Measure(0.0, 0.0, 0.0, 1.0, np.inf)


@dataclass
class Comparison:
    """Compares subjects with a reference, call by call.

    signatures: to call, by key. tolerance: of an output of a signature. in_rows: calls go on from what
    those before them left; else every call is a first one, and the reference does not tell states.
    around: runs the file around its custom operators. excused: explains wrong outputs (a tie of equal values).
    left_out: outputs and states that are not compared. scales: of the elements of outputs.
    first: the first call that was compared. numbers: how many of results rows of calls gave to compare.
    redraw: replacements for inputs that the reference refused.
    """

    reference: Subject
    subjects: Sequence[Subject]
    signatures: Mapping[str, Signature]
    tolerance: Callable[[str, str], Tolerance]
    in_rows: bool = True
    around: Callable[[], AroundCustom] | None = None
    excused: Excused = lambda step, wrong, before: (wrong, ())
    on_call: Callable[[int], None] = lambda count: None
    worst: dict[tuple[str, str, str], LargestDifference] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    calls: int = 0
    first: CallInputs | None = None
    numbers: int = 0
    redraw: Redraw = field(default_factory=Redraw)
    left_out: frozenset[str] = frozenset()
    scales: ElementScales = field(default_factory=lambda: ElementScales({}))

    def __post_init__(self) -> None:
        self._keeps = any(i.states for s in self._all() for i in s.signatures.values())
        self._chance = {key: frozenset(by_chance(s)) | self.left_out for key, s in self.signatures.items()}
        self._running: list[Calls] = []
        self._constant = ConstantOutputs()
        self._elements = ElementErrors(self.reference, self.subjects[0] if self.subjects else None, self.scales)
        self._moving: list[CallInputs] = []

    def _all(self) -> tuple[Subject, ...]:
        return (self.reference, *self.subjects)

    def start(self) -> None:
        """Go back to the initial states."""
        if self._running and not self._keeps:
            return
        self._running = [subject.start() for subject in self._all()]
        self._around = self.around() if self.around is not None else None
        self._before: list[CallInputs] = []
        self._earlier: deque[CallInputs] = deque(maxlen=_EARLIER_KEPT)

    def rows(self, rows: Iterable[Iterable[CallInputs]]) -> None:
        """Compare rows of calls, each from the initial states; raises Differs at the first call that is wrong.

        The scales of elements are complete after all calls: elements wrong by their scale alone are reported last.
        """
        for row in rows:
            self.start()
            for step in row:
                if not self.in_rows:
                    self.start()
                self.call(step)
                self.on_call(1)
        self.notes.update(dict.fromkeys(self._constant.notes(self.signatures)))
        for suspect in self._elements.suspects:
            self._settle(suspect)
        self._elements.suspects = []

    def call(self, step: CallInputs) -> None:
        """One more call of everything; raises Differs."""
        asked, *running = self._running
        states = (running[0] if running else asked).states
        try:
            resets = self._keeps and not self._before
            step, wanted = accepted(step, asked, self.redraw, self.signatures, resets=resets)
        except JfuseError as refused:
            is_of_inputs = isinstance(refused, VerifyFailed) or step.kind == LONGER
            if step.kind in MOVING or isinstance(refused, KernelFailed) or not is_of_inputs:
                raise
            self._pass_over(f"inputs of {step.kind}: {self.reference.name} refuses them")
            return
        if self._is_passed_over(step, wanted):
            return
        answers = self._answers(step, running, wanted)
        if answers is None:
            self._pass_over(f"inputs of {step.kind}: a kernel refuses them")
            return
        wanted = with_signs_of(next(iter(answers), {}), wanted, self.signatures[step.key])
        # All sides have run the call: one that is skipped from here on has changed states, which are reset.
        earlier = () if self._keeps else tuple(self._earlier)
        self._earlier.append(step)
        if self.in_rows:
            wanted = {**wanted, **states_as_outputs(asked.states)}
        if step.kind in OVERFLOWING and not all(map(_all_finite, answers)):
            self._pass_over(f"inputs of {step.kind}: they overflow, so they were not compared")
            return
        # Learn the scales first: the call itself may show how far an element varies.
        if step.kind in MOVING:
            self._learn(step, wanted)
        wrong = [w for i, outputs in enumerate(answers) for w in self._differing(step, i, outputs, wanted)]
        if self._around is not None:
            around, operands = self._around.run(step.key, step.inputs, states)
            wrong += self._differing(step, -1, around, operands)
        other = self._judge(step, wrong, states, earlier) if wrong else None
        if other is not None:
            self._start_again()
            self.call(other)
            return
        if step.kind in MOVING:
            self._elements.add(self._candidates(step, answers, wanted, states))
        self.calls += 1
        self.first = self.first or step
        if self._keeps:
            self._before.append(step)

    def _answers(self, step: CallInputs, running: Sequence[Calls], wanted: Arrays) -> Sequence[Arrays] | None:
        """Run the subjects and check their types; None if sizes are too large for a kernel."""
        try:
            answers = [outputs_and_states(calls, step.inputs, step.key) for calls in running]
        except JfuseError:
            if step.kind != LONGER or self.reference.name != "XLA":  # which reads beyond a table's end
                raise
            return None
        for number, outputs in enumerate(answers):
            need_same_types(step.key, self._pair(number), outputs, wanted)
        return answers

    def _is_passed_over(self, step: CallInputs, wanted: Arrays) -> bool:
        """Whether the reference's answers to an edge are not to be compared."""
        if step.kind in STEEP and not _all_finite(wanted):
            self._pass_over(f"inputs of {step.kind}: {self.reference.name} overflows, so they were not compared")
            return True
        floats = (a for a in wanted.values() if a.dtype.kind in "fV")
        return step.kind == ONE_INFINITE and any(np.isnan(a).any() for a in floats)

    def _pass_over(self, why: str) -> None:
        self.notes[why] = None
        self._start_again()

    def _start_again(self) -> None:
        """Reset the states that a skipped call has changed."""
        if self._keeps:
            self._running = []
            self.start()

    @property
    def in_a_row(self) -> bool:
        """Whether a sample is several calls: something is kept between calls."""
        return self._keeps and self.in_rows

    def samples(self, batches: Iterable[SampleBatch]) -> None:
        """Compare independent first calls, or rows of them, many at a time; raises Differs at the first wrong one.

        batches: with inputs as `Subject.batch` takes them, with `in_a_row` as this comparison has it. Each of several
        processes draws, computes and compares its share; what it finds goes to all of them, in the order of samples.
        """
        for batch in batches:
            key, share = batch.signature.key, self._share(batch)
            for moves in of_all_processes(share.moves, VerifyFailed):
                for output, moved in moves.items():
                    self.scales.take(key, output, moved)
            parts = of_all_processes(share.found, VerifyFailed)
            for number, output in dict.fromkeys(at for part in parts for at in part.findings):
                for finding in (f for part in parts for f in part.findings.get((number, output), ())):
                    self._take(key, output, self._pair(number), finding)
            count = batch.count * batch.calls
            self.calls += count
            self.on_call(count)
            self.notes.update(dict.fromkeys(note for part in parts for note in part.notes))

    def _share(self, batch: SampleBatch) -> SampleShare:
        """The share of this process."""
        key = batch.signature.key
        compared = (n for n in batch.signature.output_names if n not in self._chance[key])
        return SampleShare(
            batch,
            self.in_a_row,
            self.reference,
            self.subjects,
            {name: self.tolerance(key, name) for name in compared},
            self.redraw,
            self._elements,
            self.excused,
        )

    def _take(self, key: str, output: str, pair: str, finding: LargestDifference | OddCall) -> None:
        """Add a finding of a process; raises Differs if a call differs."""
        if isinstance(finding, LargestDifference):
            self._note_worst(key, output, pair, finding)
        elif finding.left is None:
            wrong = self._elements.wrong_elements(key, finding.wrong)  # by what was found out about others
            if wrong is not None:
                self._settle(Suspect(finding.step, wrong, {}, finding.before))
        elif finding.left:
            self.rows([[*finding.before, finding.step]])  # by itself, where all that is kept is looked at
            raise Differs(finding.step, finding.left, {}, finding.before)
        else:
            self.notes.update(dict.fromkeys(finding.notes))

    def differences(self) -> list[Difference]:
        """The worst of each output so far."""
        return [
            Difference(
                key, output, pair, w.measure.relative, w.tolerance.value, w.tolerance.reason, w.measure, w.samples
            )
            for (key, output, pair), w in self.worst.items()
        ]

    def _pair(self, place: int) -> str:
        if place < 0:
            return "xla/litert"
        return pair_of(self.reference, self.subjects[place])

    def _differing(self, step: CallInputs, place: int, found: Arrays, wanted: Arrays) -> Iterator[WrongOutput]:
        """The outputs that differ by more than their tolerance; keeps the worst of all others."""
        chance = self._chance[step.key] if place >= 0 else ()  # what is computed around operators leaves it out
        for output in (n for n in wanted if n in found and n not in chance):
            f, w = np.asarray(found[output]), np.asarray(wanted[output])
            if output.startswith(STATE) and f.size == w.size:
                w = w.reshape(f.shape)  # a file has no scalar states
            tolerance = self.tolerance(step.key, output)
            measure = measured(f, w, tolerance)
            if measure.relative <= tolerance.value:
                self._note_worst(step.key, output, self._pair(place), LargestDifference(measure, tolerance, 1))
            else:
                yield WrongOutput(self._pair(place), output, measure, tolerance, f, w, place)

    def _learn(self, step: CallInputs, wanted: Arrays) -> None:
        self.numbers += sum(np.size(array) for array in wanted.values())
        for output in (n for n in wanted if not n.startswith(STATE) and n not in self.left_out):
            self._constant.learn(step.key, output, np.asarray(wanted[output]))
        for output in (n for n in wanted if self.tolerance(step.key, n).per_element):
            self.scales.learn(step.key, output, np.asarray(wanted[output]))
        self._moving = [*self._moving, step][:_MOVING_KEPT]

    def _candidates(
        self, step: CallInputs, found: Sequence[Arrays], wanted: Arrays, states: Arrays
    ) -> Iterator[Suspect]:
        """The outputs of one call, elements of which may be wrong."""
        for place, outputs in enumerate(found):
            for output in (n for n in wanted if n in outputs and n not in self._chance[step.key]):
                f, w = np.asarray(outputs[output]), np.asarray(wanted[output])
                wrong = WrongOutput(self._pair(place), output, _EQUAL, self.tolerance(step.key, output), f, w, place)
                yield Suspect(step, wrong, states, tuple(self._before))

    def _settle(self, suspect: Suspect) -> None:
        """Raise Differs where elements are wrong, and nothing explains that."""
        try:
            wrong = self._elements.unexplained(suspect)
        finally:
            self._start_again()
        if wrong is None:
            return
        left, notes = self.excused(suspect.step, [wrong], suspect.before)
        self.notes.update(dict.fromkeys(notes))
        if left:
            key = suspect.step.key
            self._note_worst(key, wrong.output, wrong.pair, LargestDifference(wrong.measure, wrong.tolerance, 1))
            others = [s for s in self._moving if s.key == key and s is not suspect.step]
            raise Differs(suspect.step, left, suspect.states, suspect.before, others)

    def _note_worst(self, key: str, output: str, pair: str, new: LargestDifference) -> None:
        old = self.worst.get((key, output, pair))
        self.worst[key, output, pair] = new if old is None else old.and_(new)

    def _judge(
        self, step: CallInputs, wrong: Sequence[WrongOutput], states: Arrays, earlier: Sequence[CallInputs]
    ) -> CallInputs | None:
        """Raise Differs for unexplained outputs; return another call to compare if the inputs are the reason."""
        if step.kind in STEEP and self._is_steep(step, wrong):
            self.notes[f"inputs of {step.kind}: a rounding of them changes the answer as much as the difference"] = None
            return None
        left, notes = self.excused(step, wrong, self._before)
        self.notes.update(dict.fromkeys(notes))
        if left and step.kind not in MOVING and self._ties_in_loops(step, left):
            self.notes[f"inputs of {step.kind}: ties in a loop were broken differently"] = None
            return None
        if left and (other := self._without_nans(step, list(dict.fromkeys(w.output for w in left)))) is not None:
            return None if other is step else other
        if left:
            for w in left:
                self._note_worst(step.key, w.output, w.pair, LargestDifference(w.measure, w.tolerance, 1))
            raise Differs(step, left, states, self._before, earlier=earlier)
        return None

    def _without_nans(self, step: CallInputs, outputs: Sequence[str]) -> CallInputs | None:
        """A call in place of one where a choice is made among NaNs, which runtimes make differently; None for none.

        Random inputs are between 0 and 1 from then on, where that helps. Edges are passed over: the same call.
        """
        signature, kept = self.signatures[step.key], self.redraw.kept
        if step.kind == "given" or not chooses_among_nans(signature, step.inputs, outputs):
            return None
        among = f"{', '.join(outputs)} of {step.key!r}: a choice among NaNs"
        if step.kind != "random":
            self.notes[f"inputs of {step.kind}: {among}, so they were not compared"] = None
            return step
        for manners, inputs in () if kept.get(step.key) else self.redraw.unit(signature, step.inputs):
            if not chooses_among_nans(signature, inputs, outputs):
                kept[step.key] = manners
                self.notes[f"{among} at random inputs, so that {', '.join(manners)} was drawn between 0 and 1"] = None
                return replace(step, inputs=inputs)
        return None

    def _ties_in_loops(self, step: CallInputs, wrong: Sequence[WrongOutput]) -> bool:
        if self._keeps:
            return False
        graph = self.signatures[step.key].graph
        return ties_in_loops(graph, self.reference, self.subjects, step, wrong)

    def _is_steep(self, step: CallInputs, wrong: Sequence[WrongOutput]) -> bool:
        try:
            return is_steep(self.reference, self.subjects, step, wrong)
        finally:
            self._start_again()


def by_chance(signature: Signature) -> Iterator[str]:
    """The outputs and states that differ from call to call, by name."""
    return map(_result_names(signature).__getitem__, results_by_chance(signature.graph))


def of_stubs(signature: Signature) -> Iterator[str]:
    """The outputs and states that the runtime computes and the source does not, by name."""
    return map(_result_names(signature).__getitem__, results_of_stubs(signature.graph))


def _result_names(signature: Signature) -> tuple[str, ...]:
    return (*signature.output_names, *(f"{STATE}{s.name}" for s in signature.states))


def _all_finite(outputs: Arrays) -> bool:
    return all(a.dtype.kind not in "fcV" or bool(np.isfinite(a).all()) for a in outputs.values())
