"""Two results of one row, compared: integers, bools and strings exactly, floats within the row's tolerance."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np


def assert_close(found: Sequence[Any], wanted: Sequence[np.ndarray], tolerance: float) -> None:
    """Fail where numbers, dtypes or shapes differ.

    tolerance: of each element relative to itself, or to a tenth of the largest one where sums cancel.
    """
    assert len(found) == len(wanted)
    for i, (f, w) in enumerate(zip(found, wanted, strict=True)):
        array = np.asarray(f)
        assert (array.dtype, array.shape) == (w.dtype, w.shape), f"result {i}"
        if w.dtype.kind == "c":
            _assert_floats(_parts(array), _parts(w), tolerance)
        elif w.dtype.kind in "fV":
            _assert_floats(array.astype(np.float64), w.astype(np.float64), tolerance)
        else:
            np.testing.assert_array_equal(array, w)


def _parts(numbers: np.ndarray) -> np.ndarray:
    """Real and imaginary parts along a new first axis."""
    return np.stack([numbers.real, numbers.imag]).astype(np.float64)


def _assert_floats(found: np.ndarray, wanted: np.ndarray, tolerance: float) -> None:
    finite = np.abs(wanted[np.isfinite(wanted)])
    floor = tolerance * finite.max() / 10 if finite.size else 0.0
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=floor)
