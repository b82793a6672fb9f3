"""The verdict on a quantized file: how much of the difference its weights' and activations' steps explain."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from jfuse.ir.graph import Program
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import depends_on_data
from jfuse.quantization.real_numbers.activations import Activations
from jfuse.records.conversion import Difference
from jfuse.verification.compare.matching import need_same_types
from jfuse.verification.compare.tolerance import is_rounded_file, tolerance_of
from jfuse.verification.matched_sides import MatchedSides
from jfuse.verification.quantized.explained import ExplainedError, differences, explained
from jfuse.verification.quantized.real_runs import RealRuns
from jfuse.verification.quantized.samples import Samples, samples_of
from jfuse.verification.runners.processes import shared_out
from jfuse.verification.subject import Arrays, Subject, pair_of

_DRAWS = 8  # of all weights, moved by up to half a step
_WEIGHTS = 4.0
"""Deviations: of right files 1 in 16,000 has an output that is beyond, where it is one number."""
_ROUNDING = 3.0
"""Times the change by rounding. The file's own rounding is simulated: if exactly, nothing is left; a kernel
that quantizes as it runs, with steps of its own, differs by about 1.4 times it."""
_CUT_OFF = 0.5
"""The share of an output that may be lost as values lie beyond their types' ends: half of it is 6 dB."""
_TOLD = 0.01  # what is lost so is told from here on
_RANGES, _SOURCE = "weights/ranges", "source"
_SUM = "the error of all steps, of weights and of activations, and of values beyond the ends of types"


class Unexplained(Exception):
    """A difference that rounding does not explain: of an output, its worst sample, and the calls of all samples."""

    def __init__(self, key: str, output: str, pair: str, reason: str, found: ExplainedError, samples: Samples) -> None:
        super().__init__(key)
        self.key, self.output, self.pair, self.reason = key, output, pair, reason
        self.found, self.row = found, samples.row(found.worst)
        self.samples = tuple(call for i in range(samples.count) for call in samples.row(i))


def is_quantized_beside_floats(matched: MatchedSides) -> bool:
    """Whether the subjects' numbers are rounded to those that a file keeps, and the reference's are not.

    Not where samples have no common form: sizes that depend on data, states among the inputs, no inputs.
    """
    sides = matched.sides
    ours, theirs = sides.subjects[0].program, sides.reference.program
    if ours is None or sides.model is None or not is_rounded_file(ours.graphs()):
        return False
    if theirs is not None and is_rounded_file(theirs.graphs()):
        return False
    shown = any(i.exposed for s in (sides.reference, *sides.subjects) for i in s.signatures.values())
    sized = any(depends_on_data(e) for graph in ours.graphs() for e in all_eqns(graph))
    return not shown and not sized and all(s.input_names for s in matched.signatures.values())


@dataclass
class QuantizedVerdict:
    """Judges the outputs of a quantized file.   differences, calls: of the comparison so far"""

    matched: MatchedSides
    differences: dict[tuple[str, str, str], Difference] = field(default_factory=dict)
    calls: int = 0
    _runs: dict[str, RealRuns] = field(default_factory=dict)

    def run(self) -> None:
        """Judge all samples; raises Unexplained."""
        for samples in samples_of(self.matched.plan, self._in_a_row):
            _Judging(self, samples).run()

    def runs_of(self, samples: Samples) -> RealRuns:
        """The runs of a signature in floats; batches of samples share its programs."""
        key = samples.signature.key
        if key not in self._runs:
            self._runs[key] = RealRuns(samples.signature, samples.inputs, len(Activations) + _DRAWS)
        return self._runs[key]

    def notes(self) -> Iterator[str]:
        """Yield notes about outputs that change because values are clipped."""
        for d in self.differences.values():
            if d.pair == _RANGES and d.error > _TOLD:
                yield f"{d.output}: clipping at the ends of types changes it by {d.error:.1%}"

    @property
    def _in_a_row(self) -> bool:
        """Whether a side keeps something from call to call."""
        return self.matched.in_rows and self.matched.plan.keeps


def _moved(number: int) -> str:
    """The name of the answers of a file whose weights are moved."""
    return f"moved {number}"


