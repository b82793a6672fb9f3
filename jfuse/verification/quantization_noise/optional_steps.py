"""Steps of quantization that usually help: each is kept only where no output of the file is worse for it.

This is the one place where that is decided, by the file itself in its runtime, on calibration data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Program
from jfuse.ir.states import distinct
from jfuse.model import Model
from jfuse.passes.context import Attempt
from jfuse.quantization.data import RANDOM, CalibrationData, Item, calibration_items
from jfuse.quantization.recipe import EXTRAPOLATED, Recipe
from jfuse.quantization.statistics import is_earlier
from jfuse.verification.file_answers import InFile, Start, answers, in_litert, interpreters
from jfuse.verification.quantization_noise.of_file import noise_in
from jfuse.verification.quantization_noise.output_errors import corrected, product_errors

_CALLS = 64  # of the calibration data: each is run in every file
_BYTES = 2**28  # of answers that are in memory at once; eight calls are in any case
_CHANCE_DB = 0.1  # by which an SNR changes with any change of the file
_WIDER_DB = 3.0
"""The most that ranges wider than those of the calls seen may cost in these calls: steps 1.4 times as large.

One number in thousands that is cut off costs more, and some dozens of calls do not show it: of a product in 8 bits with
64 calls, ranges that cost 2.0 dB in these were worth 9 to 13 dB in 64 others.
"""
_TOLD_DB = 1.0  # from which the report says what they cost
_FEWEST = 4  # calls in each half: one half gives the ranges, the other tests them
_STEPS = {
    "equalization": "equalization is",
    "bias_correction": "the correction of biases for rounded weights is",
    EXTRAPOLATED: "the extrapolation of ranges is",
}
"""The optional steps of a recipe, in words."""
_MEANS = "the correction of the last bias by what outputs are off by on average is"
Output = tuple[str, str]
"""The key of a signature, and the name of one of its outputs."""
Scores = Mapping[Output, float]
"""The SNR of each output in dB."""


Lower = Callable[[Recipe, CalibrationData], Attempt]
"""(recipe, data to calibrate with, None for what is known already) -> the program by that recipe."""


def with_steps_that_help(
    first: Attempt, recipe: Recipe, floats: Program, data: CalibrationData, lower: Lower
) -> Attempt:
    """The program without the optional steps that lower the SNR of an output, and with outputs right on average.

    first: the program by the recipe as it is. floats: the same in floats. lower: makes it by another recipe.
    The steps are `equalization`, `bias_correction`, and ranges of the algorithm `extrapolated`. The first 64 calls of
    the data count. The last biases are corrected after that, as `product_errors` has it, for each output by itself. The
    report notes what was left out. As it is without data, with random data, with statistics of an earlier calibration,
    and where its runtime is not installed or does not take the file.
    """
    runs = interpreters(first.program)
    if data is None or (isinstance(data, str) and data == RANDOM) or is_earlier(data) or not runs:
        return first
    start = next(iter(runs.values()))
    try:
        items = list(_first_items(calibration_items(floats, data), _most_calls(floats)))
        wanted = list(answers(InFile(Model(floats), in_litert), items))
        trial = _Trial(start, items, wanted, bool(first.program.states() or floats.states()))
        chosen = _without_harm(first, recipe, trial, lower)
        return _right_on_average(chosen, floats, recipe, trial)
    except VerifyFailed as error:
        note = f"whether corrections help was not measured: {error.message}, {error.found}"
        return replace(first, report=first.report.noting(note))


def _most_calls(program: Program) -> int:
    shapes = (a.type.shape for s in program.signatures for a in s.graph.outputs)
    size = max(sum(prod(int(d) for d in shape if is_known(d)) for shape in shapes), 1)
    return min(_CALLS, max(_BYTES // (4 * size), 8))


def _first_items(items: Iterable[Item], most: int) -> Iterator[Item]:
    count = 0
    for item in items:
        yield item
        count += len(item.calls)
        if count >= most:
            return


@dataclass
class _Trial:
    """The calls that files are run on.   wanted: the float model's answers; keeps: whether a call has states"""

    start: Start
    items: Sequence[Item]
    wanted: Sequence[tuple[str, Mapping[str, np.ndarray]]]
    keeps: bool = False
    _known: dict[int, tuple[Program, Scores]] = field(default_factory=dict)

    def scores(self, program: Program) -> Scores:
        """The SNR of each output of the program's file; that of a file that does not run is not above any."""
        if id(program) not in self._known:
            self._known[id(program)] = program, self._measured(program)
        return self._known[id(program)][1]

    def _measured(self, program: Program) -> Scores:
        try:
            found = noise_in(Model(program), "", self.start, self.items, self.wanted)
        except VerifyFailed:
            return {(key, name): -np.inf for key, outputs in self.wanted for name in outputs}
        return {(n.signature, n.output): -np.inf if np.isnan(n.snr_db) else n.snr_db for n in found}

    def halves(self) -> list[tuple[slice, _Trial]]:
        """Each half of the calls, with the other to run files on; none where they are few, or go together."""
        is_apart = all(len(item.calls) == 1 and not item.calls[0].left_out for item in self.items)
        if self.keeps or not is_apart or len(self.items) < 2 * _FEWEST:
            return []
        one, other = slice(0, None, 2), slice(1, None, 2)
        return [(a, _Trial(self.start, self.items[b], self.wanted[b])) for a, b in ((one, other), (other, one))]

    def data(self, calls: slice) -> CalibrationData:
        """Some of the calls, which stand alone, as data to calibrate with."""
        return [(call.key, dict(call.inputs)) for item in self.items[calls] for call in item.calls]


