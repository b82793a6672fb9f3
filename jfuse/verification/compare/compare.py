"""The comparison itself: calls of several subjects beside those of a reference, and the worst differences so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import ml_dtypes
import numpy as np

from jfuse.errors import KernelFailed, VerifyFailed
from jfuse.ir.graph import Signature
from jfuse.measure import Measure, relative_error
from jfuse.proof.inputs import CallInputs
from jfuse.report import Difference
from jfuse.verification.compare.scales import ElementScales, moved_by_rounding, nudged
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.inputs.edges import ONE_INFINITE, OVERFLOWING, STEEP
from jfuse.verification.inputs.independent import compared_samples
from jfuse.verification.inputs.redraw import Redraw
from jfuse.verification.locate.inner_rounding import rounded_results
from jfuse.verification.runners.without_custom_ops import AroundCustom, results_by_chance
from jfuse.verification.subject import STATE, Arrays, Calls, Subject

Run = Callable[[Arrays], Mapping[str, np.ndarray]]
Excused = Callable[[CallInputs, Sequence["Wrong"], Sequence[CallInputs]], tuple[Sequence["Wrong"], Sequence[str]]]
"""Which of the wrong outputs of a call after others in a row nothing explains, and notes on what is explained."""
MOVING = frozenset({"random", "given"})
"""Calls that tell what elements move by: edges are larger or smaller than anything that a model is made for."""
_NUDGE = 2.0**-22  # two roundings of an f32
_MOVING_KEPT = 8  # calls that are saved with one that is wrong by the scales of elements
_TRIES = 4  # an element may stand still by chance in one
_EQUAL = Measure(0.0, 0.0, 0.0, 1.0, np.inf)


@dataclass(frozen=True)
class Wrong:
    """An output beyond its tolerance: of which comparison, by how much, and what both sides gave.

    place: of the subject among those compared. scale: what its elements were measured against, where not max|b|.
    """

    pair: str
    output: str
    measure: Measure
    tolerance: Tolerance
    found: np.ndarray
    wanted: np.ndarray
    place: int = 0
    scale: np.ndarray | None = None


@dataclass(frozen=True)
class _Suspect:
    """An output of one call within its tolerance as a whole, with elements beyond it by what they moved so far."""

    step: CallInputs
    wrong: Wrong
    states: Arrays
    before: tuple[CallInputs, ...]


@dataclass(frozen=True)
class _Seen:
    """What is common to the values of an output in all random and given calls.   first: that of one call"""

    first: np.ndarray
    calls: int = 0
    is_nan: bool = True
    is_constant: bool = True

    def with_(self, array: np.ndarray) -> _Seen:
        """One more call."""
        is_nan = array.dtype.kind in "fcV" and array.size > 0 and bool(np.isnan(array).all())
        return replace(
            self,
            calls=self.calls + 1,
            is_nan=self.is_nan and is_nan,
            is_constant=self.is_constant and array.size > 0 and _one_value(self.first, array),
        )


class Differs(Exception):
    """A call whose outputs differ.

    states: what the first subject kept before it; before: the calls before it. others: some calls that tell what the
    elements of outputs move by, where that is what shows it.
    """

    def __init__(
        self,
        step: CallInputs,
        wrong: Sequence[Wrong],
        states: Arrays,
        before: Sequence[CallInputs],
        others: Sequence[CallInputs] = (),
    ) -> None:
        super().__init__(step.key)
        self.step = step
        self.wrong = tuple(wrong)
        self.states = states
        self.before = tuple(before)
        self.others = tuple(others)


@dataclass(frozen=True)
class _Worst:
    measure: Measure
    tolerance: Tolerance
    samples: int

    def and_(self, other: _Worst) -> _Worst:
        worse = self.tolerance if self.tolerance.value >= other.tolerance.value else other.tolerance
        return _Worst(self.measure.worst(other.measure), worse, self.samples + other.samples)


@dataclass
class Comparison:
    """Subjects beside a reference, call by call.

    signatures: what is called, by key. tolerance: of an output of a signature. same_states: both keep the same between
    calls, so that rows of calls are compared; else every call is a first one, and the reference does not tell states.
    around: runs the file around its custom operators. excused: what explains wrong outputs (a tie of equal values).
    left_out: outputs and states that are not compared. scales: what the elements of outputs move by.
    first: the first call that was compared. redraw: what the reference took in place of inputs that it refused.
    """

    reference: Subject
    subjects: Sequence[Subject]
    signatures: Mapping[str, Signature]
    tolerance: Callable[[str, str], Tolerance]
    same_states: bool = True
    around: Callable[[], AroundCustom] | None = None
    excused: Excused = lambda step, wrong, before: (wrong, ())
    on_call: Callable[[int], None] = lambda count: None
    worst: dict[tuple[str, str, str], _Worst] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)
    calls: int = 0
    first: CallInputs | None = None
    redraw: Redraw = field(default_factory=Redraw)
    left_out: frozenset[str] = frozenset()
    scales: ElementScales = field(default_factory=lambda: ElementScales({}))

    def __post_init__(self) -> None:
        self._keeps = any(i.states for s in self._all() for i in s.signatures.values())
        self._chance = {key: frozenset(by_chance(s)) | self.left_out for key, s in self.signatures.items()}
        self._running: list[Calls] = []
        self._suspects: list[_Suspect] = []
        self._moving: list[CallInputs] = []
        self._seen: dict[tuple[str, str], _Seen] = {}

    def _all(self) -> tuple[Subject, ...]:
        return (self.reference, *self.subjects)

    def start(self) -> None:
        """Go back to the initial states."""
        if self._running and not self._keeps:
            return
        self._running = [subject.start() for subject in self._all()]
        self._around = self.around() if self.around is not None else None
        self._before: list[CallInputs] = []

    def rows(self, rows: Iterable[Iterable[CallInputs]]) -> None:
        """Compare rows of calls, each from the initial states; raises Differs at the first call that is wrong.

        What the elements move by is known after all calls: those that are wrong by that alone are told last.
        """
        for row in rows:
            self.start()
            for step in row:
                if not self.same_states:
                    self.start()
                self.call(step)
                self.on_call(1)
        self.notes.update(dict.fromkeys(self._unmoved()))
        for suspect in self._suspects:
            self._settle(suspect)
        self._suspects = []

    def call(self, step: CallInputs) -> None:
        """One more call of everything; raises Differs."""
        asked, *running = self._running
        states = (running[0] if running else asked).states
        try:
            step, wanted = self._accepted(step, asked)
        except VerifyFailed as refused:
            if step.kind in ("random", "given") or isinstance(refused, KernelFailed):
                raise
            self._pass_over(f"inputs of {step.kind}: {self.reference.name} refuses them")
            return
        if step.kind in STEEP and not _all_finite(wanted):
            self._pass_over(f"inputs of {step.kind}: {self.reference.name} overflows, so they were not compared")
            return
        if step.kind == ONE_INFINITE and any(np.isnan(a).any() for a in wanted.values() if a.dtype.kind == "f"):
            return
        found = [self._of(calls, step) for calls in running]
        if self.same_states:
            wanted = {**wanted, **_as_outputs(asked.states)}
        if step.kind in OVERFLOWING and not all(map(_all_finite, found)):
            self._pass_over(f"inputs of {step.kind}: they overflow, so they were not compared")
            return
        if step.kind in MOVING:
            self._learn(step, wanted)
        wrong = [w for i, outputs in enumerate(found) for w in self._differing(step, i, outputs, wanted)]
        if self._around is not None:
            around, operands = self._around.run(step.key, step.inputs, states)
            wrong += self._differing(step, -1, around, operands)
        if wrong:
            self._judge(step, wrong, states)
        if step.kind in MOVING:
            self._suspects = [s for s in self._suspects if self._may_be_wrong(s)]
            self._suspects += self._suspected(step, found, wanted, states)
        self.calls += 1
        self.first = self.first or step
        if self._keeps:
            self._before.append(step)

    def _pass_over(self, why: str) -> None:
        self.notes[why] = None
        self._start_again()

    def _start_again(self) -> None:
        """Forget what a call that is not compared has left."""
        if self._keeps:
            self._running = []
            self.start()

    @property
    def in_a_row(self) -> bool:
        """Whether a sample is several calls: something is kept between calls, on both sides the same."""
        return self._keeps and self.same_states

    def samples(self, batches: Iterable[tuple[Signature, Arrays]]) -> None:
        """Compare independent first calls, or rows of them, many at a time; raises Differs at the first wrong one.

        batches: for each signature inputs as `Subject.batch` takes them, with `in_a_row` as this comparison has it.
        """
        taken = ((signature, self._as_taken(signature.key, batch)) for signature, batch in batches)
        for key, batch, place, found, wanted in compared_samples(self.reference, self.subjects, taken, self.in_a_row):
            first = next(iter(batch.values()))
            count = first.shape[0] * first.shape[1] if self.in_a_row else len(first)
            for output in (n for n in wanted if n in found and n not in self._chance[key]):
                self._of_batch(key, batch, place, output, found[output], wanted[output])
            if place == len(self.subjects) - 1:
                self.calls += count
                self.on_call(count)
            for subject in self._all():
                if why := subject.singly(key):
                    self.notes[f"{subject.name} computed samples one by one: {why}"] = None

    def _as_taken(self, key: str, batch: Arrays) -> Arrays:
        """Samples in the manner that the reference took inputs in when it refused those drawn."""
        if not self.redraw.kept.get(key):
            return batch
        shape = next(iter(batch.values())).shape[: 2 if self.in_a_row else 1]
        changed = [self.redraw.as_kept(key, {n: a[place] for n, a in batch.items()}) for place in np.ndindex(shape)]
        return {n: np.stack([one[n] for one in changed]).reshape(a.shape) for n, a in batch.items()}

    def _of_batch(
        self, key: str, batch: Arrays, place: int, output: str, found: np.ndarray, wanted: np.ndarray
    ) -> None:
        tolerance = self.tolerance(key, output)
        pair = self._pair(place)
        axes = 2 if self.in_a_row else 1
        count = int(np.prod(wanted.shape[:axes]))
        if place == 0 and tolerance.per_element:
            self.scales.learn(key, output, wanted, axes)
        if found.shape == wanted.shape and np.array_equal(found, wanted):
            self._note_worst(key, output, pair, _Worst(Measure.of(found, wanted), tolerance, count))
            return
        for place_of_call in np.ndindex(wanted.shape[:axes]):
            f, w = found[place_of_call], wanted[place_of_call]
            measure = _measured(f, w, tolerance)
            if measure.relative <= tolerance.value:
                self._note_worst(key, output, pair, _Worst(measure, tolerance, 1))
                wrong = self._wrong_elements(key, Wrong(pair, output, measure, tolerance, f, w, place))
                if wrong is not None:
                    *before, step = _steps(key, batch, place_of_call)
                    self._settle(_Suspect(step, wrong, {}, tuple(before)))
                continue
            *before, step = _steps(key, batch, place_of_call)
            left, notes = self.excused(step, [Wrong(pair, output, measure, tolerance, f, w, place)], before)
            if left:
                self.rows([[*before, step]])  # by itself, where all that is kept is looked at
                raise Differs(step, left, {}, before)
            self.notes.update(dict.fromkeys(notes))

    def differences(self) -> list[Difference]:
        """The worst of each output so far."""
        return [
            Difference(
                key, output, pair, w.measure.relative, w.tolerance.value, w.tolerance.reason, w.measure, w.samples
            )
            for (key, output, pair), w in self.worst.items()
        ]

    def _of(self, calls: Calls, step: CallInputs) -> dict[str, np.ndarray]:
        return {**calls.run(step.inputs, step.key), **_as_outputs(calls.states)}

    def _pair(self, place: int) -> str:
        if place < 0:
            return "xla/litert"
        return f"{self.reference.name}/{self.subjects[place].name}".lower()

    def _differing(self, step: CallInputs, place: int, found: Arrays, wanted: Arrays) -> Iterator[Wrong]:
        """The outputs that differ by more than their tolerance; keeps the worst of all others."""
        chance = self._chance[step.key] if place >= 0 else ()  # what is computed around operators leaves it out
        for output in (n for n in wanted if n in found and n not in chance):
            f, w = np.asarray(found[output]), np.asarray(wanted[output])
            if output.startswith(STATE) and f.size == w.size:
                w = w.reshape(f.shape)  # a file has no scalar states
            tolerance = self.tolerance(step.key, output)
            measure = _measured(f, w, tolerance)
            if measure.relative <= tolerance.value:
                self._note_worst(step.key, output, self._pair(place), _Worst(measure, tolerance, 1))
            else:
                yield Wrong(self._pair(place), output, measure, tolerance, f, w, place)

    def _unmoved(self) -> Iterator[str]:
        """What was said of outputs that tell next to nothing: they are NaN, or the same whatever the inputs are."""
        for (key, output), seen in self._seen.items():
            if seen.is_nan:
                yield f"{output!r} of {key!r} is NaN in all {seen.calls} calls that were compared"
            elif seen.is_constant and seen.calls > 1 and self.signatures[key].input_names:
                yield f"{output!r} of {key!r} is the same in all {seen.calls} calls that were compared"

    def _learn(self, step: CallInputs, wanted: Arrays) -> None:
        for output in (n for n in wanted if not n.startswith(STATE)):
            array = np.asarray(wanted[output])
            seen = self._seen.get((step.key, output)) or _Seen(array)
            self._seen[step.key, output] = seen.with_(array)
        for output in (n for n in wanted if self.tolerance(step.key, n).per_element):
            self.scales.learn(step.key, output, np.asarray(wanted[output]))
        self._moving = [*self._moving, step][:_MOVING_KEPT]

    def _suspected(
        self, step: CallInputs, found: Sequence[Arrays], wanted: Arrays, states: Arrays
    ) -> Iterator[_Suspect]:
        """The outputs of one call that elements are wrong of, by what these moved up to now."""
        for place, outputs in enumerate(found):
            for output in (n for n in wanted if n in outputs and n not in self._chance[step.key]):
                f, w = np.asarray(outputs[output]), np.asarray(wanted[output])
                tolerance = self.tolerance(step.key, output)
                wrong = Wrong(self._pair(place), output, _EQUAL, tolerance, f, w, place)
                if self._wrong_elements(step.key, wrong, so_far=True) is not None:
                    yield _Suspect(step, wrong, states, tuple(self._before))

    def _wrong_elements(self, key: str, of: Wrong, *, so_far: bool = False) -> Wrong | None:
        """The output as one that is wrong by its elements' own scales; None where it is right.   so_far: or may be"""
        f, w, tolerance = of.found, of.wanted, of.tolerance
        if f.size != w.size or w.dtype.kind not in "fcV" or np.array_equal(f.reshape(w.shape), w):
            return None
        scale = self.scales.of(key, of.output, w, tolerance, so_far=so_far)
        if scale is None or relative_error(f.reshape(w.shape), w, scale) <= tolerance.value:
            return None
        return replace(of, found=f.reshape(w.shape), measure=Measure.of(f.reshape(w.shape), w, scale), scale=scale)

    def _may_be_wrong(self, suspect: _Suspect) -> bool:
        return self._wrong_elements(suspect.step.key, suspect.wrong, so_far=True) is not None

    def _settle(self, suspect: _Suspect) -> None:
        """Raise Differs where elements are wrong, and no rounding on the way explains that."""
        key, of = suspect.step.key, suspect.wrong
        wrong = self._wrong_elements(key, of)
        for moves in (self._nudging, self._rounding):
            if wrong is not None:
                self.scales.widen(key, of.output, of.wanted, moves(suspect))
                wrong = self._wrong_elements(key, of)
        if wrong is None:
            return
        left, notes = self.excused(suspect.step, [wrong], suspect.before)
        self.notes.update(dict.fromkeys(notes))
        if left:
            self._note_worst(key, of.output, of.pair, _Worst(wrong.measure, of.tolerance, 1))
            others = [s for s in self._moving if s.key == key and s is not suspect.step]
            raise Differs(suspect.step, left, suspect.states, suspect.before, others)

    def _nudging(self, suspect: _Suspect) -> np.ndarray:
        """How far the reference itself moves each element where the inputs of the calls are rounded otherwise."""
        of, row = suspect.wrong, (*suspect.before, suspect.step)
        again = [tuple(replace(s, inputs=nudged(s.inputs, of.tolerance.value, i)) for s in row) for i in range(_TRIES)]
        try:
            plain, *others = (self._last_of(calls, of.output) for calls in (row, *again))
        except VerifyFailed:
            return np.zeros(of.wanted.shape)
        finally:
            self._start_again()
        alike = [o.reshape(of.wanted.shape) for o in others if o.size == of.wanted.size]
        return moved_by_rounding(plain.reshape(of.wanted.shape), alike)

    def _rounding(self, suspect: _Suspect) -> np.ndarray:
        """How far each element moves where all values on the way are; without limit where no graph can be run so.

        Inputs do not tell of sums that cancel whatever the inputs are, and integers cannot be rounded.
        """
        of, row = suspect.wrong, (*suspect.before, suspect.step)
        program = self.subjects[0].program
        signatures = {} if program is None else {s.key: s for s in program.signatures}
        if suspect.step.key not in signatures or any(s.key != suspect.step.key for s in row):
            return np.full(of.wanted.shape, np.inf)
        signature = signatures[suspect.step.key]
        plain, *others = (rounded_results(signature, row, seed).get(of.output) for seed in (None, *range(_TRIES)))
        moved = [o for o in others if o is not None and o.size == of.wanted.size]
        if plain is None or plain.size != of.wanted.size or len(moved) < len(others):
            return np.full(of.wanted.shape, np.inf)
        return moved_by_rounding(plain.reshape(of.wanted.shape), [o.reshape(of.wanted.shape) for o in moved])

    def _last_of(self, row: Sequence[CallInputs], output: str) -> np.ndarray:
        calls = self.reference.start()
        for step in row:
            found = self._of(calls, step)
        return np.asarray(found[output])

    def _note_worst(self, key: str, output: str, pair: str, new: _Worst) -> None:
        old = self.worst.get((key, output, pair))
        self.worst[key, output, pair] = new if old is None else old.and_(new)

    def _judge(self, step: CallInputs, wrong: Sequence[Wrong], states: Arrays) -> None:
        if step.kind in STEEP and self._is_steep(step, wrong):
            self.notes[f"inputs of {step.kind}: a rounding of them changes the answer as much as what differs"] = None
            return
        left, notes = self.excused(step, wrong, self._before)
        self.notes.update(dict.fromkeys(notes))
        if left:
            for w in left:
                self._note_worst(step.key, w.output, w.pair, _Worst(w.measure, w.tolerance, 1))
            raise Differs(step, left, states, self._before)

    def _is_steep(self, step: CallInputs, wrong: Sequence[Wrong]) -> bool:
        """Whether the reference itself differs as much when its inputs are rounded otherwise."""
        nudged = replace(step, inputs={name: _nudged(array) for name, array in step.inputs.items()})
        try:
            plain, moved = (self.reference.start().run(s.inputs, s.key) for s in (step, nudged))
        except VerifyFailed:
            return False
        finally:
            self._start_again()
        by = {w.output: w.measure.relative for w in wrong}
        return all(o in plain and 4 * relative_error(moved[o], plain[o]) >= by[o] for o in by)

    def _accepted(self, step: CallInputs, calls: Calls) -> tuple[CallInputs, Arrays]:
        """The call with inputs that the reference takes, and its outputs: those drawn, or others where it refuses them.

        Those of edges get other integers and texts only in the manner that random ones were taken in.
        """
        if step.kind == "given":
            return step, calls.run(step.inputs, step.key)
        drawn = self.redraw.as_kept(step.key, step.inputs) if step.kind == "random" else step.inputs
        try:
            return replace(step, inputs=drawn), calls.run(drawn, step.key)
        except KernelFailed:
            raise
        except VerifyFailed as refused:
            found = self._others(step, calls, str(refused.found))
            if found is None:
                raise
            return found

    def _others(self, step: CallInputs, calls: Calls, message: str) -> tuple[CallInputs, Arrays] | None:
        """The first of other inputs that the reference takes, and its outputs."""
        tried = self.redraw.others(self.signatures[step.key], step.inputs, message)
        if step.kind != "random":
            kept = self.redraw.kept.get(step.key, {})
            exact = {n: m for n, m in kept.items() if step.inputs[n].dtype.kind not in "fcV"}
            tried = iter([(exact, self.redraw.changed(step.inputs, exact))] if exact else [])
        for manners, inputs in tried:
            if self._keeps and not self._before:
                calls.reset()  # a call that fails may have written variables before it does
            try:
                outputs = calls.run(inputs, step.key)
            except KernelFailed:
                raise
            except VerifyFailed:
                continue
            if step.kind == "random":
                self.redraw.kept[step.key] = manners
            return replace(step, inputs=inputs), outputs
        return None


