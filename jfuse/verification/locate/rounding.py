"""The error that rounding alone explains: how far two correct kernels of one equation may differ on equal operands."""

from __future__ import annotations

from collections.abc import Sequence

import ml_dtypes
import numpy as np

_ROUNDINGS = {2: 4.0, 4: 32.0, 8: 32.0}
"""By bytes of the dtype: how many roundings of the largest element kernels differ by where nothing cancels.

Measured between XLA and LiteRT in f32: up to 11 (tanh, logistic, sums of a thousand terms). Narrow floats are computed
in f32 and rounded once.
"""
TIMES = 16.0  # a rounding error is a sum of many, and seldom this many times the largest of eight draws


def rounding_of(dtype: np.dtype) -> float:
    """The largest max|a - b| / max|b| for results of this dtype; 0 for exact types."""
    step = unit_of(dtype)
    return _ROUNDINGS.get(_real(dtype).itemsize, 4.0) * step


def unit_of(dtype: np.dtype) -> float:
    """The distance from 1 to the next number of a float dtype; 0 for others."""
    real = _real(dtype)
    if real == ml_dtypes.bfloat16:
        return 2.0**-7
    return float(np.finfo(real).eps) if real.kind == "f" else 0.0


def _real(dtype: np.dtype) -> np.dtype:
    return np.dtype(np.float32 if dtype.itemsize == 8 else np.float64) if dtype.kind == "c" else dtype


def rounded_otherwise(array: np.ndarray, generator: np.random.Generator, least: float = 0.0) -> np.ndarray:
    """The array with every float moved by up to one rounding; other dtypes as they are.

    least: lower bound of a rounding, from `unit_of`.
    """
    unit = unit_of(array.dtype)
    if not unit:
        return array
    unit = max(unit, least)
    wide = np.complex128 if array.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        return np.asarray(array.astype(wide) * (1 + unit * generator.uniform(-1, 1, array.shape))).astype(array.dtype)


def is_explained(found: np.ndarray, wanted: np.ndarray, redone: Sequence[np.ndarray]) -> bool:
    """Whether other roundings of inner values explain the distance of `found` from `wanted`.

    redone: `found` computed again, several times, with every float on the way moved by a rounding.
    """
    if found.shape != wanted.shape or any(r.shape != found.shape for r in redone):
        return False
    if not unit_of(found.dtype):
        moved = np.any([r != found for r in redone], axis=0)
        return not bool(np.any((found != wanted) & ~moved))
    wide = np.complex128 if found.dtype.kind == "c" else np.float64
    a, b, *others = (v.astype(wide) for v in (found, wanted, *redone))
    with np.errstate(all="ignore"):
        moves = np.max([np.abs(r - a) for r in others], axis=0)
        apart = np.abs(a - b)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if np.any(odd & ~same & np.isfinite(moves)):  # not finite on one side only, and no rounding does that
        return False
    usual = float(np.median(moves[np.isfinite(moves)])) if np.isfinite(moves).any() else 0.0
    allowed = TIMES * np.maximum(np.where(np.isfinite(moves), moves, np.inf), usual)
    largest = float(np.abs(b[~odd]).max(initial=0.0))
    return not bool(np.any((apart > allowed + rounding_of(found.dtype) * largest) & ~odd))
