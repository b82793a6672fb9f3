"""Tallies of a value while a graph runs: extremes or a histogram, updated wherever the value is computed.

Both are arrays of a fixed size, and ops of the graph update them, so a loop carries them like any other value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.ir.types import DType, TensorType
from jfuse.quantization.histogram import BINS, bin_of, counted
from jfuse.quantization.real_numbers.numbers import Computed


class Tally(Protocol):
    """An accumulator of one value while a graph runs."""

    @property
    def is_total(self) -> bool:
        """Whether one is kept for all samples of a `vmap`."""

    @property
    def type(self) -> TensorType:
        """The type of the tally."""

    def empty(self) -> np.ndarray:
        """The array before the first value."""

    def again(self, kept: Any) -> Any:
        """As `empty`, for a loop in which each sample may take other turns; merged into `kept` after it."""

    def merged(self, kept: Any, inner: Any) -> Any:
        """The tally from before a loop merged with the loop's own."""

    def update(self, kept: Any, value: Any, weight: Any) -> Any:
        """The array after one more value.   value: f[...]; weight: i32[], of the sample"""

    def of_finite(self) -> Tally:
        """The same without NaNs and infinities, which takes longer."""


@dataclass(frozen=True)
class Spread:
    """A tally of the numbers of a value: their extremes, or a histogram.

    histogram: i32[BINS], how many numbers lie in each bin, times the weight of the sample; one for all samples of a
        `vmap`. Else the extremes: f32[2], the least number negated and the greatest one; NaN where one was NaN.
    finite_only: leave NaNs and infinities out, which takes much longer.
    """

    histogram: bool
    finite_only: bool = False

    @property
    def is_total(self) -> bool:
        """Whether one is kept for all samples: histograms, as they are large."""
        return self.histogram

    def of_finite(self) -> Spread:
        """The same without NaNs and infinities."""
        return replace(self, finite_only=True)

    @property
    def type(self) -> TensorType:
        """The type of the tally: i32[BINS] for a histogram, f32[2] for extremes."""
        return TensorType((BINS,), DType.i32) if self.histogram else TensorType((2,), DType.f32)

    def empty(self) -> np.ndarray:
        """The array before the first value."""
        return np.zeros(BINS, np.int32) if self.histogram else np.full(2, -np.inf, np.float32)

    def again(self, kept: Any) -> Any:
        """As `empty`, for a loop in which each sample may take other turns; merged into `kept` after it."""
        return kept * 0 if self.histogram else kept

    def merged(self, kept: Any, inner: Any) -> Any:
        """The tally from before a loop merged with the loop's own."""
        return added(kept, inner) if self.histogram and _is_traced(inner) else kept + inner if self.histogram else inner

    def update(self, kept: Any, value: Any, weight: Any) -> Any:
        """The array after one more value.   value: f[...]; weight: i32[]"""
        if not _is_traced(value) and not _is_traced(kept):
            return self._on_numpy(np.asarray(kept), np.asarray(value).astype(np.float32), weight)
        value = jnp.asarray(value, jnp.float32)
        if self.histogram:
            return (_counted_finite if self.finite_only else _counted)(kept, value, weight)
        low = high = value
        if self.finite_only:
            finite = jnp.isfinite(value)
            low, high = jnp.where(finite, value, jnp.inf), jnp.where(finite, value, -jnp.inf)
        ends = jnp.stack([-jnp.min(low, initial=jnp.inf), jnp.max(high, initial=-jnp.inf)])
        # Most values are computed once: XLA would compile a kernel for each of them that compares with nothing.
        return ends if _is_empty(kept) else jnp.maximum(kept, ends)

    def _on_numpy(self, kept: np.ndarray, value: np.ndarray, weight: Any) -> np.ndarray:
        if self.histogram:
            return np.asarray(kept + counted(value).astype(np.int32) * weight)
        if self.finite_only:
            value = value[np.isfinite(value)]
        ends = np.array([-value.min(initial=np.inf), value.max(initial=-np.inf)], np.float32)
        return np.asarray(np.maximum(kept, ends))


