"""The error for a difference: a small input that shows it, where it is kept, and the equation where it begins."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS
from jfuse.ir.states import first_states
from jfuse.proof.inputs import CallInputs
from jfuse.records.verification import EquationError, Verification
from jfuse.running.failing_operator import failing_operator
from jfuse.running.partition import with_delegates
from jfuse.running.worker import LiteRtFailed
from jfuse.verification.compare.wrong import Differs, WrongOutput
from jfuse.verification.inputs.user_inputs import save_calls
from jfuse.verification.locate.bisect import FailedCall, equation_errors, first_difference
from jfuse.verification.locate.shrink import Row, shrunk
from jfuse.verification.matched_sides import MatchedSides
from jfuse.verification.quantized.verdict import QuantizedVerdict, Unexplained

_RUNS = 100  # to spend on a smaller input that fails as well, where the options do not say how many


@dataclass(frozen=True)
class Failures:
    """Makes the errors of a comparison."""

    matched: MatchedSides

    def of(self, found: Differs, result: Verification) -> VerifyFailed:
        """The error for a difference: with a smaller input that shows it, where it is kept, and where it begins."""
        options = self.matched.options
        runs = _RUNS if options.shrink is None else options.shrink
        row: Row = (*found.before, found.step)
        if found.earlier and not self._fails(found.wrong[0], row):
            row = (*found.earlier, found.step)
        if found.wrong[0].scale is None:
            small = shrunk(row, partial(self._fails, found.wrong[0]), self.matched.signatures, runs)
        else:  # it shows beside calls that tell what elements move by
            small = row if found.before else (*found.others, found.step)
        wrong = found
        if small is not row and found.wrong[0].scale is None:
            small = self._as_compared(found.wrong[0], small)
            wrong = self._again(found.wrong[0], small) or found
        worst = max(wrong.wrong, key=lambda w: _excess(w, found.wrong[0]))
        result.inputs = tuple((step.key, step.inputs) for step in small)
        result.failing = self._saved(f"failing-{worst.output.replace('/', '_')}.npz", small)
        result.command = self._command(result.failing)
        result.first = self._first_difference(wrong, worst)
        if result.first is not None and result.first.delegate:
            result.notes.append(f"LiteRT errs with {result.first.delegate} alone: its own kernels agree with XLA")
        if options.each_equation:
            result.equations = self.equations(small[0])
        by_one = () if _is_own(worst) or not wrong.before else self.matched.kept_by_one
        failure = _failed(wrong.step.key, worst, result, "".join(f"; {line}" for line in by_one))
        failure.verification = result
        return failure

    def of_rounding(self, found: Unexplained, result: Verification) -> VerifyFailed:
        """The error for a difference that the steps of a quantized file do not explain, with the worst sample."""
        what, unit, m = found.found, found.found.unit, found.found.measure
        name = f"failing-{found.output.replace('/', '_')}.npz"
        row = found.row
        result.failing = self._saved(name, row)
        if result.failing is not None and not self._shows(result.failing, found):
            row = found.samples  # statistics of a single sample hide what all of them show
            result.failing = self._saved(name, row)
        result.inputs = tuple((step.key, step.inputs) for step in row)
        result.command = self._command(result.failing)
        again = f"; {result.command}   shows it again" if result.command else ""
        failure = VerifyFailed(
            f"output {found.output!r} of signature {found.key!r} differs ({found.pair})",
            expected=f"a root mean square of at most {what.limit / unit:.3g} ({found.reason})",
            found=f"{what.error / unit:.3g} (max|a-b| {m.absolute:.3g}, SNR {m.snr:.1f} dB; {result.backend})",
            remedy=_OF_PARTS.get(found.pair.partition("/")[2], _OF_KERNELS) + again,
        )
        failure.verification = result
        return failure

    def _shows(self, saved: Path, like: Unexplained) -> bool:
        """Whether the saved calls still show the unexplained difference of a quantized file."""
        options = self.matched.options
        with_saved = replace(options, inputs=saved)
        try:
            QuantizedVerdict(MatchedSides(self.matched.sides, with_saved)).run()
        except Unexplained as found:
            return found.output == like.output
        return False

    def of_sample(self, failed: LiteRtFailed, result: Verification) -> LiteRtFailed:
        """The error for a call that LiteRT does not finish: its operator, its inputs and the results so far."""
        failed.verification = result
        failed.where = failed.where or self._operator(failed)
        result.unfinished = True
        result.notes.append(f"not all was compared: {failed.message}")
        result.inputs = failed.calls
        if failed.calls:
            calls = [CallInputs(key, inputs) for key, inputs in failed.calls]
            result.failing = self._saved("failing-sample.npz", calls)
        if result.failing is not None:
            failed.remedy = f"{failed.remedy}; its inputs are in {result.failing}"
        return failed

    def _operator(self, failed: LiteRtFailed) -> str | None:
        """The operator at which a call failed, where it fails in a shorter file as well."""
        model = self.matched.sides.model
        if model is None or not failed.calls:
            return None
        key, inputs = failed.calls[-1]
        signature = next(s for s in model.program.signatures if s.key == key)
        states = [s.initial.array for s in signature.states]
        arrays = [*(np.asarray(inputs[name]) for name in signature.input_names), *states]
        delegates = with_delegates(model.program)
        eqn = failing_operator(signature.graph, arrays, failed, model.limits or DEFAULT_LIMITS, delegates=delegates)
        return None if eqn is None else f"{eqn.op.name} {eqn.source}".strip()

    def equations(self, step: CallInputs) -> list[EquationError]:
        """The error of every equation in one call, the first of a row."""
        sides = self.matched.sides
        if sides.model is None:
            return []
        states = first_states(sides.model.program)
        call = FailedCall(step.key, step.inputs, states)
        return equation_errors(sides.model, self.matched.looked_into(step.key) or sides.model, call, sides.data)

    def _saved(self, name: str, row: Sequence[CallInputs]) -> Path | None:
        """Where the calls are kept; None where the user named no folder."""
        folder = self.matched.options.save_failing
        if folder is None:
            return None
        path, inputs = Path(folder) / name, self.matched.options.inputs
        if isinstance(inputs, str | Path) and path.exists() and path.samefile(inputs):
            path = path.with_stem(f"{path.stem}-again")  # what was read stays as it is
        save_calls(path, row)
        return path

    def _fails(self, like: WrongOutput, row: Row) -> bool:
        return self._again(like, row) is not None

    def _again(self, like: WrongOutput, row: Row) -> Differs | None:
        """Run a row of calls from the initial states; return the same difference if it appears again."""
        matched = self.matched
        reference = matched.subjects[0] if _is_own(like) else matched.reference
        subjects = matched.subjects if like.place >= 0 else ()
        in_rows = matched.in_rows or reference is not matched.reference
        comparison = matched.comparison(reference, subjects, in_rows, scales=matched.scales.as_known())
        kinds = (
            replace(step, kind="given") if step.kind == "random" else step for step in self._as_compared(like, row)
        )
        try:
            comparison.rows([kinds])
        except Differs as found:
            return found if any(w.pair == like.pair and w.output == like.output for w in found.wrong) else None
        except JfuseError:  # it does not run
            return None
        return None

    def _as_compared(self, like: WrongOutput, row: Row) -> Row:
        """The row as it is compared: for the reference, states that it does not take have their initial values."""
        return row if _is_own(like) else tuple(self.matched.with_states(row))

    def _first_difference(self, found: Differs, worst: WrongOutput) -> EquationError | None:
        sides = self.matched.sides
        if sides.model is None or worst.place < 0:  # around custom operators the name of what differs says where
            return None
        before = tuple((step.key, step.inputs) for step in found.before)
        call = FailedCall(found.step.key, found.step.inputs, found.states, before)
        source = self.matched.looked_into(call.key) or sides.model
        try:
            return first_difference(sides.model, source, call, worst.pair, sides.data)
        except JfuseError:  # a part cannot be run by itself
            return None

    def _command(self, failing: Path | None) -> str:
        if failing is None:
            return ""
        sides = self.matched.sides
        ours, theirs = sides.texts
        if sides.paths:
            against = ["--against", theirs] if theirs else []
            return shlex.join(["jfuse", "verify", ours, *against, "--inputs", str(failing)])
        return f"jfuse.verify({', '.join(text for text in (ours, theirs) if text)}, inputs={str(failing)!r})"


_OF_PARTS = {
    "weights": "to look for other weights, biases or operators than the model's: rounding leaves less",
    "ranges": "calibration with inputs like those that are compared, or inputs= like those of the calibration",
}
"""Remedies for a quantized file whose weights or ranges alone differ too much."""
_OF_KERNELS = "jfuse.quantize_report, which shows the operators whose results are not those of their operands and types"


def _is_own(wrong: WrongOutput) -> bool:
    """Whether subjects differ among themselves."""
    return wrong.pair.startswith("xla/")


def _excess(wrong: WrongOutput, first: WrongOutput) -> tuple[bool, float]:
    """Sort key: the first comparison that fails, and in it the output with the largest error."""
    return wrong.pair == first.pair, wrong.measure.relative


def _failed(key: str, wrong: WrongOutput, result: Verification, states: str) -> VerifyFailed:
    """The error of one output.   states: text on states that only one side keeps, if a row of calls shows it"""
    first, m = result.first, wrong.measure
    units = f"max|a-b| {m.absolute:.3g}, {m.ulp:.3g} ulp, cosine {m.cosine:.6f}, signal to noise {m.snr:.1f} dB"
    shown = f"{result.command}   shows it again" if result.command else None
    against = "max|a-b| / max|b|"
    if wrong.scale is not None:
        with np.errstate(invalid="ignore"):
            index = np.unravel_index(np.argmax(np.abs(wrong.found - wrong.wanted) / wrong.scale), wrong.wanted.shape)
        at = ", ".join(map(str, index))
        units = f"at [{at}]: {wrong.found[index]:.6g}, not {wrong.wanted[index]:.6g}; {units}"
        against = "|a-b| / scale of each element"
    return VerifyFailed(
        f"output {wrong.output!r} of signature {key!r} differs ({wrong.pair})",
        where=first.place if first else None,
        expected=f"{against} of at most {wrong.tolerance.value:g} ({wrong.tolerance.reason})",
        found=f"{m.relative:.3g} ({units}; {result.backend}){states}",
        remedy=shown or "report this model; verify=False writes the file all the same",
        context=first.detail if first else None,
    )
