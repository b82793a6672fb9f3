"""Measures of how far two arrays are apart: the relative error, and the distance in floats of their dtype."""

from __future__ import annotations

import math
from dataclasses import dataclass

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Measure:
    """How far an array is from the wanted one.

    absolute: max|a - b|. relative: max|a - b| / max|b|, or max(|a - b| / scale) where elements have scales. ulp: the
    largest distance counted in floats between the two (for integers max|a - b|). cosine: of the angle between both,
    flattened. snr: of the signal b to the noise a - b, in decibels. Equal NaNs and infinities count as equal. Shapes
    that differ, a NaN or an infinity on one side alone, and infinities of other signs are infinitely far apart in every
    respect.
    """

    absolute: float
    relative: float
    ulp: float
    cosine: float
    snr: float

    @classmethod
    def of(cls, found: np.ndarray, wanted: np.ndarray, scale: np.ndarray | None = None) -> Measure:
        """The distance of `found` from `wanted`, of any shape and dtype.   scale: as of `relative_error`"""
        relative = relative_error(found, wanted, scale)
        if relative == 0.0:
            return _EQUAL
        if wanted.dtype.kind not in "fcViu" or (math.isinf(relative) and not _comparable(found, wanted)):
            return _APART
        a, b = (_wide(v).ravel() for v in (found, wanted))
        finite = np.isfinite(a) & np.isfinite(b)
        a, b = a[finite], b[finite]
        with np.errstate(over="ignore"):
            absolute = float(np.abs(a - b).max(initial=0.0))
        largest = max(float(np.abs(a).max(initial=0.0)), float(np.abs(b).max(initial=0.0)))
        a, b = a / largest, b / largest  # squares of extremes leave the range of floats
        noise, signal = np.linalg.norm(a - b), np.linalg.norm(b)
        lengths = np.linalg.norm(a) * signal
        return cls(
            absolute,
            relative,
            _ulp(found, wanted),
            float(np.real(np.vdot(a, b)) / lengths) if lengths else 0.0,
            float(20 * np.log10(signal / noise)) if signal and noise else -math.inf if noise else math.inf,
        )

    def worst(self, other: Measure) -> Measure:
        """The worse of two in each respect."""
        return Measure(
            max(self.absolute, other.absolute),
            max(self.relative, other.relative),
            max(self.ulp, other.ulp),
            min(self.cosine, other.cosine),
            min(self.snr, other.snr),
        )


_EQUAL = Measure(0.0, 0.0, 0.0, 1.0, math.inf)
_APART = Measure(math.inf, math.inf, math.inf, 0.0, -math.inf)


def relative_error(found: np.ndarray, wanted: np.ndarray, scale: np.ndarray | None = None) -> float:
    """max|a - b| / max|b|; equal NaNs and infinities differ by 0, anything but floats by 0 or infinity.

    scale: divisor of each element's error instead, broadcast against `wanted`.
    """
    if found.shape != wanted.shape:
        return float("inf")
    if wanted.dtype.kind not in "fcV":  # V: bfloat16 and the 8-bit floats
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    a, b = _wide(found), _wide(wanted)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    with np.errstate(over="ignore", invalid="ignore"):
        apart = np.where(odd, 0.0, np.abs(a - b))
    if not apart.any():
        return 0.0
    against = np.abs(b)[~odd].max(initial=0.0) if scale is None else scale
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return float(np.where(apart == 0.0, 0.0, apart / against).max())


def _comparable(found: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether the two have one shape, and the same NaNs and infinities at the same places."""
    if found.shape != wanted.shape:
        return False
    a, b = _wide(found), _wide(wanted)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    return np.array_equal(a[odd], b[odd], equal_nan=True)


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


_BITS = {2: np.int16, 4: np.int32, 8: np.int64}
_FLOATS = (np.float16, np.float32, np.float64, ml_dtypes.bfloat16)


def _ulp(found: np.ndarray, wanted: np.ndarray) -> float:
    """The largest number of floats of the wanted dtype from one to the other."""
    if wanted.dtype.kind in "iu":
        return float(np.abs(_wide(found) - _wide(wanted)).max(initial=0.0))
    if wanted.dtype.kind == "c":
        part = np.float32 if wanted.dtype.itemsize == 8 else np.float64
        pairs = ((np.real(found), np.real(wanted)), (np.imag(found), np.imag(wanted)))
        return max(_ulp(a.astype(part), b.astype(part)) for a, b in pairs)
    if wanted.dtype.itemsize not in _BITS or wanted.dtype not in _FLOATS:
        return math.nan
    a, b = (_ordered(np.ascontiguousarray(v, wanted.dtype)) for v in (found, wanted))
    finite = np.isfinite(_wide(found)) & np.isfinite(_wide(wanted))
    apart = np.maximum(a, b).view(np.uint64) - np.minimum(a, b).view(np.uint64)
    return float(apart[finite].max(initial=0))


def _ordered(array: np.ndarray) -> np.ndarray:
    """The floats as integers that grow by 1 from each float to the next one; both zeros are 0.   i64, exact"""
    bits = array.view(_BITS[array.dtype.itemsize])
    least = np.iinfo(bits.dtype).min
    wide = bits.astype(np.int64)
    return np.where(wide < 0, least - wide, wide)


def as_json_number(value: float | None) -> float | str | None:
    """A float as JSON can say it: infinities and NaN, for which it has no numbers, are "inf", "-inf" and "nan"."""
    if value is None or math.isfinite(value):
        return value
    return str(float(value))
