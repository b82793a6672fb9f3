"""Steps of quantization that usually help: each is kept only where no output of the file is worse for it.

This is the one place where that is decided, by the file itself in its runtime, on calibration data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Program
from jfuse.ir.states import distinct
from jfuse.model import Model
from jfuse.noise.output_errors import corrected, mean_errors
from jfuse.quantization.data import RANDOM, CalibrationData, Item, calibration_items
from jfuse.quantization.recipe import EXTRAPOLATED, Recipe
from jfuse.quantization.statistics import is_earlier
from jfuse.report import Report
from jfuse.verification.file_answers import InFile, Start, answers, in_litert, interpreters
from jfuse.verification.noise import noise_in

_CALLS = 64  # of the calibration data: each is run in every file
_BYTES = 2**28  # of answers that are in memory at once; eight calls are in any case
_CHANCE_DB = 0.1  # by which an SNR changes with any change of the file
_WIDER_DB = 3.0
"""What ranges that reach beyond the calls seen may cost in these calls: steps 1.4 times as large.

One number in thousands that is cut off costs more, and some dozens of calls do not show it: of a product in 8 bits with
64 calls, ranges that cost 2.0 dB in these were worth 9 to 13 dB in 64 others.
"""
_FEWEST = 4  # calls in each half, of which one has the ranges, so that the other tells something of them
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


@dataclass(frozen=True)
class Attempt:
    """A program that was quantized in one way, and the report of that."""

    program: Program
    report: Report


Lower = Callable[[Recipe, CalibrationData], Attempt]
"""(recipe, data to calibrate with, None for what is known already) -> the program by that recipe."""


def with_steps_that_help(
    first: Attempt, recipe: Recipe, floats: Program, data: CalibrationData, lower: Lower
) -> Attempt:
    """The program without the optional steps that lower the SNR of an output, and with outputs right on average.

    first: the program by the recipe as it is. floats: the same in floats. lower: makes it by another recipe.
    The steps are `equalization`, `bias_correction`, and ranges of the algorithm `extrapolated`. The first 64 calls of
    the data count. The last biases are corrected after that, as `mean_errors` has it, for each output by itself. The
    report notes what was left out. As it is without data, with random data, with statistics of an earlier calibration,
    and where its runtime is not installed or does not take the file.
    """
    runs = interpreters(first.program)
    if data is None or (isinstance(data, str) and data == RANDOM) or is_earlier(data) or not runs:
        return first
    start = next(iter(runs.values()))
    try:
        items = list(_first_items(calibration_items(floats, data), _most_calls(floats)))
        trial = _Trial(start, items, list(answers(InFile(Model(floats), in_litert), items)))
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
    """What files are run on.   wanted: the float model's answers"""

    start: Start
    items: Sequence[Item]
    wanted: Sequence[tuple[str, Mapping[str, np.ndarray]]]
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

    def harmed(self, program: Program, without: Program, tolerance_db: float) -> list[Output]:
        """The outputs that are better without a step, the worst first."""
        ours, others = self.scores(program), self.scores(without)
        worse = [output for output in others if others[output] > ours[output] + tolerance_db]
        return sorted(worse, key=lambda output: ours[output])

    def halves(self) -> list[tuple[CalibrationData, _Trial]]:
        """Each half of the calls as data, with the other to run files on; none where they are few, or go together."""
        is_apart = all(len(item.calls) == 1 and not item.calls[0].left_out for item in self.items)
        if not is_apart or len(self.items) < 2 * _FEWEST:
            return []
        data = [[(call.key, dict(call.inputs)) for item in self.items[i::2] for call in item.calls] for i in (0, 1)]
        return [(data[i], _Trial(self.start, self.items[1 - i :: 2], self.wanted[1 - i :: 2])) for i in (0, 1)]


def _without_harm(chosen: Attempt, recipe: Recipe, trial: _Trial, lower: Lower) -> Attempt:
    """The attempt, or one without the steps of the recipe that harm it."""
    for step in _STEPS:
        recipe_without = _without(recipe, step)
        if recipe_without == recipe:
            continue
        without = lower(recipe_without, None)
        tolerance_db = _WIDER_DB if step == EXTRAPOLATED else _CHANCE_DB
        harmed = trial.harmed(chosen.program, without.program, tolerance_db)
        if harmed and step == EXTRAPOLATED and not _harms_others(recipe, recipe_without, trial, lower):
            continue
        if harmed:
            note = _note(_STEPS[step], harmed[0], trial.scores(chosen.program), trial.scores(without.program))
            chosen, recipe = replace(without, report=without.report.noting(note)), recipe_without
    return chosen


def _harms_others(recipe: Recipe, without: Recipe, trial: _Trial, lower: Lower) -> bool:
    """Whether ranges of one half of the calls are worse for the other half by a recipe than without its step.

    Calls that ranges were taken from say nothing of what lies beyond them. Both halves take their turn, so that what
    reaches farthest is once among the others.
    """
    noise: list[dict[Output, float]] = [{}, {}]
    for data, others in trial.halves():
        for of, each in zip(noise, (recipe, without), strict=True):
            for output, snr_db in others.scores(lower(each, data).program).items():
                of[output] = of.get(output, 0.0) + 10 ** (-snr_db / 10)
    return any(noise[0][output] > least * 10 ** (_CHANCE_DB / 10) for output, least in noise[1].items())


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
    """The attempt with the biases before outputs corrected, where the output is not worse for it."""
    corrections = mean_errors(chosen.program, floats, recipe, trial.start, trial.items)
    if not corrections:
        return chosen
    changed = corrected(chosen.program, corrections)
    harmed = trial.harmed(changed, chosen.program, 0.0)
    names = {s.key: s.output_names for s in distinct(chosen.program)}
    kept = {(key, i): each for (key, i), each in corrections.items() if (key, names[key][i]) not in harmed}
    program = changed if len(kept) == len(corrections) else corrected(chosen.program, kept)
    worse = [(key, names[key][i]) for key, i in corrections if (key, names[key][i]) in harmed]
    notes = [_note(_MEANS, o, trial.scores(changed), trial.scores(chosen.program)) for o in worse[:1]]
    return Attempt(program, chosen.report.noting(*notes))


def _note(step: str, output: Output, ours: Scores, others: Scores) -> str:
    key, name = output
    with_it, without = f"{ours[output]:.1f} dB with it", f"{others[output]:.1f} without"
    return f"{step} left out: output {name!r} of {key!r} has {with_it}, {without}"
