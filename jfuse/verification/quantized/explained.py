"""How much of a difference rounding explains: root mean squares, over all elements and of each one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jfuse.base.measure import Measure


@dataclass(frozen=True)
class ExplainedError:
    """A difference and its explained part, both as root mean squares in the output's own units.

    error: of all elements, or of the one with the largest unexplained error, if that is worse.
    limit: the largest error that is explained. unit: the root mean square of the reference. worst: the number of the
    sample with the largest error.
    """

    error: float
    limit: float
    unit: float
    measure: Measure
    worst: int = 0


def explained(
    found: np.ndarray, wanted: np.ndarray, noise: np.ndarray, times: float, tolerance: float
) -> ExplainedError:
    """Judge a difference against `times` the noise.

    found, wanted: [samples, ...]. noise: [draws, samples, ...], differences that rounding makes. tolerance: what f32
    sums make besides, relative to the largest number of `wanted`.

    An element's error may be larger by sqrt(2 ln n) deviations, about the largest of n normal numbers; elements that
    rounding moves less than all of them together are measured by those. Numbers that are finite on one side alone
    differ by infinity. Integers, bools and texts differ by 1 where they are not equal, and one of all may.
    """
    errors = _apart(found, wanted).reshape(len(wanted), -1)
    unit = root_mean_square(wanted)
    one = 1 / (times * np.sqrt(max(1, wanted.size))) if times else 0.0
    least = tolerance * _largest(wanted) if wanted.dtype.kind in "fV" else one
    moved = noise.reshape(-1, errors.shape[1])
    power = float(np.hypot(np.sqrt(np.mean(np.square(moved))) if moved.size else 0.0, least))
    of_all, limit = float(np.sqrt(np.mean(np.square(errors)))) if errors.size else 0.0, times * power
    measure = Measure.of(found, wanted)
    if not errors.size:
        return ExplainedError(0.0, limit, unit, measure)
    worst = int(np.argmax(np.abs(errors).max(1)))
    of_each = np.sqrt(np.mean(np.square(errors), 0))
    moved_each = np.sqrt(np.mean(np.square(moved), 0)) if moved.size else np.zeros(errors.shape[1])
    limits = (times + np.sqrt(2 * np.log(errors.shape[1]))) * np.maximum(moved_each, power)
    element = int(np.argmax(of_each - limits))
    if of_all <= limit and of_each[element] > limits[element]:
        return ExplainedError(float(of_each[element]), float(limits[element]), unit, measure, worst)
    return ExplainedError(of_all, limit, unit, measure, worst)


def differences(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """As `explained` counts them, for noise: f64 of the same shape, 0 where one of both is not finite."""
    apart = _apart(found, wanted)
    return np.where(np.isfinite(apart), apart, 0.0)


def _apart(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    if wanted.dtype.kind not in "f":
        return np.asarray(found != wanted, np.float64)
    a, b = found.astype(np.float64), wanted.astype(np.float64)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    with np.errstate(invalid="ignore"):
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        return np.asarray(np.where(odd, np.where(same, 0.0, np.inf), a - b))


def root_mean_square(array: np.ndarray) -> float:
    """The root mean square of the finite numbers; 1 if all are zero, and for other types than floats."""
    if array.dtype.kind not in "fV":
        return 1.0
    numbers = array[np.isfinite(array)].astype(np.float64)
    return float(np.sqrt(np.mean(np.square(numbers)))) or 1.0 if numbers.size else 1.0


def _largest(array: np.ndarray) -> float:
    return float(np.abs(array[np.isfinite(array)]).max(initial=0.0))
