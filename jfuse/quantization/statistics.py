"""`Statistics`: calibration statistics of each value, from which ranges are computed."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, shown
from jfuse.base.files import write_atomic
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Program, Var
from jfuse.quantization.histogram import BINS
from jfuse.quantization.npz import npz_arrays
from jfuse.quantization.ranges import extrapolated, least_divergence, least_error, percentile
from jfuse.quantization.recipe import RANGE_ALGORITHMS
from jfuse.quantization.value_keys import program_digest, value_keys, value_source

NEED_HISTOGRAMS = ("percentile", "mse", "entropy")
"""Algorithms that take a range from a histogram; the others need the extremes of each call alone."""
_SMOOTHING = 0.95  # what one call leaves of the average before it; as ai-edge-quantizer's

_FEW_CALLS = 2  # from which on calls tell how their extremes spread

_FORM = 1  # of the file


@dataclass(frozen=True)
class Observed:
    """One value to watch.

    var: a value of a graph or of a body; or the first result of a fused op, whose `part` is observed.
    part: "" for the value itself, else one of the op's `parts`, over all steps: "cell", "hidden", "input_gate", ….
    """

    var: Var
    part: str = ""


@dataclass(frozen=True)
class Record:
    """Statistics of one value.

    extremes: over all calls, of the finite numbers. average: moving sums over the calls of least numbers, greatest
        numbers and weights; the newest call weighs 1. calls: how many had a finite number. not_finite: calls with NaNs
        or infinities. counts: i64[BINS], None where no histogram was asked for. moments: f64, as `Moments` has them,
        None where they were not asked for.
    """

    extremes: tuple[float, float] = (np.inf, -np.inf)
    average: tuple[float, float, float] = (0.0, 0.0, 0.0)
    calls: int = 0
    not_finite: int = 0
    counts: np.ndarray | None = None
    moments: np.ndarray | None = None

    @property
    def is_zero(self) -> bool:
        """Whether nothing but 0 was seen."""
        return self.calls > 0 and self.extremes == (0.0, 0.0)

    @classmethod
    def of_calls(
        cls, low: np.ndarray, high: np.ndarray, not_finite: np.ndarray, counts: np.ndarray | None = None
    ) -> Record:
        """The record of calls in a row.   low, high: f[n], of each call; not_finite: bool[n]; counts: of all of them

        A call in which the value did not occur, or had no finite number, has low > high.
        """
        seen = low <= high
        lows, highs = low[seen].astype(np.float64), high[seen].astype(np.float64)
        weights = _SMOOTHING ** np.arange(len(lows))[::-1]
        return cls(
            (float(lows.min(initial=np.inf)), float(highs.max(initial=-np.inf))),
            (float(weights @ lows), float(weights @ highs), float(weights.sum())),
            int(seen.sum()),
            int(not_finite.sum()),
            counts,
        )

    def then(self, later: Record) -> Record:
        """The record of the calls of both, one after the other; without a histogram where one of them took none."""
        left = _SMOOTHING**later.calls
        is_whole = all(record.counts is not None or not record.calls for record in (self, later))
        return Record(
            (min(self.extremes[0], later.extremes[0]), max(self.extremes[1], later.extremes[1])),
            tuple(a * left + b for a, b in zip(self.average, later.average, strict=True)),  # type: ignore[arg-type]
            self.calls + later.calls,
            self.not_finite + later.not_finite,
            _sum(self.counts, later.counts) if is_whole else None,
            _sum(self.moments, later.moments),
        )


def _sum(one: np.ndarray | None, other: np.ndarray | None) -> np.ndarray | None:
    return other if one is None else one if other is None else one + other


@dataclass
class Statistics:
    """Calibration statistics by `Observed`; saved, loaded and merged by stable keys.

    program: of these values. records: by key. untrusted: the reason not to trust them; "" if there is none.
    """

    program: Program
    records: Mapping[str, Record] = field(default_factory=dict)
    untrusted: str = ""

    def __post_init__(self) -> None:
        self._keys = value_keys(self.program)

    def key(self, what: Observed) -> str:
        """The key of a value in `records` and in files."""
        if what.var not in self._keys:
            raise JfuseError("the program that was calibrated has no such value", found=repr(what.var))
        return self._keys[what.var] + (f"#{what.part}" if what.part else "")

    def record(self, what: Observed) -> Record:
        """The record of a value; an empty one if the value was never observed."""
        return self.records.get(self.key(what), Record())

    def seen(self, what: Observed) -> bool:
        """Whether the value had a finite number in some call."""
        return self.record(what).calls > 0

    def range(
        self,
        what: Observed,
        algorithm: str = "minmax",
        *,
        bits: int = 8,
        symmetric: bool = False,
        percent: float = 99.99,
    ) -> tuple[float, float]:
        """The range of a value, not widened to include 0.

        algorithm: "minmax" of all calls; "extrapolated", which goes beyond these where few numbers were seen, but for
        inputs of the program, as `ranges.extrapolated` has it; "moving_average" of the extremes of each call, of which
        the newest weigh most; "percentile", which leaves `100 - percent` per cent out on either side; "mse", the least
        mean squared error of steps of so many bits; "entropy", the least divergence of their distribution.
        symmetric: for "mse", as many steps on either side of 0.
        Raises JfuseError where the value was never seen, or an algorithm needs a histogram that was not taken.
        """
        record = self.record(what)
        if algorithm not in RANGE_ALGORITHMS:
            raise JfuseError(f"no calibration algorithm {algorithm!r}", expected=f"one of {list(RANGE_ALGORITHMS)}")
        if not record.calls:
            raise JfuseError("calibration never saw this value", where=value_source(self.program, what.var))
        is_final = what.var in self._given or record.calls < _FEW_CALLS
        if algorithm == "minmax" or (algorithm == "extrapolated" and is_final):
            return record.extremes
        low, high, weight = record.average
        averages = low / weight, high / weight
        if algorithm == "moving_average":
            return averages
        if algorithm == "extrapolated":
            size = prod(int(d) for d in what.var.type.shape if is_known(d))
            return extrapolated(record.extremes, averages, record.calls, size, bits)
        if record.counts is None:
            raise JfuseError(
                f"{algorithm} needs a histogram",
                where=value_source(self.program, what.var),
                found="extremes only",
                remedy="calibrate again with this recipe, or with the value in histograms= of calibrate",
            )
        if algorithm == "percentile":
            return percentile(record.counts, record.extremes, percent)
        if algorithm == "mse":
            return least_error(record.counts, record.extremes, bits, symmetric)
        return least_divergence(record.counts, record.extremes, bits)

    @cached_property
    def _given(self) -> frozenset[Var]:
        """The inputs of signatures, without states: the calibration data define their ranges."""
        return frozenset(v for s in self.program.signatures for v in s.graph.inputs[: len(s.input_names)])

    def notes(self) -> Iterator[str]:
        """Yield warnings about the data: random inputs, inputs of zeros, NaNs and infinities."""
        if self.untrusted:
            yield f"the calibration is not to be trusted: {self.untrusted}"
        zero_inputs = sorted(value_source(self.program, v) for v in self._given if self.record(Observed(v)).is_zero)
        yield from (f"{source} was zero in every calibration call, so its range is unknown" for source in zero_inputs)
        vars_of = {key: var for var, key in self._keys.items()}
        bad = [key for key, record in self.records.items() if record.not_finite]
        for key in bad[:3]:
            source = value_source(self.program, vars_of[key.partition("#")[0]])
            calls = self.records[key].not_finite
            yield f"in {calls} calls of the calibration {source} had NaNs or infinities, which its range leaves out"
        if len(bad) > 3:
            yield f"so had {len(bad) - 3} more values"

    def of(self, program: Program) -> Statistics:
        """These statistics for another object of the same program: one that was lowered anew, for one."""
        self._same_program(program_digest(program), "the program")
        return replace(self, program=program)

    def where_whole(
        self,
        program: Program,
        observed: Iterable[Observed],
        histograms: Iterable[Observed],
        moments: Iterable[Observed],
    ) -> Statistics | None:
        """These statistics for another object of the same program, if they cover all observed values; else None.

        observed, histograms, moments: as `calibrate` has them.
        """
        if program_digest(program) != program_digest(self.program):
            return None
        again = replace(self, program=program)
        counted, summed = ([again.record(what) for what in whats] for whats in (histograms, moments))
        is_whole = (
            all(again.key(what) in self.records for what in observed)
            and all(record.counts is not None for record in counted)
            and all(record.moments is not None for record in summed)
        )
        return again if is_whole else None

    def merge(self, other: Statistics) -> Statistics:
        """Merge two calibrations of one program, the other's calls after these."""
        self._same_program(program_digest(other.program), "the other statistics")
        keys = dict.fromkeys((*self.records, *other.records))
        merged = {k: self.records.get(k, Record()).then(other.records.get(k, Record())) for k in keys}
        return replace(self, records=merged, untrusted=self.untrusted or other.untrusted)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the statistics to an .npz file, without a pickle in it."""
        keys, records = list(self.records), list(self.records.values())
        counts = [(i, r.counts) for i, r in enumerate(records) if r.counts is not None]
        filled = [np.flatnonzero(c) for _, c in counts]
        moments = {i: r.moments for i, r in enumerate(records) if r.moments is not None}
        of_products: dict[str, Any] = {f"moments_{i}": m for i, m in moments.items()}
        buffer = io.BytesIO()
        np.savez_compressed(
            buffer,
            form=np.int64(_FORM),
            program=np.array(program_digest(self.program)),
            untrusted=np.array(self.untrusted),
            keys=np.array(keys, np.str_),
            extremes=np.array([r.extremes for r in records], np.float64).reshape(-1, 2),
            average=np.array([r.average for r in records], np.float64).reshape(-1, 3),
            calls=np.array([(r.calls, r.not_finite) for r in records], np.int64).reshape(-1, 2),
            histograms=np.array([i for i, _ in counts], np.int64),
            histogram_sizes=np.array([len(f) for f in filled], np.int64),
            moments=np.array(list(moments), np.int64),
            **of_products,
            bins=_joined(filled),
            counts=_joined(c[f] for (_, c), f in zip(counts, filled, strict=True)),
        )
        write_atomic(path, buffer.getvalue())

    @classmethod
    def load(cls, path: str | os.PathLike[str], program: Program) -> Statistics:
        """Read what `save` wrote. Raises JfuseError where the file is none, or is of another program."""
        arrays = npz_arrays(path)
        try:
            records = dict(zip(map(str, arrays["keys"]), _records(arrays), strict=True))
            digest, form = str(arrays["program"]), int(arrays["form"])
            loaded = cls(program, records, str(arrays["untrusted"]))
        except (ValueError, KeyError, IndexError) as error:
            raise JfuseError(f"{path} cannot be read as statistics of a calibration", found=str(error)) from error
        if form != _FORM:
            raise JfuseError(f"{path} is of another version", expected=_FORM, found=form, remedy="calibrate again")
        loaded._same_program(digest, str(path))
        return loaded

    def _same_program(self, digest: str, what: str) -> None:
        own = program_digest(self.program)
        if digest != own:
            raise JfuseError(
                f"{what}: of another program",
                expected=f"digest {own}",
                found=digest,
                remedy="calibrate again: operators, types or weights are others",
            )


def earlier_statistics(data: Any, program: Program) -> Statistics | None:
    """Merge statistics of earlier calibrations, in order; None if the data are no statistics.

    data: as `is_earlier` has it. Raises JfuseError where statistics are of another program, or stand beside other data.
    """
    if not is_earlier(data):
        return None
    parts = (d.of(program) if isinstance(d, Statistics) else Statistics.load(d, program) for d in _each(data))
    return reduce(Statistics.merge, parts)


def is_earlier(data: Any) -> bool:
    """Whether data are statistics: an object, its file, a folder of such files, or a list of any of these.

    Raises JfuseError for a list of statistics and something else.
    """
    kinds = [isinstance(d, Statistics) or (_is_path(d) and is_statistics(d)) for d in _each(data)]
    if any(kinds) and not all(kinds):
        other = _each(data)[kinds.index(False)]
        raise JfuseError("statistics replace all calibration data", found=f"{shown(other)} beside them")
    return any(kinds)


def _each(data: Any) -> list[Any]:
    """The parts of data that may be statistics: of a list or a folder of .npz files each one, else the data."""
    if isinstance(data, list | tuple):
        return [each for part in data for each in ([part] if not _is_folder(part) else _each(part))]
    return sorted(Path(data).glob("*.npz")) if _is_folder(data) else [data]


def _is_path(data: Any) -> bool:
    return isinstance(data, str | os.PathLike) and Path(data).is_file()


def _is_folder(data: Any) -> bool:
    return isinstance(data, str | os.PathLike) and Path(data).is_dir()


def is_statistics(path: str | os.PathLike[str]) -> bool:
    """Whether `Statistics.save` wrote a file, judged by the names in it."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:  # the arrays of what is none may be large
        return {"form.npy", "program.npy", "keys.npy", "extremes.npy"} <= set(archive.namelist())


def _joined(arrays: Iterable[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *arrays]).astype(np.int64)


def _records(arrays: Mapping[str, np.ndarray]) -> Iterator[Record]:
    starts = np.concatenate([[0], np.cumsum(arrays["histogram_sizes"])])
    rows = {int(i): n for n, i in enumerate(arrays["histograms"])}
    moments = {int(i): np.asarray(arrays[f"moments_{i}"], np.float64) for i in arrays.get("moments", ())}
    for i in range(len(arrays["keys"])):
        counts = None
        if i in rows:
            part = slice(starts[rows[i]], starts[rows[i] + 1])
            counts = np.zeros(BINS, np.int64)
            counts[arrays["bins"][part]] = arrays["counts"][part]
        low, high = map(float, arrays["extremes"][i])
        summed = arrays["average"][i].tolist()
        calls, not_finite = map(int, arrays["calls"][i])
        yield Record((low, high), (summed[0], summed[1], summed[2]), calls, not_finite, counts, moments.get(i))
