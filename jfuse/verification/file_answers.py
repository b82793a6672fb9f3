"""Run a quantized file in its runtime and dequantize its outputs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import numpy as np

from jfuse.base.limits import DEFAULT_LIMITS
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.walk import all_eqns
from jfuse.opaque_ops.custom_options import LITERT_OPS, XNNPACK_OPS
from jfuse.quantization.data import Item
from jfuse.quantization.real_numbers.boundaries import Boundaries
from jfuse.running.interpreter import LiteRt
from jfuse.running.loaded_file import asked
from jfuse.running.micro import has_micro
from jfuse.running.programs.device import Device
from jfuse.tflite.runtime.table import quantized_of
from jfuse.verification.runners.in_micro import InMicro
from jfuse.verification.subject import Calls

Run = Callable[[str, dict[str, np.ndarray]], dict[str, np.ndarray]]
"""Runs a signature of a file."""
Start = Callable[[bytes], Run]
"""Starts a runtime on a file."""


def _in_litert(data: bytes, *, delegates: bool, device: Device | None = None) -> Run:
    return LiteRt(data, delegates=delegates, limits=DEFAULT_LIMITS, device=device).run


def _in_micro(data: bytes, program: Program) -> Run:
    calls = InMicro(data, program).start()  # its process ends with it
    return lambda key, inputs: calls.run(inputs, key)


in_litert: Start = partial(_in_litert, delegates=True)
"""LiteRT with its default delegates."""
_IN_LITERT: Mapping[str, Start] = {
    "LiteRT": in_litert,
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
class InFile:
    """A file in an interpreter that takes and gives real numbers, whatever the types of its inputs and outputs."""

    lite: Streaming
    start: Start
    states: Mapping[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._data = self.lite.to_bytes()
        self._keeps = bool(self.lite.program.states())
        self._boundaries = Boundaries(self.lite.program)
        self._run = self.start(self._data)

    def reset(self) -> None:
        """Go back to the initial states: another interpreter, where the file keeps anything."""
        if self._keeps:
            self._run = self.start(self._data)

    def run(self, inputs: Mapping[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of a signature as real numbers."""
        assert key is not None, "a call says its signature"
        return self._boundaries.real(key, self._run(key, self._boundaries.integers(key, inputs)))


def litert_takes(program: Program) -> bool:
    """Whether LiteRT's kernels take the types of activations; those of other runtimes may take more."""
    return all(map(_litert_takes, (eqn for graph in program.graphs() for eqn in all_eqns(graph))))


def _litert_takes(eqn: Eqn) -> bool:
    row, x = quantized_of(eqn.op), eqn.inputs[0] if eqn.inputs else None
    is_recurrence = row.recurrence is not None and row.integers is not None and x is not None
    return not is_recurrence or x.type.quantization is None or x.type.dtype in row.integers.types  # type: ignore[union-attr]


def interpreters(program: Program, device: Device | None = None) -> Mapping[str, Start]:
    """Functions that start an interpreter for a program's file, by name; empty if no installed runtime takes it.

    device: where LiteRT runs it as well.
    """
    if unknown_operators(program):
        return {}
    if not litert_takes(program):
        return {"tflite-micro": partial(_in_micro, program=program)} if has_micro() else {}
    needs_delegate = not _codes(program).isdisjoint(XNNPACK_OPS)
    starts = {name: start for name, start in _IN_LITERT.items() if start is in_litert or not needs_delegate}
    if device is not None:
        starts[f"LiteRT on {asked(device).name}"] = partial(_in_litert, delegates=True, device=device)
    return starts


def unknown_operators(program: Program) -> frozenset[str]:
    """The custom operators that LiteRT's default interpreter does not run."""
    return _codes(program) - LITERT_OPS


def _codes(program: Program) -> frozenset[str]:
    codes = (eqn.op.code for graph in program.graphs() for eqn in all_eqns(graph))
    return frozenset(code for code in codes if code is not None)


def answers(calls: Calls, items: Iterable[Item]) -> Iterator[tuple[str, Mapping[str, np.ndarray]]]:
    """The outputs of each call, with its signature."""
    outputs: Mapping[str, np.ndarray] = {}
    for item in items:
        if not item.goes_on:
            calls.reset()
            outputs = {}
        for call in item.calls:
            outputs = calls.run(call.after(outputs), call.key)
            yield call.key, outputs


def file_answers(lite: Streaming, calls: Iterable[Mapping[str, np.ndarray]]) -> Iterator[Mapping[str, np.ndarray]]:
    """The outputs of a file's first signature in LiteRT, as real numbers, for each of these calls."""
    stream, key = InFile(lite, in_litert), lite.program.signatures[0].key
    for inputs in calls:
        yield stream.run(inputs, key)