def _steps(key: str, batch: Arrays, place: tuple[int, ...]) -> list[CallInputs]:
    """The calls of a sample up to one of them.   place: the sample's number, and that of the call in its row"""
    sample, *last = place
    if not last:
        return [CallInputs(key, {name: array[sample] for name, array in batch.items()})]
    return [CallInputs(key, {name: array[sample, i] for name, array in batch.items()}) for i in range(last[0] + 1)]


def _as_outputs(states: Arrays) -> dict[str, np.ndarray]:
    """States among outputs: under a name that no output has."""
    return {f"{STATE}{name}": value for name, value in states.items()}


def by_chance(signature: Signature) -> Iterator[str]:
    """The outputs and states that differ from call to call, by name."""
    names = (*signature.output_names, *(f"{STATE}{s.name}" for s in signature.states))
    return (names[i] for i in results_by_chance(signature.graph))


def _all_finite(outputs: Arrays) -> bool:
    return all(a.dtype.kind not in "fcV" or bool(np.isfinite(a).all()) for a in outputs.values())


def _measured(found: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> Measure:
    """The distance; what is below the least normal number counts for nothing, as either may flush it to zero.

    That is said of finite numbers: where one side alone has a NaN or an infinity, they are infinitely far apart.
    """
    measure = Measure.of(found, wanted)
    if wanted.dtype.kind not in "fV" or not np.isfinite(measure.absolute):
        return measure
    if measure.absolute < float(ml_dtypes.finfo(wanted.dtype).tiny):  # type: ignore[no-untyped-call]
        return Measure.of(wanted, wanted)
    largest = float(np.abs(wanted.astype(np.float64)).max(initial=0.0))
    return replace(measure, relative=measure.absolute / tolerance.least) if largest < tolerance.least else measure


def _one_value(some: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal, or one number throughout, as where their sizes are open."""
    if some.shape == other.shape:
        return bool(np.array_equal(some, other))
    return bool(some.size and (some == some.flat[0]).all() and (other == some.flat[0]).all())


def _nudged(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return array
    signs = np.random.default_rng(0).choice((-1.0, 1.0), array.shape)
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(np.float64) * (1 - _NUDGE * (1.5 + 0.5 * signs))).astype(array.dtype)
