"""`calibrate`: runs a program on the user's data, on XLA, and returns statistics of its values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, starmap
from typing import Any, NamedTuple

import jax
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.evaluate import evaluate, symbol_sizes
from jfuse.ir.graph import Atom, Const, Graph, Program, Signature
from jfuse.ir.states import distinct, exposed_places, first_states, places
from jfuse.ir.walk import all_graphs
from jfuse.quantization.data import RANDOM, CalibrationData, Item, calibration_items, is_finite
from jfuse.quantization.in_litert import LiteRtLooks, is_sooner
from jfuse.quantization.instrument import ObservedSlot, instrumented
from jfuse.quantization.moments import Moments
from jfuse.quantization.on_host import Histograms, HostLooks
from jfuse.quantization.statistics import Observed, Record, Statistics, earlier_statistics
from jfuse.quantization.tallies import Spread
from jfuse.running.cores import cores
from jfuse.running.in_litert import WHY, works_on_resources
from jfuse.running.over_samples import OverSamples, Together, samples_at_once, samples_for_quick
from jfuse.running.partition import hosted, is_unknown
from jfuse.running.processes import of_all_processes
from jfuse.running.runner import untraceable

_INPUT_BYTES = 2**27  # of the calls that are in memory at once
_GROUP_BYTES, _GROUP_RUNS = 2**23, 8  # of a group, beyond what keeps all cores busy: each has records of all values
OnCalls = Callable[[int, int], None]
_MANY = 4096  # calls: as soon as these, or those of a group, were read, there are many


def calibrate(
    program: Program,
    observed: Collection[Observed],
    data: CalibrationData,
    *,
    histograms: Collection[Observed] = (),
    moments: Mapping[Observed, Moments] | None = None,
    signature: str | None = None,
    on_calls: OnCalls = lambda done, total: None,
) -> Statistics:
    """Run the calibration data and collect statistics of the observed values.

    histograms: the values of which a histogram is taken, for the algorithms in `statistics.NEED_HISTOGRAMS`; it takes
        about ten times as long as the extremes.
    moments: of inputs of products, by the first result of the product and a name in `part`.
    signature: the one that calls without a key are of.
    on_calls: called with the number of calls so far, and of all in this process, or 0 if that is not known.

    data may also be statistics of earlier calibrations, as `is_earlier` has them; nothing is run then.
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
    earlier = earlier_statistics(data, program)
    if earlier is not None:
        return earlier
    statistics = Statistics(program, untrusted=_untrusted(data))
    # One slot for each tally: ranges of all values, histograms of some, moments of inputs of products.
    spreads = dict.fromkeys((*observed, *histograms))
    tallies = [(Spread(h), o) for h, kind in ((False, spreads), (True, histograms)) for o in kind]
    values = {o: statistics.key(o) for o in (*spreads, *(moments or ()))}
    slots = [*(ObservedSlot(o, t) for t, o in tallies), *starmap(ObservedSlot, (moments or {}).items())]

    def own() -> dict[str, Record]:
        records: dict[str, Record] = {}
        expected, items = _looked_ahead(calibration_items(program, data, signature))
        with closing(_Runs(program, slots, expected)) as runs:
            done = 0
            for group in runs.groups(items):
                for found in runs.run(group):
                    _add(records, {values[what]: record for what, record in found.items()})
                done += sum(len(item.calls) for item in group)
                on_calls(done, 0 if expected >= _MANY else expected)
        return records

    whole: dict[str, Record] = {}
    for part in of_all_processes(own):
        _add(whole, part)
    return replace(statistics, records=whole)


def _add(records: dict[str, Record], later: Mapping[str, Record]) -> None:
    """Append the records of later calls to those of each value."""
    for key, record in later.items():
        records[key] = records[key].then(record) if key in records else record


