"""A whole comparison: all calls of both sides, the result, and the error if they differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property, partial

import jax

from jfuse.base.errors import JfuseError
from jfuse.base.last_resort import only_jfuse_errors
from jfuse.proof.inputs import CallInputs
from jfuse.records.verification import Verification
from jfuse.running.runner import running_notes
from jfuse.running.worker import LiteRtFailed
from jfuse.verification.compare.comparison import Comparison, by_chance
from jfuse.verification.compare.wrong import Differs
from jfuse.verification.failures import Failures
from jfuse.verification.matched_sides import MatchedSides
from jfuse.verification.options import Verify
from jfuse.verification.quantized.verdict import QuantizedVerdict, Unexplained, is_quantized_beside_floats
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.runners.in_real_numbers import InRealNumbers
from jfuse.verification.runners.in_tensorflow import InTensorFlow, variables_restored
from jfuse.verification.runners.on_xla import OnXla
from jfuse.verification.runners.with_states import WithStates
from jfuse.verification.runners.without_custom_ops import has_custom
from jfuse.verification.several_sizes import may_leave_out_copies, need_same_while_growing
from jfuse.verification.sides import Sides

OnProgress = Callable[[int, int], None]
"""Called with the number of calls compared so far, and about how many there will be (0: unknown)."""


@only_jfuse_errors("verification")
def verify_sides(sides: Sides, options: Verify, on_progress: OnProgress = lambda done, total: None) -> Verification:
    """Compare the sides as the options say; raises VerifyFailed, with the result, if they differ."""
    return _Verifying(MatchedSides(sides, options), on_progress).run()


@dataclass
class _Verifying:
    matched: MatchedSides
    on_progress: OnProgress
    done: int = field(default=0, init=False)
    _first: CallInputs | None = field(default=None, init=False)

    @cached_property
    def _sides(self) -> Sides:
        return self.matched.sides

    def run(self) -> Verification:
        started = time.perf_counter()
        there = f"; LiteRT on {self._sides.device}" if self._sides.device else ""
        result = Verification(*self._sides.texts, backend=f"XLA on {jax.default_backend()}{there}")
        result.before, result.after = self._sides.reference.program, self._sides.subjects[0].program
        failures = Failures(self.matched)
        # Whatever happens, TensorFlow's variables are restored and LiteRT's processes end.
        with ExitStack() as stack:
            for subject in (self._sides.reference, *self._sides.subjects):
                source = subject.subject if isinstance(subject, WithStates) else subject
                if isinstance(source, InTensorFlow):
                    stack.enter_context(variables_restored(source.imported))
                runner = subject.file if isinstance(subject, InRealNumbers) else subject
                if isinstance(runner, InLiteRt):
                    stack.callback(runner.close)
            try:
                self._compare(result)
            except Differs as found:
                raise failures.of(found, result) from None
            except Unexplained as found:
                raise failures.of_rounding(found, result) from None
            except LiteRtFailed as failed:
                raise failures.of_sample(failed, result) from failed.__cause__
            finally:
                result.seconds["verify"] = time.perf_counter() - started
            if self.matched.options.each_equation and self._first is not None:
                result.equations = failures.equations(self._first)
        return result

    def _compare(self, result: Verification) -> None:
        plan = self.matched.plan
        total = plan.size()
        numbers = 0
        for comparison in self._comparisons():
            comparison.on_call = partial(self._progress, total)
            own_row = comparison.reference is not self.matched.reference
            try:
                comparison.rows(map(partial(self.matched.with_states, own=own_row), plan.rows()))
                if not own_row:
                    comparison.samples(plan.batches(comparison.in_a_row))
            finally:
                self._first = self._first or comparison.first
                result.differences += comparison.differences()
                result.samples += comparison.calls
                numbers += comparison.numbers
                result.notes += [n for n in comparison.notes if n not in result.notes]
        if self._is_quantized:
            self._judge(result)
        for subject in self._sides.subjects:
            if isinstance(subject, InLiteRt) and subject.delegates and may_leave_out_copies(subject.program):
                need_same_while_growing(subject)
                result.notes.append(
                    "XNNPACK may leave out a copy in a loop in the first call after a batch grew, which then answers "
                    "wrongly; no such call was found. jfuse.convert writes such copies otherwise"
                )
        if not result.samples:
            raise JfuseError("nothing was compared", found="no call", remedy="other inputs=, sizes= or keys=")
        if not numbers and not self._is_quantized and plan.options.calls:
            result.notes.append("nothing was compared: the outputs held no number in any call")
        result.notes += [n for n in self._untold() if n not in result.notes]

    @cached_property
    def _is_quantized(self) -> bool:
        """Whether rounding is to explain the difference of the sides."""
        return self.matched.options.tolerance is None and is_quantized_beside_floats(self.matched)

    def _judge(self, result: Verification) -> None:
        """Whether the steps of a quantized file explain how it differs from floats."""
        verdict = QuantizedVerdict(self.matched)
        try:
            verdict.run()
        finally:
            result.differences += verdict.differences.values()
            result.samples += verdict.calls
            result.notes += verdict.notes()

    def _progress(self, total: int, count: int) -> None:
        self.done += count
        self.on_progress(self.done, total)

    def _comparisons(self) -> Iterator[Comparison]:
        """Comparisons with the reference; if it keeps other states, also rows of calls among the subjects."""
        matched = self.matched
        if self._is_quantized:
            if len(matched.subjects) > 1 or matched.around is not None:
                first, *others = matched.subjects
                yield matched.comparison(first, others, True, tolerance=matched.rounded_alike)
            yield from matched.apart()
            return
        yield matched.comparison(matched.reference, matched.subjects, matched.in_rows)
        if (not matched.in_rows or matched.stubbed) and (len(matched.subjects) > 1 or matched.around is not None):
            yield matched.comparison(matched.subjects[0], matched.subjects[1:], True)
        yield from matched.apart()

    def _untold(self) -> Iterator[str]:
        """Yield notes: parts that were not compared, and outputs matched by position alone."""
        yield from (note for m in self.matched.matches.values() for note in m.notes)
        yield from self.matched.kept_by_one
        for subject in (self._sides.reference, *self._sides.subjects):
            if isinstance(subject, OnXla):
                yield from running_notes(subject.program, subject.model.integers)
            if isinstance(subject, InLiteRt) and not subject.delegates:
                yield "LiteRT ran without XNNPACK, as the callback does: it rounds quantized integers otherwise"
        if self.matched.options.keys is None:
            left = [repr(key) for key in self._sides.subjects[0].signatures if key not in self.matched.matches]
            yield from [f"not compared, as only one side has them: signatures {', '.join(left)}"] if left else []
        if self.matched.unnamed_states:
            unnamed = ", ".join(self.matched.unnamed_states)
            yield f"the states {unnamed} were not compared: they have no names, and files number them anew"
        chance = sorted({n for s in self.matched.signatures.values() for n in by_chance(s)})
        if chance:
            yield f"{', '.join(chance)} depend on random numbers, which were not compared with the source's"
        if self.matched.stubbed:
            stubbed = ", ".join(self.matched.stubbed)
            yield f"{stubbed} and the values before them were not compared with the source, which has a stub there"
        model = self._sides.model
        if model is None or not has_custom(model.program):
            return
        yield "the custom operators did not run: TensorFlow computed them where the graph was compared with the source"
        if self.matched.around is None:
            yield "LiteRT did not run the file: custom operators stand in a loop or branch"
        else:
            yield "LiteRT ran the file without its custom operators, and was given their results"
