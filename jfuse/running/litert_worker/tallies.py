"""Statistics of values while a file runs: extremes of each sample, histograms and sums over all samples.

Needs NumPy alone: the process that runs LiteRT tallies values where they are computed. Calibration uses it as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

MANTISSA = 7  # bits: a bin is as wide as 1/128 to 1/256 of the numbers in it, a step of int8 at the end of its range
LOW, HIGH = -32, 32  # exponents; smaller numbers count as 0, larger ones as those of the last bin
PER_SIGN = (HIGH - LOW) << MANTISSA
BINS = 2 * PER_SIGN + 1
"""How many bins there are: the same number for either sign, and one for 0 between them."""
_UPPER = 1 if sys.byteorder == "little" else 0  # which half of a number has its leading bits
_HALVES = 2**16  # of numbers, their upper ones
_WAITING = 2**15  # numbers: of each value two bytes
_MOST = 2**31  # of one half: what an entry holds
_ROW = 2**10  # numbers, from which on NumPy adds up rows as fast as it reads them
_INFINITY = float("inf")

Number = Any
"""A number of NumPy or of Python."""


class TallyRequest(NamedTuple):
    """The tensors of a file to tally.

    places: positions among the file's inputs and then outputs. counted: positions in `places` of those that get a
    histogram. summed: positions of those whose rows are summed, with the number of terms in a row.
    """

    places: tuple[int, ...]
    counted: tuple[int, ...]
    summed: tuple[tuple[int, int], ...]


class TallyResult(NamedTuple):
    """Statistics of the values of calls.

    ends: f32[samples,values,2], the extremes of the finite numbers, the least one negated; both -inf without any.
    others: bool[samples,values], whether there were NaN or infinities. counts: i64[counted,BINS], of finite numbers.
    sums: f64[terms] each, over all rows, without samples in which the value has NaN or infinities.
    """

    ends: np.ndarray
    others: np.ndarray
    counts: np.ndarray
    sums: Sequence[np.ndarray]


def together(parts: Sequence[TallyResult]) -> TallyResult:
    """Join the statistics of several rows of calls, in their order."""
    ends, others = (np.concatenate(of) for of in zip(*((p.ends, p.others) for p in parts), strict=True))
    counts, *more = (p.counts for p in parts)
    sums = [np.add.reduce(of) for of in zip(*(p.sums for p in parts), strict=True)]
    return TallyResult(ends, others, sum(more, np.array(counts)), sums)


class Tallies:
    """Collects the statistics of each call's values; read `seen` after the last call."""

    def __init__(self, looks: TallyRequest) -> None:
        self._looks = looks
        self._histograms = {place: Histogram() for place in looks.counted}
        sums = [(place, _SumOfRows(terms)) for place, terms in looks.summed]
        self._sums = [of for _, of in sums]
        self._sums_at = [[of for place, of in sums if place == at] for at in range(len(looks.places))]
        self._ends: list[list[tuple[Number, Number]]] = []
        self._others: list[list[bool]] = []

    def add(self, values: Sequence[Callable[[], np.ndarray]]) -> None:
        """Look at the values of one call, in the order of `places`; each gives one that lives as long as it is used."""
        ends, others = [], []
        for place, value in enumerate(values):
            numbers = _floats(value())
            low, high = _ends(numbers)
            others.append(is_other := not (low > -_INFINITY and high < _INFINITY))
            if is_other:
                numbers = numbers[np.isfinite(numbers)]
                low, high = _ends(numbers)
            ends.append((-low, high))
            if place in self._histograms:
                self._histograms[place].add(numbers)
            if not is_other:
                for of in self._sums_at[place]:
                    of.add(numbers)
        self._ends.append(ends)
        self._others.append(others)

    def seen(self) -> TallyResult:
        """The statistics of all calls. Call it once, after the last one."""
        shape = len(self._ends), len(self._looks.places)
        ends, others = np.array(self._ends, np.float32).reshape(*shape, 2), np.array(self._others, bool).reshape(shape)
        counts = np.zeros((len(self._looks.counted), BINS), np.int64)
        for i, place in enumerate(self._looks.counted):
            counts[i] = self._histograms.pop(place).counts()  # one after the other: they are large
        return TallyResult(ends, others, counts, [of.sum() for of in self._sums])


