"""`calibrate`: runs a program on the user's data, on XLA, and gives what its values were."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jfuse.errors import JfuseError
from jfuse.ir.evaluate import evaluate, large_constants, with_constants
from jfuse.ir.graph import Program, Signature
from jfuse.ir.states import distinct, first_states
from jfuse.ir.walk import all_graphs
from jfuse.quantization.data import RANDOM, CalibrationData, Item, calibration_items
from jfuse.quantization.instrument import ObservedSlot, instrumented
from jfuse.quantization.moments import Moments
from jfuse.quantization.statistics import Observed, Record, Statistics, is_statistics
from jfuse.quantization.tallies import Spread
from jfuse.running.cores import cores
from jfuse.running.in_litert import WHY, works_on_resources
from jfuse.running.over_samples import OverSamples, Together, compiles_slowly, samples_at_once
from jfuse.running.partition import hosted
from jfuse.running.processes import of_all_processes
from jfuse.running.runner import untraceable

_INPUT_BYTES = 2**27  # of the calls that are in memory at once


def calibrate(
    program: Program,
    observed: Collection[Observed],
    data: CalibrationData,
    *,
    histograms: Collection[Observed] = (),
    moments: Mapping[Observed, Moments] | None = None,
    signature: str | None = None,
) -> Statistics:
    """What the observed values were in all calls of the data.

    histograms: the values of which a histogram is taken, for the algorithms in `statistics.NEED_HISTOGRAMS`; it takes
        about ten times as long as the extremes.
    moments: of what products read, by the first result of the product and a name in `part`.
    signature: the one that calls without a key are of.

    data may also be statistics of an earlier calibration, or the path of a file with such; nothing is run then.
    The calls are read one batch after the other. Calls that do not depend on each other run together, over all devices
    of jax's default backend; only statistics leave the device. Values in bodies count in each turn of a loop, and in
    the branch that is taken. What jax cannot trace runs call by call, equation by equation. Values that only LiteRT
    sees, within loops of integers for one, are not seen.
    Under `jax.distributed` all processes call this with the same data. Each reads all of it and runs its part, and all
    of them get all statistics, the calls of a process after those of the processes before it.
    Raises JfuseError where an item of the data does not fit the model, or a process fails.
    """
    if any(map(works_on_resources, program.graphs())):
        raise JfuseError(
            "this program cannot be calibrated", found=WHY, remedy="quantize the model before it was saved"
        )
    earlier = _earlier(data, program)
    if earlier is not None:
        return earlier
    statistics = Statistics(program, untrusted=_untrusted(data))
    spreads = dict.fromkeys((*observed, *histograms))
    tallies = [(Spread(h), o) for h, kind in ((False, spreads), (True, histograms)) for o in kind]
    values = {o: statistics.key(o) for o in (*spreads, *(moments or ()))}
    runs = _Runs(program, [*(ObservedSlot(o, t) for t, o in tallies), *starmap(ObservedSlot, (moments or {}).items())])

    def own() -> dict[str, Record]:
        records: dict[str, Record] = {}
        for group in runs.groups(calibration_items(program, data, signature)):
            for found in runs.run(group):
                _add(records, {values[what]: record for what, record in found.items()})
        return records

    whole: dict[str, Record] = {}
    for part in of_all_processes(own):
        _add(whole, part)
    return replace(statistics, records=whole)


def _add(records: dict[str, Record], later: Mapping[str, Record]) -> None:
    """Put what was seen in later calls after the records of each value."""
    for key, record in later.items():
        records[key] = records[key].then(record) if key in records else record


def _earlier(data: CalibrationData, program: Program) -> Statistics | None:
    """Statistics that were given instead of data."""
    if isinstance(data, Statistics):
        return data.of(program)
    is_path = isinstance(data, str | os.PathLike) and data != RANDOM and Path(data).is_file()
    return Statistics.load(data, program) if is_path and is_statistics(data) else None


def _untrusted(data: CalibrationData) -> str:
    return "random numbers, which nobody chose" if isinstance(data, str) and data == RANDOM else ""


@dataclass
class _Runs:
    """Runs groups of items that have one layout, with the states that they leave."""

    program: Program
    slots: Sequence[ObservedSlot]
    states: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        by_graph = {id(s.graph): _Watched(s, self._of(s)) for s in distinct(self.program)}
        self._watched = {s.key: by_graph[id(s.graph)] for s in self.program.signatures}

    def _of(self, signature: Signature) -> list[ObservedSlot]:
        inner = list(all_graphs(signature.graph))
        found = {v for g in inner for v in (*g.inputs, *(v for eqn in g.eqns for v in eqn.outputs))}
        return [slot for slot in self.slots if slot.what.var in found]

    def groups(self, items: Iterator[Item]) -> Iterator[list[Item]]:
        """Items in a row that can run together: of one layout, and none of them goes on from another."""
        group: list[Item] = []
        for item in self._of_this_process(self._apart(items)):
            alone = item.goes_on and self._keeps(item)
            if group and (alone or group[0].goes_on or _layout(group[0]) != _layout(item) or self._is_full(group)):
                yield group
                group = []
            group.append(item)
        if group:
            yield group

    def _apart(self, items: Iterator[Item]) -> Iterator[Item]:
        """The items; each call by itself where nothing is kept between calls."""
        for item in items:
            if self._keeps(item):
                yield item
            else:
                yield from (Item((call,), goes_on=False) for call in item.calls)

    def _of_this_process(self, items: Iterator[Item]) -> Iterator[Item]:
        """Items in turn for each process; those that go on from another go where that one went."""
        processes, index = jax.process_count(), jax.process_index()
        number = -1
        for item in items:
            number += number < 0 or not (item.goes_on and self._keeps(item))
            if number % processes == index:
                yield item

    def _keeps(self, item: Item) -> bool:
        """Whether a call leaves something to the next one."""
        return bool(self.program.states()) or any(call.left_out for call in item.calls)

    def _is_full(self, group: Sequence[Item]) -> bool:
        size = sum(a.nbytes for call in group[0].calls for a in call.inputs.values())
        most = min(self._watched[call.key].most for call in group[0].calls)
        return len(group) >= most or (len(group) + 1) * size > _INPUT_BYTES

    def run(self, group: Sequence[Item]) -> Iterator[Mapping[Observed, Record]]:
        """What was seen in each call of a group's sequences."""
        if not group[0].goes_on or not self.states:
            self.states = {n: np.stack([a] * len(group)) for n, a in first_states(self.program).items()}
        for calls in zip(*(item.calls for item in group), strict=True):
            watched = self._watched[calls[0].key]
            shown = {state.name for state in watched.signature.exposed}
            inputs = []
            for name in watched.signature.input_names:
                given = np.stack([call.inputs[name] for call in calls])
                before = self.states.get(name) if name in shown.intersection(calls[0].left_out) else None
                inputs.append(given if before is None or before.shape != given.shape else before)
            kept = [s.name for s in watched.signature.states]
            after, records = watched.run([*inputs, *(self.states[name] for name in kept)], len(group))
            self.states.update(zip(watched.carried, after, strict=True))
            yield records