@dataclass(frozen=True)
class _Pair:
    """Programs with a step and without it, and what their files are run on."""

    trial: _Trial
    program: Program
    without: Program


def _harmed(pairs: Sequence[_Pair], tolerance_db: float) -> list[Output]:
    """The outputs with more noise by a step than without it, over all pairs together; the noisiest first."""
    noise: list[dict[Output, float]] = [{}, {}]
    for pair in pairs:
        for of, program in zip(noise, (pair.program, pair.without), strict=True):
            for output, snr_db in pair.trial.scores(program).items():
                of[output] = of.get(output, 0.0) + 10 ** (-snr_db / 10)
    ours, others = noise
    worse = [output for output, least in others.items() if ours[output] > least * 10 ** (tolerance_db / 10)]
    return sorted(worse, key=lambda output: -ours[output])


def _without_harm(chosen: Attempt, recipe: Recipe, trial: _Trial, lower: Lower) -> Attempt:
    """The attempt, or one without the steps of the recipe that harm it."""
    for step in _STEPS:
        recipe_without = _without(recipe, step)
        if recipe_without == recipe:
            continue
        without = lower(recipe_without, None)
        tolerance_db = _WIDER_DB if step == EXTRAPOLATED else _CHANCE_DB
        harmed = _harmed([_Pair(trial, chosen.program, without.program)], tolerance_db)
        if step == EXTRAPOLATED and not (harmed and _harms_others(recipe, recipe_without, trial, lower)):
            chosen = replace(chosen, report=chosen.report.noting(*_cost(trial, chosen.program, without.program)))
        elif harmed:
            note = _note(_STEPS[step], harmed[0], trial.scores(chosen.program), trial.scores(without.program))
            chosen, recipe = replace(without, report=without.report.noting(note)), recipe_without
    return chosen


def _cost(trial: _Trial, program: Program, without: Program) -> Iterator[str]:
    """A note on what extrapolated ranges cost the output that they cost most, where that shows."""
    costly = _harmed([_Pair(trial, program, without)], _TOLD_DB)
    for key, name in costly[:1]:
        ours, others = trial.scores(program)[key, name], trial.scores(without)[key, name]
        yield (
            f"ranges reach beyond these calls, as other data may: output {name!r} of {key!r} has {ours:.1f} dB "
            f'in these, {others:.1f} with range_algorithm="minmax"'
        )


def _harms_others(recipe: Recipe, without: Recipe, trial: _Trial, lower: Lower) -> bool:
    """Whether ranges of one half of the calls are worse for the other half by a recipe than without its step.

    Calls that ranges were taken from say nothing of what lies beyond them. Both halves take their turn, so that what
    reaches farthest is once among the others.
    """
    pairs = [
        _Pair(others, *(lower(each, trial.data(calls)).program for each in (recipe, without)))
        for calls, others in trial.halves()
    ]
    return bool(_harmed(pairs, _CHANCE_DB))


def _without(recipe: Recipe, step: str) -> Recipe:
    """The recipe without one of the optional steps; an equal one where it does not have it."""
    if step == "equalization":
        return replace(recipe, equalization=False)
    if step == "bias_correction":
        return replace(recipe, rules=tuple(replace(rule, bias_correction=False) for rule in recipe.rules))
    widens = [rule.mode == "integer" and rule.range_algorithm == EXTRAPOLATED for rule in recipe.rules]
    rules = zip(recipe.rules, widens, strict=True)
    return replace(recipe, rules=tuple(replace(r, range_algorithm="minmax") if w else r for r, w in rules))


def _right_on_average(chosen: Attempt, floats: Program, recipe: Recipe, trial: _Trial) -> Attempt:
    """The attempt with the biases before outputs corrected, where the output is not worse for it.

    Each half of the calls corrects what the other is run on, where there are enough of them.
    """
    program = chosen.program
    errors = product_errors(program, floats, recipe, trial.start, trial.items)
    if not errors:
        return chosen

    def by(calls: slice) -> Program:
        return corrected(program, {place: (each.eqn, each.mean(calls)) for place, each in errors.items()})

    pairs = [_Pair(others, by(calls), program) for calls, others in trial.halves() or [(slice(None), trial)]]
    harmed = _harmed(pairs, 0.0)
    names = {s.key: s.output_names for s in distinct(program)}
    kept = {(key, i): each for (key, i), each in errors.items() if (key, names[key][i]) not in harmed}
    changed = corrected(program, {place: (each.eqn, each.mean(slice(None))) for place, each in kept.items()})
    worse = [output for output in harmed if output in {(key, names[key][i]) for key, i in errors}]
    last = pairs[-1]
    notes = [_note(_MEANS, o, last.trial.scores(last.program), last.trial.scores(program)) for o in worse[:1]]
    return Attempt(changed, chosen.report.noting(*notes))


def _note(step: str, output: Output, ours: Scores, others: Scores) -> str:
    key, name = output
    with_it, without = f"{ours[output]:.1f} dB with it", f"{others[output]:.1f} without"
    return f"{step} left out: output {name!r} of {key!r} has {with_it}, {without}"