def _looked_ahead(items: Iterator[Item]) -> tuple[int, Iterator[Item]]:
    """How many calls there are, as far as one may look for that, and all items."""
    first, calls, size = list[Item](), 0, 0
    for item in items:
        first.append(item)
        calls += len(item.calls)
        size += _bytes(item) * len(item.calls)
        if calls >= _MANY or size > _GROUP_BYTES:
            return _MANY, chain(first, items)
    return calls, iter(first)


def _bytes(item: Item) -> int:
    """Of the inputs of a call in a row of them."""
    return sum(array.nbytes for array in item.calls[0].inputs.values())


def _untrusted(data: CalibrationData) -> str:
    return "random numbers" if isinstance(data, str) and data == RANDOM else ""


@dataclass
class _Runs:
    """Runs groups of items that have one layout, with the states that they leave.   expected: calls in all"""

    program: Program
    slots: Sequence[ObservedSlot]
    expected: int
    states: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._has_states = bool(self.program.states())
        by_graph = {id(s.graph): _WatchedSignature(s, self.slots, self.expected) for s in distinct(self.program)}
        self._watched = {s.key: by_graph[id(s.graph)] for s in self.program.signatures}

    def close(self) -> None:
        """End the processes that compute."""
        for watched in self._watched.values():
            watched.close()

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
        """The items; single calls if the model has no states."""
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
        return self._has_states or any(call.left_out for call in item.calls)

    def _is_full(self, group: Sequence[Item]) -> bool:
        size = (len(group) + 1) * _bytes(group[0])
        most = min(self._watched[call.key].most for call in group[0].calls)
        return size > (_INPUT_BYTES if len(group) < most else _GROUP_BYTES) or len(group) >= most * _GROUP_RUNS

    def run(self, group: Sequence[Item]) -> Iterator[Mapping[Observed, Record]]:
        """Yield the records of each call of a group's sequences."""
        if not group[0].goes_on or not self.states:
            self.states = {n: np.stack([a] * len(group)) for n, a in first_states(self.program).items()}
        for calls in zip(*(item.calls for item in group), strict=True):
            watched = self._watched[calls[0].key]
            shown = {state.name for state in watched.signature.exposed}
            inputs = []
            for name in watched.signature.input_names:
                stacked = np.stack([call.inputs[name] for call in calls])
                before = self.states.get(name) if name in shown.intersection(calls[0].left_out) else None
                inputs.append(stacked if before is None or before.shape != stacked.shape else before)
            state_names = [s.name for s in watched.signature.states]
            after, records = watched.run([*inputs, *(self.states[name] for name in state_names)], len(group))
            self.states.update(zip(watched.carried, after, strict=True))
            yield records


def _layout(item: Item) -> object:
    return [(c.key, c.left_out, [(n, a.shape, a.dtype) for n, a in c.inputs.items()]) for c in item.calls]


def _known(signature: Signature) -> Signature:
    """The signature without custom operators that nothing here computes, and without values that depend on them."""
    graph, carried = signature.graph, {p.output: p.input for of in (places, exposed_places) for p in of(signature)}
    lost: set[Atom | None] = set()
    count = -1
    while count < len(lost):
        count = len(lost)
        for eqn in graph.eqns:
            if is_unknown(eqn) or lost.intersection(eqn.inputs):
                lost.update(eqn.outputs)
        lost.update(graph.inputs[before] for after, before in carried.items() if graph.outputs[after] in lost)
    if not lost:
        return signature
    # A state that depends on them stays what it was; nobody reads the other outputs.
    held = {i: graph.inputs[carried[i]] if i in carried else Const(np.zeros(0)) for i in range(len(graph.outputs))}
    outputs = tuple(held[i] if atom in lost else atom for i, atom in enumerate(graph.outputs))
    eqns = tuple(eqn for eqn in graph.eqns if not lost.intersection(eqn.outputs))
    return replace(signature, graph=replace(graph, eqns=eqns, outputs=outputs))


