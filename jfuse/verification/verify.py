"""A whole comparison: who is compared with whom, on what, and what is made of a difference."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path

import jax
import numpy as np

from jfuse.errors import JfuseError, VerifyFailed
from jfuse.frontends.sources import Imported
from jfuse.ir.graph import Graph, Signature, Var
from jfuse.ir.states import first_states, initial_values
from jfuse.last_resort import only_jfuse_errors
from jfuse.proof.inputs import CallInputs
from jfuse.running.runner import running_notes
from jfuse.verification.compare.compare import Comparison, Differs, Wrong, by_chance
from jfuse.verification.compare.matching import Match, Renamed, match
from jfuse.verification.compare.read_back import reads_back
from jfuse.verification.compare.scales import ElementScales
from jfuse.verification.compare.ties import Ties
from jfuse.verification.compare.tolerance import EXACT, Tolerance, tolerance_of
from jfuse.verification.inputs.redraw import Redraw
from jfuse.verification.inputs.user_inputs import save_calls
from jfuse.verification.locate.bisect import Call, equation_errors, first_difference
from jfuse.verification.locate.shrink import Row, shrunk
from jfuse.verification.plan import Options, Plan
from jfuse.verification.result import EquationError, Verification
from jfuse.verification.runners.in_tensorflow import variables_restored
from jfuse.verification.runners.litert_workers import SampleFailed
from jfuse.verification.runners.subjects import InLiteRt, InTensorFlow, OnXla, Runnable
from jfuse.verification.runners.without_custom_ops import AroundCustom, can_be_cut, has_custom
from jfuse.verification.subject import STATE, Interface, Subject

_DEFAULT_NAME = re.compile(r"(.*/)?Variable(_\d+)?")  # TensorFlow's
OnProgress = Callable[[int, int], None]
"""Called with the number of calls compared so far, and about how many there will be (0: unknown)."""


@dataclass(frozen=True)
class Sides:
    """What is compared with what: the subjects, which are runners of one model, and the reference.

    model: the model that the subjects run, where they do; data: its file, where it has one. source: the model behind
    the reference, where there is one. texts: what they are called, `paths` whether these are paths.
    """

    subjects: tuple[Subject, ...]
    reference: Subject
    texts: tuple[str, str] = ("the model", "its source")
    paths: bool = False
    model: Runnable | None = None
    data: bytes | None = None
    source: Runnable | None = None

    @classmethod
    def of_model(cls, lite: Runnable, reference: Runnable) -> Sides:
        """A lowered model, on XLA and in LiteRT, beside the source of the reference, else its graph on XLA."""
        data = lite.to_bytes()
        reads_back(lite.program, data)
        subjects: tuple[Subject, ...] = (OnXla(lite), InLiteRt(data, lite.program))
        wanted: Subject = OnXla(reference) if reference.imported is None else InTensorFlow(reference.imported)
        return cls(subjects, wanted, model=lite, data=data, source=reference)


@only_jfuse_errors("verification")
def verify_sides(sides: Sides, options: Options, on_progress: OnProgress = lambda done, total: None) -> Verification:
    """Compare the sides as the options say; raises VerifyFailed, which carries what was found, where they differ."""
    limited = partial(_limited, limit_s=options.litert_limit_s)
    sides = replace(sides, subjects=tuple(map(limited, sides.subjects)), reference=limited(sides.reference))
    return _Verifying(sides, options, on_progress).run()


def _limited(subject: Subject, limit_s: float | None) -> Subject:
    return replace(subject, limit_s=limit_s) if isinstance(subject, InLiteRt) else subject


@dataclass
class _Verifying:
    sides: Sides
    options: Options
    on_progress: OnProgress
    done: int = field(default=0, init=False)
    _first: CallInputs | None = field(default=None, init=False)

    def run(self) -> Verification:
        started = time.perf_counter()
        result = Verification(*self.sides.texts, backend=f"XLA on {jax.default_backend()}")
        result.before, result.after = self.sides.reference.program, self.sides.subjects[0].program
        with ExitStack() as stack:
            for subject in (self.sides.reference, *self.sides.subjects):
                if isinstance(subject, InTensorFlow):
                    stack.enter_context(variables_restored(subject.imported))
                if isinstance(subject, InLiteRt):
                    stack.callback(subject.close)
            try:
                self._compare(result)
            except Differs as found:
                raise self._failure(found, result) from None
            except SampleFailed as failed:
                raise self._kept(failed, result) from failed.__cause__
            finally:
                result.seconds["verify"] = time.perf_counter() - started
            if self.options.equations and self._first is not None:
                result.equations = self._equations(self._first)
        return result

    def _compare(self, result: Verification) -> None:
        plan = self._plan
        total = plan.size()
        for comparison in self._comparisons():
            comparison.on_call = partial(self._progress, total)
            own_row = comparison.reference is not self._reference
            try:
                comparison.rows(map(partial(self._with_states, own=own_row), plan.rows()))
                if not own_row:
                    comparison.samples(plan.batches(comparison.in_a_row))
            finally:
                self._first = self._first or comparison.first
                result.differences += comparison.differences()
                result.samples += comparison.calls
                result.notes += [n for n in comparison.notes if n not in result.notes]
        result.notes += [n for n in self._untold() if n not in result.notes]

    def _progress(self, total: int, count: int) -> None:
        self.done += count
        self.on_progress(self.done, total)

    def _comparisons(self) -> Iterator[Comparison]:
        """With the reference; where it does not keep what the subjects keep, rows of calls of the subjects as well."""
        first = self._comparison(self._reference, self._subjects, self._same_states)
        yield first
        if not self._same_states and (len(self._subjects) > 1 or self._around is not None):
            yield self._comparison(self._subjects[0], self._subjects[1:], True)

    def _comparison(self, reference: Subject, subjects: Sequence[Subject], same_states: bool) -> Comparison:
        ties = None if self.sides.model is None else Ties(self.sides.model.program, self._imported)
        comparison = Comparison(
            reference,
            subjects,
            self._signatures,
            self._tolerance,
            same_states,
            around=self._around,
            redraw=self._redraw,
            left_out=frozenset(f"{STATE}{name}" for name in self._unnamed),
            scales=self._scales,
        )
        if ties is not None:
            comparison.excused = ties.excused
        return comparison

    @cached_property
    def _redraw(self) -> Redraw:
        """One for all comparisons; inputs of which something is promised stay as they are drawn."""
        promised = {v for p in self._plan.promises for v in p.inputs}
        inputs = {key: zip(s.input_names, s.graph.inputs, strict=False) for key, s in self._signatures.items()}
        return Redraw({key: frozenset(name for name, var in of if var in promised) for key, of in inputs.items()})

    @cached_property
    def _unnamed(self) -> tuple[str, ...]:
        """The states that nobody named, of a file by another program: its numbers are not TensorFlow's."""
        program = self.sides.subjects[0].program
        if program is None or program.facts.description is None:
            return ()
        found = sorted({s.name for s in program.states() if _DEFAULT_NAME.fullmatch(s.name)})
        return tuple(found) if len(found) > 1 else ()

    @cached_property
    def _scales(self) -> ElementScales:
        return ElementScales(self._signatures)

    @property
    def _imported(self) -> Imported | None:
        return self.sides.reference.imported if isinstance(self.sides.reference, InTensorFlow) else None

    @cached_property
    def _subjects(self) -> tuple[Subject, ...]:
        """Those that run here: LiteRT has no kernels for custom operators."""
        model = self.sides.model
        custom = model is not None and has_custom(model.program)
        return tuple(s for s in self.sides.subjects if not (custom and isinstance(s, InLiteRt)))

    @cached_property
    def _around(self) -> Callable[[], AroundCustom] | None:
        model = self.sides.model
        cut = model is not None and self.sides.data is not None and has_custom(model.program)
        return partial(AroundCustom, model.program) if cut and model and can_be_cut(model.program) else None

    @cached_property
    def _matches(self) -> dict[str, Match]:
        return match(self.sides.subjects[0], self.sides.reference, self.options.signatures)

    @cached_property
    def _reference(self) -> Subject:
        return Renamed(self.sides.reference, self._matches)

    @cached_property
    def _signatures(self) -> dict[str, Signature]:
        """What is called, by the subjects' keys: their graphs, else the reference's under the subjects' names."""
        ours, theirs = (
            {} if s.program is None else {x.key: x for x in s.program.signatures}
            for s in (self.sides.subjects[0], self.sides.reference)
        )
        return {
            key: ours.get(key) or _renamed(theirs.get(m.key), key, m, self.sides.subjects[0].signatures[key])
            for key, m in self._matches.items()
        }

    @cached_property
    def _same_states(self) -> bool:
        """Whether both keep, and take, the same: then one row of calls says everything."""
        ours, theirs = self.sides.subjects[0], self.sides.reference
        kept, known = ({s for i in of.signatures.values() for s in i.states} for of in (ours, theirs))
        shown = any(i.exposed for of in (ours, theirs) for i in of.signatures.values())
        return kept == known and not shown

    @cached_property
    def _plan(self) -> Plan:
        distinct = {id(s.graph): s for s in reversed(self._signatures.values())}
        chosen = self.options.signatures or [s.key for s in reversed(distinct.values())]
        promises = self.sides.model.report.promises if self.sides.model is not None else ()
        options = self.options
        if isinstance(options.inputs, Iterator) and not self._same_states:
            options = replace(options, inputs=list(options.inputs))  # they are gone through twice
        return Plan(
            [self._signatures[key] for key in chosen],
            self.sides.subjects[0].signatures,
            {key: m.sizes for key, m in self._matches.items()},
            promises,
            options,
            keeps=any(i.states for s in self.sides.subjects for i in s.signatures.values()),
        )

    def _with_states(self, row: Iterable[CallInputs], own: bool = False) -> Iterator[CallInputs]:
        """The row, with the initial values of states that are inputs where the reference does not take them.

        own: of subjects among themselves, which take what the row has for them.
        """
        for step in row:
            taken = step.inputs if own else self._matches[step.key].inputs
            exposed = [s for s in self._signatures[step.key].exposed if s.name not in taken]
            if not exposed:
                yield step
                continue
            types = self.sides.subjects[0].signatures[step.key].inputs
            given = {n: a for n, a in step.inputs.items() if n not in {s.name for s in exposed}}
            yield replace(step, inputs={**given, **initial_values(exposed, types, given)})

    def _tolerance(self, key: str, output: str) -> Tolerance:
        stated = self.options.tolerance
        exact = self._own_tolerance(key, output)
        if stated is None or exact is EXACT or (isinstance(stated, Mapping) and output not in stated):
            return exact
        value = float(stated[output] if isinstance(stated, Mapping) else stated)
        return Tolerance(value, "as asked for", per_element=exact.per_element)

    def _own_tolerance(self, key: str, output: str) -> Tolerance:
        if (key, output) not in self._tolerances:
            self._tolerances[key, output] = self._derived_tolerance(key, output)
        return self._tolerances[key, output]

    @cached_property
    def _tolerances(self) -> dict[tuple[str, str], Tolerance]:
        return {}

    def _derived_tolerance(self, key: str, output: str) -> Tolerance:
        for subject, at in ((self.sides.subjects[0], key), (self.sides.reference, self._matches[key].key)):
            if subject.program is not None:
                own = output if subject is self.sides.subjects[0] else self._matches[key].outputs.get(output, output)
                rounds = self.sides.source is not self.sides.model
                return tolerance_of(subject.program, at, own, rounds=rounds)
        return Tolerance(1e-5, "f32 sums in another order")

    def _untold(self) -> Iterator[str]:
        """What was not compared, and what was matched by its place alone."""
        yield from (note for m in self._matches.values() for note in m.notes)
        for subject in (self.sides.reference, *self.sides.subjects):
            if isinstance(subject, OnXla):
                yield from running_notes(subject.program)
            if isinstance(subject, InLiteRt) and not subject.delegates:
                yield "LiteRT ran without XNNPACK, as the callback does: it rounds quantized integers otherwise"
        if self.options.signatures is None:
            left = [repr(key) for key in self.sides.subjects[0].signatures if key not in self._matches]
            yield from [f"not compared, as only one side has them: signatures {', '.join(left)}"] if left else []
        if self._unnamed:
            unnamed = ", ".join(self._unnamed)
            yield f"the states {unnamed} were not compared: nobody named them, and files number them anew"
        chance = sorted({n for s in self._signatures.values() for n in by_chance(s)})
        if chance:
            yield f"{', '.join(chance)} depend on random numbers, which were not compared with the source's"
        model = self.sides.model
        if model is None or not has_custom(model.program):
            return
        yield "the custom operators did not run: TensorFlow computed them where the graph was compared with the source"
        if self._around is None:
            yield "LiteRT did not run the file: custom operators stand in a loop or branch"
        else:
            yield "LiteRT ran the file without its custom operators, and was given their results"

    def _failure(self, found: Differs, result: Verification) -> VerifyFailed:
        """The error for a difference: with a smaller input that shows it, where it is kept, and where it begins."""
        row: Row = (*found.before, found.step)
        if found.wrong[0].scale is None:
            small = shrunk(row, partial(self._fails, found.wrong[0]), self._signatures, self.options.shrink)
        else:  # it shows beside calls that tell what elements move by
            small = row if found.before else (*found.others, found.step)
        wrong = found
        if small is not row and found.wrong[0].scale is None:
            small = self._as_compared(found.wrong[0], small)
            wrong = self._again(found.wrong[0], small) or found
        worst = max(wrong.wrong, key=lambda w: _excess(w, found.wrong[0]))
        result.inputs = tuple((step.key, step.inputs) for step in small)
        if self.options.save_failing is not None:
            result.failing = self.options.save_failing / f"failing-{worst.output.replace('/', '_')}.npz"
            save_calls(result.failing, small)
        result.command = self._command(result.failing)
        result.first = self._first_difference(wrong, worst)
        if result.first is not None and result.first.delegate:
            result.notes.append(f"LiteRT errs with {result.first.delegate} alone: its own kernels agree with XLA")
        if self.options.equations:
            result.equations = self._equations(small[0])
        failure = _failed(wrong.step.key, worst, result)
        failure.verification = result
        return failure

    def _kept(self, failed: SampleFailed, result: Verification) -> SampleFailed:
        """The error for a sample that LiteRT does not bring to an end: with what was found before, and its inputs."""
        failed.verification = result
        result.unfinished = True
        result.notes.append(f"not all was compared: {failed.message}")
        result.inputs = failed.calls
        if self.options.save_failing is not None and failed.calls:
            result.failing = self.options.save_failing / "failing-sample.npz"
            save_calls(result.failing, [CallInputs(key, inputs) for key, inputs in failed.calls])
            failed.remedy = f"{failed.remedy}; its inputs are in {result.failing}"
        return failed

    def _fails(self, like: Wrong, row: Row) -> bool:
        return self._again(like, row) is not None

    def _again(self, like: Wrong, row: Row) -> Differs | None:
        """What the row shows of the same difference, from the initial states; None where it does not."""
        reference = self._subjects[0] if _is_own(like) else self._reference
        subjects = self._subjects if like.place >= 0 else ()
        comparison = self._comparison(reference, subjects, self._same_states or reference is not self._reference)
        comparison.scales = self._scales.as_known()
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

    def _as_compared(self, like: Wrong, row: Row) -> Row:
        """The row as it is compared: with the reference, states that it does not take are what they start as."""
        return row if _is_own(like) else tuple(self._with_states(row))

    def _first_difference(self, found: Differs, worst: Wrong) -> EquationError | None:
        model = self.sides.model
        if model is None or worst.place < 0:  # around custom operators the name of what differs says where
            return None
        before = tuple((step.key, step.inputs) for step in found.before)
        call = Call(found.step.key, found.step.inputs, found.states, before)
        try:
            return first_difference(model, self._looked_into(call.key) or model, call, worst.pair, self.sides.data)
        except JfuseError:  # a part cannot be run by itself
            return None

    def _looked_into(self, key: str) -> Runnable | None:
        """The model behind the reference, where a signature has the same names there."""
        matched = self._matches[key]
        alike = matched.key == key and all(n == o for n, o in matched.inputs.items())
        return self.sides.source if alike else None

    def _equations(self, step: CallInputs) -> list[EquationError]:
        """The error of every equation in one call, the first of a row."""
        model = self.sides.model
        if model is None:
            return []
        states = first_states(model.program)
        call = Call(step.key, step.inputs, states)
        return equation_errors(model, self._looked_into(step.key) or model, call, self.sides.data)

    def _command(self, failing: Path | None) -> str:
        if failing is None:
            return ""
        ours, theirs = self.sides.texts
        if self.sides.paths:
            against = ["--against", theirs] if theirs else []
            return shlex.join(["jfuse", "verify", ours, *against, "--inputs", str(failing)])
        return f"jfuse.verify({', '.join(text for text in (ours, theirs) if text)}, inputs={str(failing)!r})"