def _layout(item: Item) -> object:
    return [(c.key, c.left_out, [(n, a.shape, a.dtype) for n, a in c.inputs.items()]) for c in item.calls]


class _Watched:
    """One signature with tallies of its values, over samples."""

    def __init__(self, signature: Signature, slots: Sequence[ObservedSlot]) -> None:
        self.signature = signature
        self._slots = slots
        self._graph = hosted(signature.graph, singly=True)
        self.carried = [state.name for state in (*signature.exposed, *signature.states)]
        outputs = self._graph.outputs[len(self._graph.outputs) - len(self.carried) :]
        self._graph = replace(self._graph, outputs=outputs)
        self._extremes = [s.what for s in slots if not s.tally.is_total]
        self._totals = [s for s in slots if s.tally.is_total]
        backend = jax.default_backend()
        self._at_once = samples_at_once(self._graph, backend)
        self.most = self._at_once * max(len(jax.local_devices()), cores() if backend == "cpu" else 1)

    @cached_property
    def _fast(self) -> _Program:
        return _Program(instrumented(self._graph, self._slots), self, self._at_once)

    @cached_property
    def _careful(self) -> _Program:
        slots = [replace(s, tally=s.tally.of_finite()) for s in self._slots]
        return _Program(instrumented(self._graph, slots), self, self._at_once)

    @property
    def extremes(self) -> int:
        """Of how many values extremes are kept."""
        return len(self._extremes)

    def run(self, arrays: Sequence[np.ndarray], count: int) -> tuple[Sequence[np.ndarray], Mapping[Observed, Record]]:
        """The states after a call for each sample, and what was seen of each value."""
        states, extremes, totals = self._fast.run(arrays, count)
        bad = np.isnan(extremes).any(-1) | (extremes == np.inf).any(-1)
        if bad.any() or not all(map(_is_finite, totals)):  # NaNs and infinities hide what else there was
            _, extremes, totals = self._careful.run(arrays, count)
        low, high = -extremes[:, :, 0], extremes[:, :, 1]
        found = list(zip(self._totals, totals, strict=True))
        histograms = {s.what: t.astype(np.int64) for s, t in found if not isinstance(s.tally, Moments)}
        records = {
            what: Record.of_calls(low[:, i], high[:, i], bad[:, i], histograms.get(what))
            for i, what in enumerate(self._extremes)
        }
        moments = {s.what: Record(moments=t.astype(np.float64)) for s, t in found if isinstance(s.tally, Moments)}
        return states, records | moments