class _WatchedSignature:
    """One signature with tallies of its values, over samples.   expected: how many, in all"""

    def __init__(self, signature: Signature, slots: Sequence[ObservedSlot], expected: int) -> None:
        self.signature = signature = _known(signature)
        self.expected = expected
        inner = list(all_graphs(signature.graph))
        inner_vars = {v for g in inner for v in (*g.inputs, *(v for eqn in g.eqns for v in eqn.outputs))}
        self.slots = [slot for slot in slots if slot.what.var in inner_vars]
        graph = hosted(signature.graph, singly=True)
        self.carried = [state.name for state in (*signature.exposed, *signature.states)]
        self.graph = replace(graph, outputs=graph.outputs[len(graph.outputs) - len(self.carried) :])
        self._of_sizes: dict[tuple[tuple[str, int], ...], _Sized] = {}

    @cached_property
    def most(self) -> int:
        """How many samples to run together, as far as is known without sizes of open dimensions."""
        backend = jax.default_backend()
        runs = max(len(jax.local_devices()), cores() if backend == "cpu" else 1)
        return samples_at_once(self.graph, backend) * runs

    def run(self, arrays: Sequence[np.ndarray], count: int) -> tuple[Sequence[np.ndarray], Mapping[Observed, Record]]:
        """The states after a call for each sample, and the records of each value."""
        sizes: dict[str, int] = {}
        for var, array in zip(self.graph.inputs, arrays, strict=True):
            sizes |= symbol_sizes(var, array.shape[1:])
        key = tuple(sizes.items())
        if key not in self._of_sizes:
            self._of_sizes[key] = _Sized(self, sizes)
        return self._of_sizes[key].run(arrays, count)

    def close(self) -> None:
        """End the processes that compute."""
        for sized in self._of_sizes.values():
            sized.close()


class _Sized:
    """As `_WatchedSignature`, with sizes of open dimensions."""

    def __init__(self, watched: _WatchedSignature, sizes: Mapping[str, int]) -> None:
        self._watched = watched
        backend = jax.default_backend()
        self._on_host = HostLooks.of(watched.graph, watched.slots, sizes) if backend == "cpu" else HostLooks()
        self._inside = [slot for slot in watched.slots if not self._on_host.sees(slot)]
        self._extremes = [s.what for s in self._inside if not s.tally.is_total]
        self._totals = [s for s in self._inside if s.tally.is_total]
        self._at_once = min(samples_at_once(watched.graph, backend, sizes), self._on_host.most)
        self._quick = samples_for_quick(watched.graph, sizes)
        sooner = backend == "cpu" and is_sooner(watched.graph, watched.expected, sizes)
        self._in_litert = LiteRtLooks.of(watched.signature, watched.slots, sizes) if sooner else None

    def close(self) -> None:
        """End the processes that compute, where there are any."""
        if self._in_litert is not None:
            self._in_litert.close()

    @cached_property
    def _fast(self) -> _Program:
        return self._program(self._inside)

    @cached_property
    def _careful(self) -> _Program:
        return self._program([replace(s, tally=s.tally.of_finite()) for s in self._inside])

    def _program(self, inside: Sequence[ObservedSlot]) -> _Program:
        graph = instrumented(self._watched.graph, inside, self._on_host.values)
        return _Program(graph, self._watched, len(self._extremes), self._on_host, self._at_once, self._quick)

    def run(self, arrays: Sequence[np.ndarray], count: int) -> tuple[Sequence[np.ndarray], Mapping[Observed, Record]]:
        """The states after a call for each sample, and the records of each value."""
        seen = None if self._in_litert is None else self._in_litert.run(arrays)
        if seen is not None:
            return (), seen
        fast = self._fast.run(arrays, count)
        extremes, totals = fast.extremes, fast.totals
        bad = np.isnan(extremes).any(-1) | (extremes == np.inf).any(-1)
        if bad.any() or not all(map(is_finite, totals)):  # NaNs and infinities hide what else there was
            again = self._careful.run(arrays, count)
            extremes, totals = again.extremes, again.totals
        of_totals = list(zip(self._totals, totals, strict=True))
        counts = {s.what: t.astype(np.int64) for s, t in of_totals if not isinstance(s.tally, Moments)}
        counts |= zip(self._on_host.counts, fast.counts, strict=True)
        ends = [(what, extremes[:, i], bad[:, i]) for i, what in enumerate(self._extremes)]
        ends += [(what, fast.ends[:, i], fast.others[:, i]) for i, what in enumerate(self._on_host.extremes)]
        records = {w: Record.of_calls(-e[:, 0], e[:, 1], others, counts.get(w)) for w, e, others in ends}
        moments = {s.what: Record(moments=t.astype(np.float64)) for s, t in of_totals if isinstance(s.tally, Moments)}
        return fast.states, records | moments


