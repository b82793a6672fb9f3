"""Ranges from histograms: where clipping a few numbers makes the steps of all others finer."""

from __future__ import annotations

import numpy as np

from jfuse.quantization.histogram import edges

_SHARE = 0.5  # of the way that `extrapolated` finds best for unbounded numbers: bounded ones end before
_CANDIDATES = 64  # ends of a range that are tried on each side
_PARTS = 4  # points by which the numbers of one bin are represented
_LINEAR_BINS = 2048  # of the divergence, as in "8-bit Inference with TensorRT" (Migacz, 2017)


def extrapolated(
    extremes: tuple[float, float], averages: tuple[float, float], calls: int, size: int, bits: int = 8
) -> tuple[float, float]:
    """Extend the observed range to where clipping unseen values costs as much as longer steps; 0 stays an end.

    averages: means of the extremes of single calls. size: count of numbers in a call.

    The maxima of calls are assumed to be Gumbel-distributed; their mean and the greatest one estimate the scale. The
    extension minimizes the sum of squared clipping and rounding errors over the numbers of a call. It is long for few
    scattered numbers, and 0 for many, or if all calls end alike. It is at most the distance from the mean to the
    greatest maximum, or twice that for 16 bits: few calls estimate the scale poorly.
    """
    (low, high), width = extremes, max(extremes[1], 0.0) - min(extremes[0], 0.0)

    def beyond(gap: float) -> float:
        # Of n Gumbel maxima the greatest is about scale * ln(n) above the mean.
        spread = gap / np.log(calls) if calls > 1 else 0.0
        ratio = 12 * (2.0**bits - 1) ** 2 * spread / (calls * max(size, 1) * width) if width else 0.0
        # There the derivatives of both errors are equal; with a ratio up to 1 no extension pays.
        way = _SHARE * spread * float(np.log(ratio)) if ratio > 1 else 0.0
        return min(way, gap * bits / 8)

    least, most = low - beyond(averages[0] - low), high + beyond(high - averages[1])
    return (max(least, 0.0) if low >= 0 else least), (min(most, 0.0) if high <= 0 else most)


def percentile(counts: np.ndarray, extremes: tuple[float, float], percent: float = 99.99) -> tuple[float, float]:
    """The range that leaves `100 - percent` per cent of the numbers out on either side.   counts: i64[BINS]"""
    low, high = edges()
    summed = np.cumsum(counts)
    outside = summed[-1] * (1 - percent / 100)
    return _clipped(
        (_quantile(summed, outside, low, high), _quantile(summed, summed[-1] - outside, low, high)), extremes
    )


def _quantile(summed: np.ndarray, wanted: float, low: np.ndarray, high: np.ndarray) -> float:
    """The quantile, as if the numbers of a bin were spread evenly over it."""
    index = min(int(np.searchsorted(summed, wanted)), len(summed) - 1)
    before = summed[index - 1] if index else 0
    share = (wanted - before) / max(summed[index] - before, 1)
    return float(low[index] + (high[index] - low[index]) * min(max(share, 0.0), 1.0))


def least_error(
    counts: np.ndarray, extremes: tuple[float, float], bits: int = 8, symmetric: bool = False
) -> tuple[float, float]:
    """The range with the least mean squared rounding error.   counts: i64[BINS]

    The steps are those of the range widened to include 0, and 0 is one of them. symmetric: as many on either side of 0.
    """
    values, weights = _points(counts, extremes)
    low, high = min(extremes[0], 0.0), max(extremes[1], 0.0)
    if not len(values) or low == high:
        return extremes
    shares = np.linspace(1.0, 1 / _CANDIDATES, _CANDIDATES)
    if symmetric:
        largest = max(-low, high)
        errors = [_error(values, weights, -largest * s, largest * s, bits) for s in shares]
        end = largest * float(shares[int(np.argmin(errors))])
        return _clipped((-end, end), extremes)
    for _ in range(2):  # one end after the other, twice: they hang together by the size of the step alone
        high = high * float(shares[int(np.argmin([_error(values, weights, low, high * s, bits) for s in shares]))])
        low = low * float(shares[int(np.argmin([_error(values, weights, low * s, high, bits) for s in shares]))])
    return _clipped((low, high), extremes)


def _points(counts: np.ndarray, extremes: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Representative numbers of a histogram's bins, and the count of each."""
    filled = np.flatnonzero(counts)
    low, high = (np.clip(edge[filled], *extremes) for edge in edges())
    fractions = (np.arange(_PARTS) + 0.5) / _PARTS
    values = low[:, None] + (high - low)[:, None] * fractions
    return values.ravel(), np.repeat(counts[filled] / _PARTS, _PARTS)


def _error(values: np.ndarray, weights: np.ndarray, low: float, high: float, bits: int) -> float:
    """The sum of squared errors of numbers in steps of a range that includes 0."""
    step = (high - low) / (2**bits - 1)
    if step <= 0:
        return float(weights @ values**2)
    least, most = np.round(low / step), np.round(high / step)
    rounded = np.clip(np.round(values / step), least, most) * step
    return float(weights @ (values - rounded) ** 2)


def least_divergence(counts: np.ndarray, extremes: tuple[float, float], bits: int = 8) -> tuple[float, float]:
    """The range whose steps have the least Kullback-Leibler divergence from the distribution.   counts: i64[BINS]

    It looks at absolute values: both ends are clipped to the same one. Source: "8-bit Inference with TensorRT", 2017
    """
    largest = max(abs(e) for e in extremes)
    levels = 2 ** (bits - 1)
    if largest == 0 or levels >= _LINEAR_BINS:
        return extremes
    values, weights = _points(counts, extremes)
    spread, _ = np.histogram(np.abs(values), _LINEAR_BINS, (0.0, largest), weights=weights)
    ends = range(levels, _LINEAR_BINS + 1, levels // 8)
    best = min(ends, key=lambda end: _divergence(spread, end, levels))
    end = largest * best / _LINEAR_BINS
    return _clipped((-end, end), extremes)


def _divergence(spread: np.ndarray, end: int, levels: int) -> float:
    """The divergence of the numbers clipped to the first `end` bins from those bins in `levels` levels."""
    inside = spread[:end]
    expected = inside.copy()
    expected[-1] += spread[end:].sum()
    level = np.arange(end) * levels // end
    filled = inside > 0
    sums = np.bincount(level, inside, levels)
    quantized = np.where(filled, sums[level] / np.maximum(np.bincount(level, filled, levels), 1)[level], 0.0)
    if expected.sum() == 0 or quantized.sum() == 0:
        return np.inf
    p, q = expected / expected.sum(), quantized / quantized.sum()
    seen = p > 0
    return float(np.sum(p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-12))))


def _clipped(found: tuple[float, float], extremes: tuple[float, float]) -> tuple[float, float]:
    high = min(found[1], extremes[1])
    return min(max(found[0], extremes[0]), high), high
