"""Runs a quantized program and a float one together on data, and makes the report of what was added up."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.base.measure import Measure
from jfuse.ir.dims import Dim, substitute_value, symbol, symbols_of
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, Var
from jfuse.ir.states import first_states
from jfuse.ir.text import format_eqn
from jfuse.ir.types import DType
from jfuse.ir.walk import retype
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.quantization.data import CalibrationData, Item, SampleCall, calibration_items
from jfuse.quantization.real_numbers.numbers import real_const
from jfuse.running.in_litert import WHY, works_on_resources
from jfuse.running.over_samples import OverSamples, Together, samples_at_once, samples_for_quick
from jfuse.running.partition import hosted, integers_of
from jfuse.running.runner import running_notes, untraceable
from jfuse.tflite.names import equation_name
from jfuse.verification.quantization_noise.beside import Beside, Place, beside
from jfuse.verification.quantization_noise.figures import MOST, SUMS, added, decibels
from jfuse.verification.quantization_noise.report import QuantizeReport, TensorNoise


def measured(quantized: Program, floats: Program, data: CalibrationData) -> QuantizeReport:
    """The figures of each tensor of a quantized program, beside a float one that takes the same inputs.

    data: real numbers, as for calibration, for the float program. Calls that do not depend on each other run together,
    as one program of XLA that computes everything once; what jax cannot trace runs call by call.
    Raises JfuseError where signatures or inputs are others, or an item of the data does not fit.
    """
    started = time.perf_counter()
    for program in (quantized, floats):
        if any(map(works_on_resources, program.graphs())):
            raise JfuseError("this program cannot be measured equation by equation", found=WHY)
    both = {s.key: _Both(quantized, s, counterpart(floats, s)) for s in quantized.signatures}
    renamed = replace(floats, signatures=tuple(replace(b.floats, key=key) for key, b in both.items()))
    calls = 0
    for group in _groups(calibration_items(renamed, data), bool(quantized.states() or floats.states())):
        calls += len(group) * len(group[0])
        states = [{n: np.stack([a] * len(group)) for n, a in first_states(p).items()} for p in (quantized, floats)]
        for step in zip(*group, strict=True):
            both[step[0].key].run(step, states)
    ran = [b for b in both.values() if b.tallies]
    report = QuantizeReport("the quantized model", "the float model", calls=calls, backend=f"XLA on {_backend()}")
    report.tensors = [tensor for b in ran for tensor in b.tensors()]
    report.unmatched = [text for b in ran for text in b.unmatched()]
    report.notes = list(dict.fromkeys([*running_notes(quantized), *(note for b in ran for note in b.notes())]))
    report.program, report.reference_program = quantized, floats
    report.seconds = time.perf_counter() - started
    return report


def _backend() -> str:
    return str(jax.default_backend())


def counterpart(floats: Program, signature: Signature) -> Signature:
    """The float program's signature of the same key; its only one where both have one."""
    found = {s.key: s for s in floats.signatures}
    if signature.key in found:
        return found[signature.key]
    if len(found) == 1:
        return next(iter(found.values()))
    raise JfuseError(f"the float model has no signature {signature.key!r}", expected=f"one of {list(found)}")


def _groups(items: Iterable[Item], keeps: bool) -> Iterator[list[list[SampleCall]]]:
    """Rows of calls of one layout, which can run together.   keeps: whether calls of a row depend on each other"""
    rows: list[list[SampleCall]] = []
    for item in items:
        if not keeps:
            rows += [[call] for call in item.calls]
        elif item.goes_on and rows:
            rows[-1] += item.calls
        else:
            rows.append(list(item.calls))
    by_layout: dict[Any, list[list[SampleCall]]] = {}
    for row in rows:
        layout = tuple((c.key, tuple((n, a.shape, a.dtype) for n, a in c.inputs.items())) for c in row)
        by_layout.setdefault(layout, []).append(row)
    yield from by_layout.values()


@dataclass
class _Both:
    """One signature of the quantized program, with the float one, and what was added up so far."""

    program: Program
    quantized: Signature
    floats: Signature
    tallies: list[np.ndarray] = field(default_factory=list)

    def __post_init__(self) -> None:
        quantized, floats = self.quantized, replace(self.floats, graph=apart(self.floats.graph))
        if len(quantized.input_names) != len(floats.input_names):
            raise JfuseError(
                f"signature {quantized.key!r} takes other inputs than the float model",
                expected=list(floats.input_names),
                found=list(quantized.input_names),
            )
        self._integers = integers_of(self.program.graphs())
        self._both: Beside = beside(quantized.graph, floats.graph, _known(quantized, floats), self._integers)
        self._graph = hosted(self._both.graph, singly=True, integers=self._integers)
        most = samples_at_once(self._graph, jax.default_backend())
        why_not = untraceable(self._graph)
        make = partial(OverSamples.of_graph, self._graph, most=most, quick=samples_for_quick(self._graph))
        self._together = None if why_not else Together(make)

    def run(self, calls: Sequence[SampleCall], states: Sequence[dict[str, np.ndarray]]) -> None:
        """One call of each row.   states: of the quantized and the float program, which go on"""
        inputs = [np.stack([call.inputs[name] for call in calls]) for name in self.floats.input_names]
        kept = [[state.name for state in s.states] for s in (self.quantized, self.floats)]
        given = [*inputs, *(states[1][n] for n in kept[1]), *(states[0][n] for n in kept[0])]
        given = given or [np.zeros(len(calls), np.int8)]  # a signature without inputs
        found = None if self._together is None else self._together.run(given)
        if found is None:
            found = _one_by_one(self._graph, given, len(calls))
        ends = np.cumsum([len(s.graph.outputs) for s in (self.quantized, self.floats)])
        for program, (names, end) in enumerate(zip(kept, ends, strict=True)):
            states[program].update(zip(names, found[end - len(names) : end], strict=True))
        of_calls = np.stack(found[ends[-1] :], 1) if len(found) > ends[-1] else np.zeros((len(calls), 0, 0))
        self.tallies.append(added(list(of_calls)))

    def tensors(self) -> Iterator[TensorNoise]:
        """The figures of each tensor."""
        for place, tally in zip(self._both.places, added(self.tallies), strict=True):
            yield _tensor(self.quantized.key, place, dict(zip((*SUMS, *MOST), tally.tolist(), strict=True)))

    def unmatched(self) -> Iterator[str]:
        """Describe the equations without figures."""
        for eqn in self._both.unknown:
            yield f"{eqn.op.name} {_tensor_name(eqn, 0)}: the float model has no value that it stands for"
        for eqn in self._both.hidden:
            yield f"{eqn.op.name} {_tensor_name(eqn, 0)}: its insides, which do not run beside those of the float model"

    def notes(self) -> Iterator[str]:
        """Say where the run differs from the usual one."""
        if self._together is None or self._together.why_not:
            reason = untraceable(self._graph) or (self._together and self._together.why_not)
            yield f"ran call by call: {reason}"
        count = sum(not place.is_paired for place in self._both.places)
        if count:
            yield f"{count} tensors (marked *) have no counterpart in the float model: its values near them stand in"