def _is_own(wrong: Wrong) -> bool:
    """Whether subjects differ among themselves."""
    return wrong.pair.startswith("xla/")


def _excess(wrong: Wrong, first: Wrong) -> tuple[bool, float]:
    """What is most worth telling: of the first comparison that fails, the output that is farthest away."""
    return wrong.pair == first.pair, wrong.measure.relative


def _failed(key: str, wrong: Wrong, result: Verification) -> VerifyFailed:
    first, m = result.first, wrong.measure
    units = f"max|a-b| {m.absolute:.3g}, {m.ulp:.3g} ulp, cosine {m.cosine:.6f}, signal to noise {m.snr:.1f} dB"
    shown = f"{result.command}   shows it again" if result.command else None
    against = "max|a-b| / max|b|"
    if wrong.scale is not None:
        with np.errstate(invalid="ignore"):
            place = np.unravel_index(np.argmax(np.abs(wrong.found - wrong.wanted) / wrong.scale), wrong.wanted.shape)
        at = ", ".join(map(str, place))
        units = f"at [{at}]: {wrong.found[place]:.6g}, not {wrong.wanted[place]:.6g}; {units}"
        against = "|a-b| / scale of each element"
    return VerifyFailed(
        f"output {wrong.output!r} of signature {key!r} differs ({wrong.pair})",
        where=first.place if first else None,
        expected=f"{against} of at most {wrong.tolerance.value:g} ({wrong.tolerance.reason})",
        found=f"{m.relative:.3g} ({units}; {result.backend})",
        remedy=shown or "report this model; verify=False writes the file all the same",
        context=first.detail if first else None,
    )


def _renamed(found: Signature | None, key: str, matched: Match, interface: Interface) -> Signature:
    """The signature of the reference under the names of the other side; without a graph one that computes nothing."""
    if found is None:
        inputs = tuple(Var(t, n) for n, t in interface.inputs.items())
        return Signature(key, Graph(key, inputs, (), ()), tuple(interface.inputs), ())
    inputs_by, outputs_by = ({o: n for n, o in names.items()} for names in (matched.inputs, matched.outputs))
    return replace(
        found,
        key=key,
        input_names=tuple(inputs_by.get(n, n) for n in found.input_names),
        output_names=tuple(outputs_by.get(n, n) for n in found.output_names),
    )
