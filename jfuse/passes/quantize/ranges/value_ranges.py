"""The ranges of values, as calibration saw them: values that a loop or a branch makes one have one range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jfuse.ir.graph import Var
from jfuse.passes.quantize.choose import within_reach
from jfuse.quantization.statistics import Observed, Statistics


def observed_together(what: Observed, alike: Mapping[Var, Iterable[Var]]) -> list[Observed]:
    """List the values that share one range with a value, itself among them; parts of fused ops share with none."""
    return [what] if what.part else [Observed(var) for var in alike.get(what.var, (what.var,))]


@dataclass(frozen=True)
class ValueRanges:
    """The ranges of the values of a calibrated program.

    needed: which values were watched. alike: values with one range, as `same_values` gives them. is_calibrated: whether
    any call ran.
    """

    statistics: Statistics
    needed: frozenset[Observed]
    alike: Mapping[Var, Iterable[Var]]
    is_calibrated: bool = True

    def why_not(self, what: Observed) -> str | None:
        """Why a value itself has no range; None where it has one, or where nobody watched it and so nobody asks."""
        if what not in self.needed or self.statistics.seen(what) or _is_empty(what.var):
            return None
        if not self.is_calibrated:
            return "training gave it no range, and there is no calibration"
        if self.statistics.record(what).not_finite:
            return "calibration saw only NaN and infinities of it"
        return "no calibration call computed it; if it is in a loop, calibrate with sequences of several lengths"

    def has(self, what: Observed) -> bool:
        """Whether a value was watched, and has a range."""
        return what in self.needed and self.why_not(what) is None

    def range(self, what: Observed, algorithm: str, bits: int) -> tuple[float, float]:
        """The least and greatest number, by an algorithm of `Statistics.range`, without numbers that mean infinity."""
        if _is_empty(what.var):
            return 0.0, 0.0
        together = observed_together(what, self.alike)
        seen = list(filter(self.statistics.seen, together)) or together
        ranges = [within_reach(*self.statistics.range(each, algorithm, bits=bits)) for each in seen]
        return min(low for low, _ in ranges), max(high for _, high in ranges)


def _is_empty(var: Var) -> bool:
    """Whether a value has no elements, as what is left of a split into parts: any range holds them."""
    return 0 in var.type.shape