def apart(graph: Graph) -> Graph:
    """The graph with values, and names of open dimensions, of its own: both graphs may have been made of one."""
    values = (*graph.inputs, *(v for eqn in graph.eqns for v in eqn.outputs))
    names = {name for v in values for d in v.type.shape for name in symbols_of(d)}
    sizes: dict[str, Dim] = {name: symbol(f"{name}_float") for name in names}
    return retype(graph, lambda t: t.substitute(sizes), lambda value: substitute_value(value, sizes))


def _known(quantized: Signature, floats: Signature) -> list[tuple[Var, Var]]:
    """The inputs that stand for each other: by name, else by position."""
    names = quantized.input_names
    order = names if set(names) == set(floats.input_names) else floats.input_names
    theirs = dict(zip(floats.input_names, floats.graph.inputs, strict=False))
    return [(q, theirs[name]) for q, name in zip(quantized.graph.inputs, order, strict=False)]


def _one_by_one(graph: Graph, arrays: Sequence[np.ndarray], count: int) -> list[np.ndarray]:
    with jax.enable_x64(True), jax.default_matmul_precision("highest"):
        given = arrays if graph.inputs else []
        rows = [[np.asarray(r) for r in evaluate(graph, [a[n] for a in given])] for n in range(count)]
    return [np.stack(column) for column in zip(*rows, strict=True)]


def _tensor(key: str, place: Place, sums: Mapping[str, float]) -> TensorNoise:
    eqn, var = place.eqn, place.eqn.outputs[place.result]
    count = max(sums["count"], 1.0)
    snr = decibels(sums["signal"], sums["noise"])
    lengths = float(np.sqrt(sums["signal"] * sums["power"]))
    largest, worst = max(sums["largest"], 0.0), max(sums["worst"], 0.0)
    relative = worst / largest if largest else float("inf") if worst else 0.0
    cosine = sums["product"] / lengths if lengths else float(not sums["noise"])
    return TensorNoise(
        key,
        place.path,
        place.result,
        eqn.op.name,
        _tensor_name(eqn, place.result),
        str(var.type),
        str((place.twin or eqn).source),
        format_eqn(eqn),
        snr,
        sums["noise"] / count,
        decibels(sums["own_signal"], sums["own_noise"]),
        sums["own_noise"] / count,
        sums["clipped"] / count,
        _utilisation(var, sums),
        _weights(eqn, place.twin),
        place.is_paired,
        Measure(worst, relative, float("nan"), cosine, snr),
    )


def _utilisation(var: Var, sums: Mapping[str, float]) -> float | None:
    if not is_quantized(var.type) or sums["count"] == 0:
        return None
    info = np.iinfo(var.type.dtype.numpy)
    return (sums["highest"] + sums["lowest"]) / (float(info.max) - float(info.min))


def _weights(eqn: Eqn, twin: Eqn | None) -> float | None:
    """The least SNR of constants that are kept in few bits."""
    pairs = [] if twin is None else [p for p in zip(eqn.inputs, twin.inputs, strict=True) if _are_weights(*p)]
    found = []
    for mine, theirs in pairs:
        assert isinstance(mine, Const), "_are_weights"
        assert isinstance(theirs, Const), "_are_weights"
        wanted = theirs.array.astype(np.float64)
        found.append(decibels(float(np.square(wanted).sum()), float(np.square(real_const(mine).array - wanted).sum())))
    return min(found, default=None)


def _are_weights(mine: Atom | None, theirs: Atom | None) -> bool:
    if not isinstance(mine, Const) or not isinstance(theirs, Const):
        return False
    is_bias = mine.type.dtype in (DType.i32, DType.i64)  # which has been changed to make up for the weights
    return is_quantized(mine.type) and not is_bias and theirs.type.dtype.is_float and mine.shape == theirs.shape


def _tensor_name(eqn: Eqn, result: int) -> str:
    name = eqn.outputs[result].name or equation_name(eqn)
    return name if result == 0 or eqn.outputs[result].name else f"{name}:{result}"