def _is_empty(kept: Any) -> bool:
    """Whether extremes are known to be those before the first value."""
    return not _is_traced(kept) and bool(np.all(np.asarray(kept) == -np.inf))


def _is_traced(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def _with_bins(kept: Any, bins: Any, weights: Any) -> Any:
    return kept.at[jnp.ravel(bins)].add(jnp.ravel(weights))


def _plainly_counted(kept: Any, value: Any, weight: Any) -> Any:
    return _with_bins(kept, bin_of(value), jnp.broadcast_to(weight, value.shape))


def _plainly_counted_finite(kept: Any, value: Any, weight: Any) -> Any:
    return _with_bins(kept, bin_of(value), jnp.where(jnp.isfinite(value), weight, 0))


@jax.custom_batching.custom_vmap
def _counted(kept: Any, value: Any, weight: Any) -> Any:
    """The histogram with the numbers of one value; those of all samples go into one, unless each has its own."""
    return _plainly_counted(kept, value, weight)


@jax.custom_batching.custom_vmap
def _counted_finite(kept: Any, value: Any, weight: Any) -> Any:
    """As `_counted`, without NaNs and infinities."""
    return _plainly_counted_finite(kept, value, weight)


@_counted.def_vmap
def _counted_over(samples: int, batched: Sequence[bool], kept: Any, value: Any, weight: Any) -> tuple[Any, bool]:
    return _over_samples(_counted, _plainly_counted, samples, batched, kept, value, weight)


@_counted_finite.def_vmap
def _counted_finite_over(samples: int, batched: Sequence[bool], kept: Any, value: Any, weight: Any) -> tuple[Any, bool]:
    return _over_samples(_counted_finite, _plainly_counted_finite, samples, batched, kept, value, weight)


def _over_samples(
    count: Any, plainly: Any, samples: int, batched: Sequence[bool], kept: Any, value: Any, weight: Any
) -> tuple[Any, bool]:
    """The rule of `vmap`: one histogram for all samples, or one for each where each has its own already."""
    of_value, of_weight = batched[1], batched[2]
    if batched[0]:  # by a loop that samples leave at different steps
        return jax.vmap(plainly, (0, 0 if of_value else None, 0 if of_weight else None))(kept, value, weight), True
    if not of_value:
        return count(kept, value, jnp.sum(weight, dtype=weight.dtype) if of_weight else weight * samples), False
    weights = jnp.broadcast_to(weight, (samples,))
    return count(kept, value, weights.reshape(-1, *[1] * (value.ndim - 1))), False


@jax.custom_batching.custom_vmap
def added(kept: Any, inner: Any) -> Any:
    """The sum of two tallies that are sums; where only the second is of one sample, that of all samples."""
    return kept + inner


@added.def_vmap
def _added_over(samples: int, batched: Sequence[bool], kept: Any, inner: Any) -> tuple[Any, bool]:
    if batched[0]:
        return kept + inner, True
    return kept + (jnp.sum(inner, 0, dtype=inner.dtype) if batched[1] else inner), False


def start(tally: Tally) -> Computed:
    """No operands -> an empty tally."""
    return Computed("calibration.start", (tally.type,), tally.empty)


def again(tally: Tally) -> Computed:
    """A tally -> an empty one, for a loop."""
    return Computed("calibration.again", (tally.type,), tally.again)


def merge(tally: Tally) -> Computed:
    """A tally before a loop, and the loop's own -> the tally after it."""
    return Computed("calibration.merge", (tally.type,), tally.merged)


def look(tally: Tally) -> Computed:
    """A tally, a value and the weight of the sample -> the tally after the value."""
    return Computed("calibration.look", (tally.type,), tally.update)
