"""The signal-to-noise ratio of a quantized file against the float model, for each output, in LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Protocol

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.walk import all_eqns
from jfuse.limits import DEFAULT_LIMITS
from jfuse.quantization.data import CalibrationData, Item, calibration_items
from jfuse.quantization.real_numbers import as_integers, as_real
from jfuse.quantization.statistics import is_earlier
from jfuse.report import Noise
from jfuse.running.interpreter import LiteRt
from jfuse.running.micro import has_micro
from jfuse.running.over_samples import samples_for_quick
from jfuse.tflite.runtime.table import quantized_of
from jfuse.verification.runners.in_micro import InMicro
from jfuse.verification.subject import Calls

_ITEMS = 32  # of the calibration data, so that a large data set does not make a conversion slow
_UNRELATED_DB = 0.0
"""An answer of zeros has an SNR of 0 dB: at that the file says nothing of what the model says."""
Run = Callable[[str, dict[str, np.ndarray]], dict[str, np.ndarray]]
"""Runs a signature of a file."""


def _in_litert(data: bytes, delegates: bool) -> Run:
    return LiteRt(data, delegates=delegates, limits=DEFAULT_LIMITS).run


def _in_micro(data: bytes, program: Program) -> Run:
    calls = InMicro(data, program).start()  # its process ends with it
    return lambda key, inputs: calls.run(inputs, key)


_LITERT: Mapping[str, Callable[[bytes], Run]] = {
    "LiteRT": partial(_in_litert, delegates=True),
    "LiteRT without XNNPACK": partial(_in_litert, delegates=False),
}


class Streaming(Protocol):
    """A model that computes, with a file."""

    program: Program

    def stream(self, *, quick: bool = False) -> Calls:
        """Calls in a row on XLA; `quick` compiles fast for few calls."""

    def to_bytes(self) -> bytes:
        """The bytes of the model's .tflite file."""


@dataclass
class _Sums:
    """What is added up for one output: the powers of signal and noise; how many integers there are, and are equal.

    finite: how many numbers of the model's are compared.
    """

    signal: float = 0.0
    noise: float = 0.0
    count: int = 0
    equal: int = 0
    finite: int = 0
    is_float: bool = True

    def add(self, found: np.ndarray, wanted: np.ndarray) -> None:
        """Another call."""
        self.count += wanted.size
        self.is_float = wanted.dtype.kind == "f"
        if not self.is_float:
            self.equal += int(np.sum(found == wanted))
            return
        finite = np.isfinite(wanted)
        numbers = wanted[finite].astype(np.float64)
        self.finite += numbers.size
        self.signal += float(np.square(numbers).sum())
        self.noise += float(np.square(found[finite] - numbers).sum())

    @property
    def snr_db(self) -> float:
        """10 log10 of the power of the signal over that of the noise; of integers the share that is equal counts."""
        signal, noise = (self.signal, self.noise) if self.is_float else (self.count, self.count - self.equal)
        if not noise:
            is_told = self.finite or not self.count or not self.is_float
            return float("inf" if is_told else "-inf")
        return float(10 * np.log10(signal / noise)) if signal else float("-inf")


def litert_takes(program: Program) -> bool:
    """Whether LiteRT's kernels take the types of activations; those of other runtimes may take more."""
    return all(map(_litert_takes, (eqn for graph in program.graphs() for eqn in all_eqns(graph))))


def _litert_takes(eqn: Eqn) -> bool:
    row, x = quantized_of(eqn.op.builtin), eqn.inputs[0] if eqn.inputs else None
    is_recurrence = row.recurrence is not None and row.integers is not None and x is not None
    return not is_recurrence or x.type.quantization is None or x.type.dtype in row.integers.types  # type: ignore[union-attr]


def _interpreters(program: Program) -> Mapping[str, Callable[[bytes], Run]]:
    """What runs a program's file, by name; none where the runtime that takes it is not installed."""
    return (
        _LITERT
        if litert_takes(program)
        else {"tflite-micro": partial(_in_micro, program=program)}
        if has_micro()
        else {}
    )


def noise_of(lite: Streaming, unquantized: Streaming, data: CalibrationData) -> list[Noise]:
    """The SNR of each output of a quantized file in LiteRT against the float model on XLA, with XNNPACK and without it.

    A file with types that LiteRT's kernels do not take runs in tflite-micro, where that is installed.
    data: as for calibration; its first items are used, calls in a row with what is kept between them. None, and
        statistics of an earlier calibration, stand for drawn inputs.
    Raises VerifyFailed where an output is not a number, or has nothing to do with the float model's.
    """
    given = "random" if data is None or is_earlier(data) else data
    items = list(islice(calibration_items(unquantized.program, given), _ITEMS))
    wanted = list(_answers(unquantized.stream(quick=_is_quick(unquantized.program, items)), items))
    found: list[Noise] = []
    for where, start in _interpreters(lite.program).items():
        stream = _InFile(lite, start)
        sums: dict[tuple[str, str], _Sums] = {}
        for (key, got), (_, reference) in zip(_answers(stream, items), wanted, strict=True):
            for name, array in reference.items():
                sums.setdefault((key, name), _Sums()).add(got[name], array)
        found += [Noise(key, name, s.snr_db, s.count, where) for (key, name), s in sums.items()]
    _check(found)
    return found


def file_answers(lite: Streaming, calls: Iterable[Mapping[str, np.ndarray]]) -> Iterator[Mapping[str, np.ndarray]]:
    """The outputs of a file's first signature in LiteRT, as real numbers, for each of these calls."""
    stream, key = _InFile(lite, _LITERT["LiteRT"]), lite.program.signatures[0].key
    for inputs in calls:
        yield stream.run(inputs, key)


def _is_quick(program: Program, items: Sequence[Item]) -> bool:
    """Whether the items are few enough for a program that is compiled soon and runs slowly."""
    return sum(len(item.calls) for item in items) <= min(map(samples_for_quick, program.graphs()))


def _answers(calls: Calls, items: Iterable[Item]) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    """The outputs of each call, with its signature."""
    found: Mapping[str, np.ndarray] = {}
    for item in items:
        if not item.goes_on:
            calls.reset()
            found = {}
        for call in item.calls:
            found = calls.run(call.after(found), call.key)
            yield call.key, found


def _check(found: Sequence[Noise]) -> None:
    """Raise VerifyFailed for the worst output where it says nothing of the model's."""
    wrong = [n for n in found if np.isnan(n.snr_db) or -np.inf < n.snr_db <= _UNRELATED_DB]  # -inf: nothing to tell
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


@dataclass
class _InFile:
    """A file in an interpreter that takes and gives real numbers, whatever the types of its inputs and outputs."""

    lite: Streaming
    start: Callable[[bytes], Run]
    states: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._data = self.lite.to_bytes()
        self._inputs, self._outputs = {}, {}
        for s in self.lite.program.signatures:
            self._inputs[s.key] = {n: v.type for n, v in zip(s.input_names, s.graph.inputs, strict=False)}
            self._outputs[s.key] = {n: a.type for n, a in zip(s.output_names, s.graph.outputs, strict=False)}
        self.reset()

    def reset(self) -> None:
        """Another interpreter, with all states as they are at first."""
        self._run = self.start(self._data)

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of a signature as real numbers."""
        assert key is not None, "a call says its signature"
        given = {name: as_integers(array, self._inputs[key][name]) for name, array in inputs.items()}
        found = self._run(key, given)
        return {name: as_real(array, self._outputs[key][name].quantization) for name, array in found.items()}