def _is_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())


class _Program:
    """An instrumented graph, run over samples on XLA, or one by one where that does not work."""

    def __init__(self, graph: Any, watched: _Watched, at_once: int) -> None:
        self._graph = graph
        self._states = len(watched.carried)
        self._extremes = watched.extremes
        self._quick = compiles_slowly(watched.signature.graph)
        self._together = None if untraceable(watched.signature.graph) else Together(lambda: self._over_samples(at_once))

    def _over_samples(self, at_once: int) -> OverSamples:
        arrays = large_constants(self._graph)
        call = with_constants(self._graph, arrays)
        count = len(self._graph.inputs)

        def function(weights: Any, *args: Any) -> Any:
            return self._split(call(weights, args[:count]))

        return OverSamples(function, [arrays], most=at_once, totals=True, quick=self._quick)

    def _split(self, found: Sequence[Any]) -> tuple[Any, Any]:
        """(states, extremes) of each sample, and totals of all of them: histograms and moments."""
        split = self._states + self._extremes
        return (tuple(found[: self._states]), tuple(found[self._states : split])), tuple(found[split:])

    def run(
        self, arrays: Sequence[np.ndarray], count: int
    ) -> tuple[Sequence[np.ndarray], np.ndarray, Sequence[np.ndarray]]:
        """States after the calls, each with samples first; extremes f32[samples, values, 2]; the totals."""
        given = arrays or [np.zeros(count, np.int8)]  # a signature without inputs
        found = None if self._together is None else self._together.run(given)
        (states, extremes), totals = self._one_by_one(arrays, count) if found is None else found
        stacked = np.stack(extremes, 1) if extremes else np.zeros((count, 0, 2), np.float32)
        return states, stacked, totals

    def _one_by_one(self, arrays: Sequence[np.ndarray], count: int) -> tuple[Any, Any]:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            rows = [
                self._split([np.asarray(r) for r in evaluate(self._graph, [np.int32(1), *(a[n] for a in arrays)])])
                for n in range(count)
            ]
        results, totals = zip(*rows, strict=True)
        return jax.tree.map(lambda *r: np.stack(r), *results), jax.tree.map(lambda *t: sum(t), *totals)
