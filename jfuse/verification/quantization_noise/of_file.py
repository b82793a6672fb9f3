"""The signal-to-noise ratio of a quantized file against the float model, for each output, in LiteRT."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.ir.graph import Program
from jfuse.quantization.data import CalibrationData, Item, calibration_items
from jfuse.quantization.statistics import is_earlier
from jfuse.records.conversion import Noise
from jfuse.running.over_samples import samples_for_quick
from jfuse.running.programs.device import Device
from jfuse.verification.file_answers import (
    InFile,
    Start,
    Streaming,
    answers,
    in_litert,
    interpreters,
    litert_takes,
    unknown_operators,
)
from jfuse.verification.joined_parts import JoinedPart, joined_parts
from jfuse.verification.several_sizes import need_same_at_sizes

_ITEMS = 32  # of the calibration data, so that a large data set does not make a conversion slow
_UNRELATED_DB = 0.0
"""An answer of zeros has an SNR of 0 dB: at that level the file has lost the model's signal."""


@dataclass
class _Sums:
    """Sums for one output: power of signal and noise, count of integers and of equal ones.

    finite: how many numbers of the model's are compared. largest: of these. farthest: the largest difference.
    """

    signal: float = 0.0
    largest: float = 0.0
    farthest: float = 0.0
    noise: float = 0.0
    count: int = 0
    equal: int = 0
    finite: int = 0
    is_float: bool = True

    def add(self, found: np.ndarray, wanted: np.ndarray) -> None:
        """Another call."""
        self.count += wanted.size
        self.is_float = wanted.dtype.kind in "fV"
        if not self.is_float:
            self.equal += int(np.sum(found == wanted))
            return
        finite = np.isfinite(wanted)
        numbers = wanted[finite].astype(np.float64)
        self.finite += numbers.size
        self.signal += float(np.square(numbers).sum())
        apart = found[finite] - numbers
        self.noise += float(np.square(apart).sum())
        self.largest = max(self.largest, float(np.abs(numbers).max(initial=0)))
        self.farthest = max(self.farthest, float(np.abs(apart).max(initial=0)))

    @property
    def error(self) -> float:
        """The largest difference by the largest number; of integers the share that differs."""
        if not self.is_float:
            return 1 - self.equal / self.count if self.count else 0.0
        return self.farthest / self.largest if self.largest else (np.inf if self.farthest else 0.0)

    @property
    def snr_db(self) -> float:
        """10 log10 of the power of the signal over that of the noise; of integers the share that is equal counts."""
        signal, noise = (self.signal, self.noise) if self.is_float else (self.count, self.count - self.equal)
        if not noise:
            is_told = self.finite or not self.count or not self.is_float
            return float("inf" if is_told else "-inf")
        return float(10 * np.log10(signal / noise)) if signal else float("-inf")


def noise_of(
    lite: Streaming, unquantized: Streaming, data: CalibrationData, device: Device | None = None
) -> list[Noise]:
    """The SNR of each output of a quantized file in LiteRT against the float model on XLA, with XNNPACK and without it.

    Of an output that is joined of several values, that of each of them, too.
    A file with types that LiteRT's kernels do not take runs in tflite-micro, where that is installed.
    data: as for calibration; its first items are used, in rows of calls with their states. None, and
        statistics of an earlier calibration, mean drawn inputs.
    device: where LiteRT runs the file as well.
    Raises VerifyFailed where an output is not a number, or has nothing to do with the float model's, and where a call
    answers otherwise after one of another size.
    """
    runtimes = interpreters(lite.program, device)
    if not runtimes:
        return []
    source = "random" if data is None or is_earlier(data) else data
    items = list(islice(calibration_items(unquantized.program, source), _ITEMS))
    try:
        noise = _noise_in(runtimes, lite, unquantized, items)
    except VerifyFailed:
        taken = _taken_in_floats(unquantized, items) if source == "random" else []
        if not taken or len(taken) == len(items):
            raise
        noise = _noise_in(runtimes, lite, unquantized, taken)
    _check(noise)
    if litert_takes(lite.program):
        need_same_at_sizes(lite, unquantized, runtimes)
    return noise


def _noise_in(
    runtimes: Mapping[str, Start], lite: Streaming, unquantized: Streaming, items: Sequence[Item]
) -> list[Noise]:
    expected = list(answers(unquantized.stream(quick=_is_quick(unquantized.program, items)), items))
    return [n for where, start in runtimes.items() for n in noise_in(lite, where, start, items, expected)]


def _taken_in_floats(unquantized: Streaming, items: Sequence[Item]) -> list[Item]:
    """The items that LiteRT accepts for the float file; after a refused one it starts from the initial states.

    Drawn rows ignore limits, such as a cache that is full after some steps.
    """
    calls, taken, is_anew = InFile(unquantized, in_litert), list[Item](), False
    for item in items:
        tried = replace(item, goes_on=item.goes_on and not is_anew)
        try:
            for _ in answers(calls, [tried]):
                pass
        except VerifyFailed:
            is_anew = True
        else:
            taken.append(tried)
            is_anew = False
    return taken


def noise_in(
    lite: Streaming, where: str, start: Start, items: Iterable[Item], wanted: Iterable[tuple[str, Mapping[str, Any]]]
) -> list[Noise]:
    """The SNR of each output of a file in one runtime.   wanted: the float model's answers, as `answers` gives them"""
    parts = joined_parts(lite.program)
    sums: dict[tuple[str, str, JoinedPart | None], _Sums] = {}
    for (key, got), (_, reference) in zip(answers(InFile(lite, start), items), wanted, strict=True):
        for name, array in reference.items():
            sums.setdefault((key, name, None), _Sums()).add(got[name], array)
            for part in parts.get((key, name), ()):
                sums.setdefault((key, name, part), _Sums()).add(got[name][part.index], array[part.index])
    return [
        Noise(key, name, s.snr_db, s.count, where, str(part or ""), s.error) for (key, name, part), s in sums.items()
    ]


def unmeasured(program: Program) -> list[str]:
    """The note that a file was not run because of operators that LiteRT does not know; none for other files."""
    unknown = sorted(unknown_operators(program))
    return [f"the quantized file was not run: LiteRT has no kernel for {', '.join(unknown)}"] if unknown else []


def _is_quick(program: Program, items: Sequence[Item]) -> bool:
    """Whether the items are few enough for a program that is compiled soon and runs slowly."""
    return sum(len(item.calls) for item in items) <= min(map(samples_for_quick, program.graphs()))


def _check(found: Sequence[Noise]) -> None:
    """Raise VerifyFailed for the worst output where it says nothing of the model's."""
    whole = [n for n in found if not n.part]
    wrong = [n for n in whole if np.isnan(n.snr_db) or -np.inf < n.snr_db <= _UNRELATED_DB]  # -inf: nothing to tell
    if not wrong:
        return
    worst = min(wrong, key=lambda n: -np.inf if np.isnan(n.snr_db) else n.snr_db)
    raise VerifyFailed(
        f"the quantized file does not answer like the model: output {worst.output!r} of {worst.signature!r}",
        expected=f"an SNR above {_UNRELATED_DB:.0f} dB, which an answer of zeros has",
        found=f"{worst.snr_db:.1f} dB in {worst.where}",
        remedy="calibration with inputs like those that the model will see, more bits (quantize='int16x8'), or a rule "
        "of mode 'float' for the operators that need their precision",
    )