def _floats(value: np.ndarray) -> np.ndarray:
    """The numbers in a row, f32[n]; a view of them where they are that."""
    if value.dtype == np.float32:
        return value.reshape(-1)
    with np.errstate(over="ignore"):
        return value.astype(np.float32).reshape(-1)


def _ends(numbers: np.ndarray) -> tuple[Number, Number]:
    """The least and the greatest number: NaN where one is NaN."""
    return (np.minimum.reduce(numbers), np.maximum.reduce(numbers)) if len(numbers) else (_INFINITY, -_INFINITY)


def ends_of(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The extremes of each row's finite numbers, f32[n,2], the least one negated, and which rows have other numbers.

    rows: f32[n,...]
    """
    rows = rows.reshape(len(rows), -1)
    ends = _of_rows(rows, rows)
    others = np.isnan(ends).any(1) | (ends == np.inf).any(1)
    if others.any():
        some = rows[others]
        finite = np.isfinite(some)
        ends[others] = _of_rows(np.where(finite, some, np.inf), np.where(finite, some, -np.inf))
    return ends, others


def _of_rows(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.stack([-low.min(1, initial=np.inf), high.max(1, initial=-np.inf)], 1)


class _SumOfRows:
    """The sum of rows of so many terms. Several are added up as one: NumPy is fastest on long rows."""

    def __init__(self, terms: int) -> None:
        self._terms = terms
        self._sums: np.ndarray | None = None

    def add(self, numbers: np.ndarray) -> None:
        """Add those of a call, as many as in each other.   numbers: f32[rows * terms]"""
        if self._sums is None:
            rows, together = len(numbers) // self._terms, 1
            while rows % (2 * together) == 0 and together * self._terms < _ROW:
                together *= 2
            self._sums = np.zeros(together * self._terms)
        self._sums += np.add.reduce(numbers.reshape(-1, len(self._sums)))

    def sum(self) -> np.ndarray:
        """Of all rows, f64[terms]."""
        sums = np.zeros(0) if self._sums is None else self._sums
        return np.asarray(sums.reshape(-1, self._terms).sum(0))


class Histogram:
    """Counts of numbers by their upper halves. The bins of the histogram are made from them at the end.

    Numbers wait until there are many: those of other values would drive the counts from the cache meanwhile. Each is
    counted at its half: `np.bincount` makes an array of its own, and takes as long for a number.
    """

    def __init__(self) -> None:
        self._halves = np.zeros(_HALVES, np.uint32)
        self._waiting: list[np.ndarray] = []
        self._waits = 0
        self._counted = 0
        self._counts: np.ndarray | None = None

    def add(self, x: np.ndarray) -> None:
        """Count finite numbers.   x: f32[n], in a row"""
        self._waiting.append(x.view(np.uint16)[_UPPER::2].copy())
        self._waits += len(x)
        if self._waits >= _WAITING:
            self._count()

    def _count(self) -> None:
        if self._counted + self._waits > _MOST:
            self._to_bins()
        self._counted += self._waits
        halves = (
            self._waiting[0] if len(self._waiting) == 1 else np.concatenate([np.zeros(0, np.uint16), *self._waiting])
        )
        self._waiting, self._waits = [], 0
        for start in range(0, len(halves), _HALVES):
            np.add.at(self._halves, halves[start : start + _HALVES].astype(np.intp), np.uint32(1))

    def _to_bins(self) -> None:
        seen = np.flatnonzero(self._halves)
        bins = bin_of_bits((seen << 16).astype(np.uint32).view(np.int32))
        self._counts = np.zeros(BINS, np.int64) if self._counts is None else self._counts
        np.add.at(self._counts, bins, self._halves[seen].astype(np.int64))
        self._halves[:], self._counted = 0, 0

    def counts(self) -> np.ndarray:
        """How many lie in each bin, i64[BINS]."""
        self._count()
        self._to_bins()
        assert self._counts is not None, "_to_bins"
        return self._counts.copy()


def bin_of_bits(bits: Any, xp: Any = np) -> Any:
    """The bin of each number by its bits.   bits: i32[...] -> i32[...] in [0, BINS); xp: NumPy, or jax's"""
    leading = (bits & 0x7FFFFFFF) >> (23 - MANTISSA)
    place = xp.clip(leading - ((LOW + 127) << MANTISSA) + 1, 0, PER_SIGN)
    return PER_SIGN + xp.where(bits < 0, -place, place)
