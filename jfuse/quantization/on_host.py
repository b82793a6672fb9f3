"""Values that NumPy looks at, right after XLA computed them: on a CPU, where they need not go anywhere for that.

XLA's reductions and scatters are loops for LLVM to compile, one for each value; the reductions take twice as long for a
number as NumPy does, the scatters several times as long as `histogram.count` (jaxlib 0.10.2).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

import numpy as np

from jfuse.ir.dims import known_size
from jfuse.ir.graph import Graph
from jfuse.quantization.histogram import Histogram
from jfuse.quantization.instrument import ObservedSlot
from jfuse.quantization.statistics import Observed
from jfuse.quantization.tallies import Spread
from jfuse.running.litert_worker.tallies import ends_of

_BYTES = 2**22
"""Of the values of one run: twice as many take half as much memory again, for a tenth less time (LSTMs)."""
_SAMPLES = 8
"""Of one run at least: where a sample has more values than that leaves room for, the larger ones stay inside."""


@dataclass(frozen=True)
class HostLooks:
    """Values of a graph that NumPy looks at after each run.

    extremes: values whose extremes are kept for each sample. counts: values with a histogram over all samples.
    most: how many samples of a run have room for their values.
    """

    extremes: tuple[Observed, ...] = ()
    counts: tuple[Observed, ...] = ()
    most: int = _BYTES

    @classmethod
    def of(cls, graph: Graph, slots: Sequence[ObservedSlot], sizes: Mapping[str, int]) -> HostLooks:
        """Choose values of the graph itself, not of bodies, as far as memory allows.

        sizes: of open dimensions.
        """
        own = {Observed(v) for v in (*graph.inputs, *(out for eqn in graph.eqns for out in eqn.outputs))}
        own |= {Observed(eqn.outputs[0], part) for eqn in graph.eqns for part in eqn.op.parts}
        spreads = [s for s in slots if isinstance(s.tally, Spread) and s.what in own]
        # That of a part is about as large as the op's result.
        taken = {s.what: 4 * known_size(s.what.var.type.shape, sizes) for s in spreads}
        fitting, room = set[Observed](), _BYTES // _SAMPLES
        for what in sorted(taken, key=lambda what: taken[what]):
            if taken[what] <= room:
                fitting.add(what)
                room -= taken[what]
        seen = [s for s in spreads if s.what in fitting]
        extremes, counts = (tuple(s.what for s in seen if s.tally.is_total is total) for total in (False, True))
        return cls(extremes, counts, max(1, _BYTES // max(1, _BYTES // _SAMPLES - room)))

    @property
    def values(self) -> tuple[Observed, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys((*self.extremes, *self.counts)))

    def sees(self, slot: ObservedSlot) -> bool:
        """Whether NumPy computes this tally."""
        return isinstance(slot.tally, Spread) and slot.what in (self.counts if slot.tally.is_total else self.extremes)

    def look(self, values: Sequence[np.ndarray], histograms: Histograms) -> tuple[np.ndarray, np.ndarray]:
        """Extremes f32[n,values,2] as `Spread` has them, but of finite numbers; whether there were others, bool.

        values: f[n,...], in the order of `values`. Histograms are counted on.
        """
        with np.errstate(over="ignore"):
            of = dict(zip(self.values, (np.asarray(v, np.float32) for v in values), strict=True))
        found = [ends_of(of[what]) for what in self.extremes]
        histograms.add([of[what] for what in self.counts])
        rows = len(values[0]) if values else 0
        ends = np.stack([e for e, _ in found], 1) if found else np.zeros((rows, 0, 2), np.float32)
        return ends, np.stack([o for _, o in found], 1) if found else np.zeros((rows, 0), bool)


class Histograms:
    """Histograms of some values, which runs on several cores add to."""

    def __init__(self, number: int) -> None:
        self._of = [Histogram() for _ in range(number)]
        self._lock = Lock()

    @property
    def counts(self) -> list[np.ndarray]:
        """How many numbers lie in each bin, i64[BINS] of each value."""
        return [histogram.counts() for histogram in self._of]

    def add(self, values: Sequence[np.ndarray]) -> None:
        """Count the finite numbers of each value."""
        with self._lock:
            for histogram, value in zip(self._of, values, strict=True):
                finite = np.isfinite(value)
                histogram.add(value.reshape(-1) if finite.all() else value[finite])