@dataclass
class _Judging:
    """One lot of samples.   inputs: [samples, calls, ...] by name"""

    verdict: QuantizedVerdict
    samples: Samples

    def run(self) -> None:
        matched, real = self.verdict.matched, self._runs.real
        answers = shared_out(self._answers, self.samples.inputs)
        for output in (n for n in self.samples.signature.output_names if (_SOURCE, n) in answers):
            # The difference is split along: source, weights in floats, clipped, rounded, file. Each link has its bound.
            in_floats, in_ranges, in_steps = (answers[a.name, output] for a in Activations)
            expected = answers[_SOURCE, output].reshape(in_floats.shape)
            own = tolerance_of(Program((real,)), real.key, output).value
            of_source = matched.rounding_of_source(self.samples.signature.key, output)
            tolerance = own if of_source is None else max(own, of_source.value)
            by_weights = np.stack([differences(answers[_moved(i), output], in_floats) for i in range(_DRAWS)])
            by_steps = differences(in_steps, in_ranges)
            of_weights = explained(in_floats, expected, by_weights, _WEIGHTS, tolerance)
            name = matched.reference.name.lower()
            self._judge(
                output, f"{name}/weights", of_weights, f"{_WEIGHTS:g} times the error of half a step of weights"
            )
            self._ranges(output, in_ranges, in_floats)
            by_both = float(np.sqrt(np.mean(np.square(differences(in_steps, in_floats)))))
            for runner in (s.name.lower() for s in matched.subjects):
                of_file = answers[runner, output].reshape(expected.shape)
                rest = explained(of_file, in_steps, by_steps, _ROUNDING, tolerance)
                self._judge(
                    output, f"rounded/{runner}", rest, f"{_ROUNDING:g} times the error of the steps of activations"
                )
                whole = explained(of_file, expected, np.zeros(0), 0.0, 0.0)
                limit = of_weights.limit + by_both + rest.limit
                self._keep(output, f"{name}/{runner}", replace(whole, limit=limit), _SUM)
        self.verdict.calls += int(np.prod(next(iter(self.samples.inputs.values())).shape[:2]))

    @cached_property
    def _runs(self) -> RealRuns:
        return self.verdict.runs_of(self.samples)

    def _answers(self, inputs: Arrays) -> dict[tuple[str, str], np.ndarray]:
        """The outputs of all that is compared, [samples, calls, ...], by who computes them and their names."""
        matched, runs = self.verdict.matched, self._runs
        answers: dict[str, Arrays] = {a.name: runs.run(inputs, a) for a in Activations}
        answers |= {_moved(i): runs.run(inputs, Activations.EXACT, i) for i in range(_DRAWS)}
        answers[_SOURCE] = self._of(matched.reference, inputs)
        for subject in matched.subjects:
            answers[subject.name.lower()] = outputs = self._of(subject, inputs)
            need_same_types(self.samples.signature.key, pair_of(matched.reference, subject), outputs, answers[_SOURCE])
        return {(name, output): array for name, outputs in answers.items() for output, array in outputs.items()}

    def _of(self, subject: Subject, inputs: Arrays) -> Arrays:
        """The outputs of a subject."""
        key = self.samples.signature.key
        if next(iter(inputs.values())).shape[1] > 1:
            return subject.batch(inputs, key, in_a_row=True)
        return {n: a[:, None] for n, a in subject.batch({n: a[:, 0] for n, a in inputs.items()}, key).items()}

    def _ranges(self, output: str, cut_off: np.ndarray, in_floats: np.ndarray) -> None:
        """Judge the loss by clipping at the ends of the types."""
        loss = explained(cut_off, in_floats, np.zeros(0), 0.0, 0.0)
        limit = _CUT_OFF * loss.unit
        self._judge(output, _RANGES, replace(loss, limit=limit), f"{_CUT_OFF:.0%} of the output")

    def _judge(self, output: str, pair: str, found: ExplainedError, reason: str) -> None:
        """Keep a difference; raise Unexplained where it is beyond its limit."""
        self._keep(output, pair, found, reason)
        if not found.error <= found.limit:
            raise Unexplained(self.samples.signature.key, output, pair, reason, found, self.samples)

    def _keep(self, output: str, pair: str, found: ExplainedError, reason: str) -> None:
        entry = (self.samples.signature.key, output, pair)
        error, limit, old = found.error / found.unit, found.limit / found.unit, self.verdict.differences.get(entry)
        count = self.samples.count + (old.samples if old else 0)
        new = Difference(*entry, error, limit, f"{reason}, root mean square", found.measure, count)
        is_worse = old is None or error - limit > old.error - old.tolerance
        self.verdict.differences[entry] = new if is_worse or old is None else replace(old, samples=count)
