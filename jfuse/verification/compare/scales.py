"""The scale for the error of each element of an output: the range of its own values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import ml_dtypes
import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Signature
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.subject import Arrays

TIMES = 100.0
"""An element may err by this many tolerances of its own spread, as cancellation leaves errors of larger numbers."""
_COARSEST = 0.25  # of its own spread, however large the tolerance is
_ROUNDINGS = 64.0  # times the movement of one rounding of the inputs: there is a rounding in each of many operators
_NUDGES = 40.0  # a tolerance is about this many roundings: f32 has 1e-5 and 2^-22
_LEAST_ROW = 8  # elements of a row whose largest says how large the row is


@dataclass(frozen=True)
class ElementRanges:
    """Value range of each element, in f64 or c128. Open axes have size 1: all their positions share one range.

    first: one value, NaN where it is not finite. low, high: the ends of all finite ones, of the real and the imaginary
    parts each. largest: the largest magnitude. noise: the largest movement by a rounding, as a part of the largest of
    its row, where that was looked at.
    """

    first: np.ndarray
    low: np.ndarray
    high: np.ndarray
    largest: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray, axes: tuple[int, ...], samples: int) -> ElementRanges:
        """Of finite values or NaN.   axes: whose elements are samples of one; samples: how many first axes are gone"""
        shape = tuple(1 if a in axes else n for a, n in enumerate(values.shape))[samples:]
        start = values[tuple(slice(0, 1) if a in axes else slice(None) for a in range(values.ndim))]
        low, high = (_of_parts(partial(_end, end, axes, shape), values) for end in (np.min, np.max))
        return cls(start.reshape(shape), low, high, _largest(np.abs(values), axes).reshape(shape), np.zeros(shape))

    def then(self, later: ElementRanges) -> ElementRanges:
        """Merge with the ranges of later calls."""
        low, high = _of_parts(np.minimum, self.low, later.low), _of_parts(np.maximum, self.high, later.high)
        largest, noise = np.maximum(self.largest, later.largest), np.maximum(self.noise, later.noise)
        return ElementRanges(self.first, low, high, largest, noise)

    @cached_property
    def spread(self) -> np.ndarray:
        """The largest distance from the first value."""
        first = np.where(np.isnan(self.first), 0.0, self.first)
        with np.errstate(invalid="ignore", over="ignore"):
            return np.asarray(np.abs(_of_parts(_reach, self.low, self.high, first)))


@dataclass
class ElementScales:
    """How far the elements of each output vary over all random calls and samples of the user.

    frozen: later calls add nothing, as where a call is repeated.
    """

    signatures: Mapping[str, Signature]
    frozen: bool = False
    _known: dict[tuple[str, str], ElementRanges] = field(default_factory=dict)

    def as_known(self) -> ElementScales:
        """The same, to which no call adds."""
        return replace(self, frozen=True, _known=dict(self._known))

    def learn(self, key: str, output: str, wanted: np.ndarray, samples: int = 0) -> None:
        """Take in the values of one call.   samples: how many first axes count samples, each a call"""
        moves = self.moves(key, output, wanted, samples)
        if moves is not None:
            self.take(key, output, moves)

    def moves(self, key: str, output: str, wanted: np.ndarray, samples: int = 0) -> ElementRanges | None:
        """Value ranges of one call, or of its samples; None if the output has no float elements, or all is frozen."""
        if self.frozen or not wanted.size or wanted.dtype.kind not in "fcV":
            return None
        axes = (*range(samples), *(samples + a for a in self._open_axes(key, output, wanted.ndim - samples)))
        return ElementRanges.of(_finite_or_nan(wanted), axes, samples)

    def take(self, key: str, output: str, moves: ElementRanges) -> None:
        """Merge with the ranges of later calls."""
        ranges = self._known.get((key, output))
        is_alike = ranges is not None and ranges.first.shape == moves.first.shape
        self._known[key, output] = ranges.then(moves) if ranges is not None and is_alike else moves

    def of(
        self, key: str, output: str, wanted: np.ndarray, tolerance: Tolerance, *, so_far: bool = False
    ) -> np.ndarray | None:
        """The scale of each element of one call, broadcast; None without data.

        The largest of the call at most. Elements that never move, as where there is one sample, have no scale of their
        own: a sine of a multiple of pi is nothing but rounding. so_far: more calls will come, so the least that these
        scales may turn out to be.
        """
        ranges = self._known.get((key, output))
        if ranges is None or not tolerance.per_element or not tolerance.value or not wanted.size:
            return None
        axes = self._open_axes(key, output, wanted.ndim)
        if ranges.first.shape != tuple(1 if a in axes else n for a, n in enumerate(wanted.shape)):
            return None
        times = max(1.0, min(TIMES, _COARSEST / tolerance.value))
        whole = _rows(wanted, ())
        still = ranges.largest if so_far else np.inf
        own = np.where(ranges.spread > 0, np.maximum(times * ranges.spread, ranges.largest), still)
        row = _rows(wanted, axes)
        if 0 in axes and wanted[0].size >= _LEAST_ROW:
            own = np.minimum(own, np.where(row > 0, times * row, np.inf))
        least = float(ml_dtypes.finfo(wanted.dtype).tiny) / tolerance.value  # type: ignore[no-untyped-call]
        with np.errstate(invalid="ignore"):
            rounding = np.nan_to_num(_ROUNDINGS * ranges.noise * row / tolerance.value, posinf=np.inf)
        scale = np.minimum(np.maximum(np.maximum(own, rounding), least), np.maximum(whole, least))
        return np.asarray(scale)

    def widen(self, key: str, output: str, wanted: np.ndarray, moves: np.ndarray) -> None:
        """Take in how far roundings move the values of one call."""
        ranges = self._known[key, output]
        axes = self._open_axes(key, output, wanted.ndim)
        row = _rows(wanted, axes)
        noise = _largest(np.divide(moves, row, out=np.zeros(moves.shape), where=row > 0), axes)
        self._known[key, output] = replace(ranges, noise=np.maximum(ranges.noise, noise))

    def _open_axes(self, key: str, output: str, rank: int) -> tuple[int, ...]:
        signature = self.signatures.get(key)
        names = () if signature is None else signature.output_names
        if signature is None or output not in names:
            return ()  # a state, or a reference without a graph
        shape = signature.graph.outputs[names.index(output)].type.shape
        return tuple(a for a, d in enumerate(shape) if not is_known(d)) if len(shape) == rank else ()


def nudged(inputs: Arrays, tolerance: float, seed: int) -> dict[str, np.ndarray]:
    """The inputs with each float moved by about two roundings, of the precision that the tolerance is for."""
    generator = np.random.default_rng(seed)
    return {name: _nudged(array, tolerance, generator) for name, array in inputs.items()}


def _nudged(array: np.ndarray, tolerance: float, generator: np.random.Generator) -> np.ndarray:
    if array.dtype.kind not in "fcV":
        return array
    own = float(ml_dtypes.finfo(array.dtype).eps)  # type: ignore[no-untyped-call]
    by = max(2 * own, tolerance / _NUDGES) * generator.choice((-1.0, 1.0), array.shape)
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(wide * (1 + by)).astype(array.dtype)


def moved_by_rounding(plain: np.ndarray, others: Iterable[np.ndarray]) -> np.ndarray:
    """How far each element moved in any of the others; one that stops or starts to be finite moved for ever."""
    a = _finite_or_nan(plain)
    largest = np.zeros(a.shape)
    for other in others:
        b = _finite_or_nan(other)
        moves = np.where(np.isnan(a) != np.isnan(b), np.inf, np.nan_to_num(np.abs(a - b)))
        largest = np.maximum(largest, moves)
    return largest


def _rows(wanted: np.ndarray, open_axes: tuple[int, ...]) -> np.ndarray:
    """The largest magnitude of each sample of a call; of the whole where its first axis does not count samples."""
    axes = range(1, wanted.ndim) if 0 in open_axes else range(wanted.ndim)
    return _largest(np.abs(_finite_or_nan(wanted)), tuple(axes))


def _finite_or_nan(array: np.ndarray) -> np.ndarray:
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return np.where(np.isfinite(wide), wide, np.nan)


def _of_parts(function: Callable[..., np.ndarray], *arrays: np.ndarray) -> np.ndarray:
    """Of real numbers; of complex ones, of the real parts and of the imaginary ones."""
    if not any(a.dtype.kind == "c" for a in arrays):
        return function(*arrays)
    real, imaginary = (function(*parts) for parts in ([a.real for a in arrays], [a.imag for a in arrays]))
    joined = np.empty(real.shape, np.complex128)
    joined.real, joined.imag = real, imaginary
    return joined


def _reach(low: np.ndarray, high: np.ndarray, at: np.ndarray) -> np.ndarray:
    """How far the farther end is; 0 without any."""
    return np.asarray(np.maximum(np.maximum(high - at, at - low), 0.0))


def _end(
    least_or_most: Callable[..., Any], axes: tuple[int, ...], shape: tuple[int, ...], values: np.ndarray
) -> np.ndarray:
    """The least or the largest along axes; plus or minus infinity for empty axes."""
    none = np.inf if least_or_most is np.min else -np.inf
    return np.asarray(least_or_most(np.where(np.isnan(values), none, values), axis=axes)).reshape(shape)


def _largest(array: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The largest number along axes, which are kept; 0 without any."""
    return np.asarray(np.nan_to_num(array, nan=0.0, posinf=np.inf).max(axis=axes, keepdims=True, initial=0.0))
