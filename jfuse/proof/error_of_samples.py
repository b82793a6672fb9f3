"""The error of results on samples."""

from __future__ import annotations

import numpy as np


def largest_error(actual: np.ndarray, expected: np.ndarray) -> float:
    """The largest relative error over samples (the first axis): max|a - b| / max|b| of the sample.

    Samples whose values are all small beside those of others count by a thousandth of the others: what cancels there
    leaves the rounding of larger intermediates. Equal NaNs and infinities agree; all but floats must be equal.
    """
    if actual.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind != "f":
        return 0.0 if np.array_equal(actual, expected) else float("inf")
    a, b = (np.asarray(v, np.float64).reshape(len(expected), -1) for v in (actual, expected))
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    difference = np.where(odd, 0.0, np.abs(np.where(odd, 0.0, a) - np.where(odd, 0.0, b))).max(axis=1, initial=0.0)
    size = np.where(odd, 0.0, np.abs(b)).max(axis=1, initial=0.0)
    size = np.maximum(size, 1e-3 * size.max(initial=0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(difference == 0.0, 0.0, difference / size)
    return float(relative.max(initial=0.0))


def agrees(actual: np.ndarray, expected: np.ndarray, tolerance: float) -> bool:
    """Whether infinities are the same, and all else is up to a tolerance relative to the largest finite value."""
    size = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    with np.errstate(invalid="ignore"):
        close = np.abs(actual - expected) <= tolerance * size
    return bool(np.all((actual == expected) | close))
