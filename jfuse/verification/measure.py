"""How far two arrays are apart."""

from __future__ import annotations

import numpy as np


def relative_error(found: np.ndarray, wanted: np.ndarray) -> float:
    """max|a - b| / max|b|; equal NaNs and infinities differ by 0, anything but floats by 0 or infinity."""
    if found.shape != wanted.shape:
        return float("inf")
    if wanted.dtype.kind not in "fcV":  # V: bfloat16 and the 8-bit floats
        return 0.0 if np.array_equal(found, wanted) else float("inf")
    wide = np.complex128 if wanted.dtype.kind == "c" else np.float64
    a, b = found.astype(wide), wanted.astype(wide)
    odd = ~(np.isfinite(a) & np.isfinite(b))
    if not np.array_equal(a[odd], b[odd], equal_nan=True):
        return float("inf")
    worst = float(np.abs(a - b)[~odd].max(initial=0.0))
    largest = float(np.abs(b)[~odd].max(initial=0.0))
    if worst == 0.0:
        return 0.0
    return worst / largest if largest else float("inf")
