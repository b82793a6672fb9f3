"""The fewest operators to leave float so that a model is as good as asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import comb
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.base.option_values import need_mapping
from jfuse.base.users_code import users_code
from jfuse.verification.quantization_noise.figures import decibels

Outputs = Mapping[str, np.ndarray]
"""The outputs of all calls by name, with calls along a new first axis."""
TRIED = 2**14
"""Calls: so many choices are gone through without leaving any out; of 32 calls all of nine operators."""
_AT_ONCE = 2**11  # calls of all choices that are computed together


@dataclass(frozen=True)
class Goal:
    """How good a quantized model has to be.

    snr_db: of the worst output against the float model's. metric, accuracy_drop: a function of outputs by name, calls
    along a new first axis, that is greater for better ones, and by how much it may fall from the float model's.
    """

    snr_db: float | None = None
    accuracy_drop: float | None = None
    metric: Callable[[Outputs], float] | None = None

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Goal:
        """The goal in a dict; raises JfuseError where that says something else."""
        need_mapping("target=", given, '{"snr_db": 30}, or the name of a runtime')
        is_noise, is_metric = given.keys() == {"snr_db"}, given.keys() == {"accuracy_drop", "metric"}
        if not (is_noise or (is_metric and callable(given["metric"]))):
            raise JfuseError(
                "a target of quantization has another form",
                expected='{"snr_db": 30} or {"accuracy_drop": 0.005, "metric": function of outputs}',
                found=dict(given),
            )
        number = given["snr_db" if is_noise else "accuracy_drop"]
        if isinstance(number, bool) or not isinstance(number, int | float) or not np.isfinite(number):
            raise JfuseError("a target of quantization is no number", found=repr(number))
        return cls(**given)

    def score(self, found: Outputs, wanted: Outputs) -> float:
        """How good outputs are: the least SNR, or the metric less the float model's."""
        if self.metric is not None:
            return self._measured(found) - self._measured(wanted)
        return min((_snr(found[n], a) for n, a in wanted.items() if a.dtype.kind in "fV"), default=float("inf"))

    def _measured(self, outputs: Outputs) -> float:
        """The metric of outputs; raises JfuseError where it gives no number."""
        assert self.metric is not None
        with users_code():
            score = self.metric(outputs)
        try:
            return float(score)
        except (TypeError, ValueError) as error:
            raise JfuseError("the metric gives no number", found=shown(score)) from error

    @property
    def least(self) -> float:
        """The score that is asked for."""
        return float(self.snr_db) if self.snr_db is not None else -float(self.accuracy_drop or 0.0)

    def text(self, score: float) -> str:
        """A score in words."""
        return f"{score:.1f} dB" if self.metric is None else f"{score:+.4f} of the metric"


def _snr(found: np.ndarray, wanted: np.ndarray) -> float:
    exact = wanted.astype(np.float64)
    return decibels(float(np.square(exact).sum()), float(np.square(found - exact).sum()))


@dataclass
class Search:
    """Scores of choices, each computed once.

    count: of the operators. costs: of each. scores: for choices of operators, by their positions. calls: that a score
    takes.
    """

    count: int
    costs: Sequence[int]
    scores: Callable[[Sequence[frozenset[int]]], Sequence[float]]
    calls: int
    known: dict[frozenset[int], float] = field(default_factory=dict)

    def fewest(self, least: float) -> frozenset[int] | None:
        """The operators to leave float for a score, as few as possible, of as many those that cost least.

        All choices of one number are tried as long as these take no more than some thousands of calls: none of fewer
        will do then.
        From there on the best of one step is the first of the next, and what is not needed goes again. None where all
        operators together do not reach the score.
        """
        for number in range(self.count + 1):
            if sum(comb(self.count, k) for k in range(number + 1)) > max(1, TRIED // self.calls):
                return self._greedily(number - 1, least)
            good = [
                c for c in self._tried(map(frozenset, combinations(range(self.count), number))) if self._is(c, least)
            ]
            if good:
                return min(good, key=lambda c: (sum(self.costs[i] for i in c), -self.known[c]))
        return None

    def _greedily(self, number: int, least: float) -> frozenset[int] | None:
        of_number = [c for c in self.known if len(c) == number]
        best = max(of_number, key=self.known.__getitem__)
        while not self._is(best, least):
            if len(best) == self.count:
                return None
            best = max(self._tried(best | {i} for i in range(self.count) if i not in best), key=self.known.__getitem__)
        for i in sorted(best, key=lambda i: -self.costs[i]):
            (fewer,) = self._tried([best - {i}])
            best = fewer if self._is(fewer, least) else best
        return best

    def _is(self, choice: frozenset[int], least: float) -> bool:
        return self.known[choice] >= least

    def _tried(self, choices: Iterable[frozenset[int]]) -> Iterator[frozenset[int]]:
        waiting = iter(choices)
        while some := list(islice(waiting, max(1, _AT_ONCE // self.calls))):
            new = [c for c in some if c not in self.known]
            self.known.update(zip(new, self.scores(new) if new else (), strict=True))
            yield from some
