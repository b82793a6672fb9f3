"""Tells from the values of a mask on which side it is padded."""

from __future__ import annotations

import numpy as np


def side_of_values(steps: np.ndarray) -> str | None:
    """Of bool[t,…], or of numbers that are 0 and 1 as such; all True is right padding by nothing."""
    if not np.isin(steps, (0, 1)).all():
        return None
    values = steps.astype(np.int8)
    change = np.diff(values, axis=0)
    return "right" if (change <= 0).all() else "left" if (change >= 0).all() else None