class _SampleResults(NamedTuple):
    """Results of a program for samples.

    states: after the calls, each with samples first. extremes: f32[samples,values,2], and totals, of what is tallied
    inside of it. ends, others, counts: as `HostLooks.look` gives them.
    """

    states: Sequence[np.ndarray]
    extremes: np.ndarray
    totals: Sequence[np.ndarray]
    ends: np.ndarray
    others: np.ndarray
    counts: Sequence[np.ndarray]


class _Program:
    """An instrumented graph, run over samples on XLA, or one by one where that does not work."""

    def __init__(
        self, graph: Graph, watched: _WatchedSignature, extremes: int, on_host: HostLooks, at_once: int, quick: int
    ) -> None:
        self._graph = graph
        self._ends = len(watched.carried), len(watched.carried) + extremes, len(graph.outputs) - len(on_host.values)
        self._on_host = on_host
        self._histograms = Histograms(0)
        self._quick = {"quick": quick, "expected": watched.expected}
        self._together = None if untraceable(watched.signature.graph) else Together(lambda: self._over_samples(at_once))

    def _over_samples(self, at_once: int) -> OverSamples:
        options: Any = {"most": at_once, "totals": True, "after": self._looked_at, **self._quick}
        return OverSamples.of_graph(self._graph, self._split, **options)

    def _split(self, found: Sequence[Any]) -> tuple[Any, Any]:
        """(states, extremes, values for NumPy) of each sample, and totals of all of them: histograms and moments."""
        states, extremes, totals = self._ends
        of_each = tuple(found[:states]), tuple(found[states:extremes]), tuple(found[totals:])
        return of_each, tuple(found[extremes:totals])

    def _looked_at(self, results: Any, totals: Any) -> tuple[Any, Any]:
        """The results with NumPy's statistics instead of the values."""
        states, extremes, values = results
        return (states, extremes, *self._on_host.look(values, self._histograms)), totals

    def run(self, arrays: Sequence[np.ndarray], count: int) -> _SampleResults:
        """Observe one call for each sample."""
        inputs = arrays or [np.zeros(count, np.int8)]  # a signature without inputs
        self._begin()
        results = None if self._together is None else self._together.run(inputs)
        (states, extremes, ends, others), totals = self._one_by_one(arrays, count) if results is None else results
        stacked = np.stack(extremes, 1) if extremes else np.zeros((count, 0, 2), np.float32)
        return _SampleResults(states, stacked, totals, ends, others, self._histograms.counts)

    def _begin(self) -> None:
        self._histograms = Histograms(len(self._on_host.counts))

    def _one_by_one(self, arrays: Sequence[np.ndarray], count: int) -> tuple[Any, Any]:
        with jax.enable_x64(True), jax.default_matmul_precision("highest"):
            self._begin()  # whatever runs did before they failed
            rows = [self._alone([a[n] for a in arrays]) for n in range(count)]
        results, totals = zip(*rows, strict=True)
        return jax.tree.map(lambda *r: np.concatenate(r), *results), jax.tree.map(lambda *t: sum(t), *totals)

    def _alone(self, sample: Sequence[np.ndarray]) -> tuple[Any, Any]:
        results, totals = self._split([np.asarray(r) for r in evaluate(self._graph, [np.int32(1), *sample])])
        return self._looked_at(jax.tree.map(lambda r: r[None], results), totals)
