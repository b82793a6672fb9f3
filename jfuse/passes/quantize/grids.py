"""Weights that already lie on a grid, as training with quantization or an integer file left them.

Such weights keep their values: the grid is read from the numbers themselves, so that it does not matter which passes
moved, split or scaled them on the way.
"""

from __future__ import annotations

import numpy as np

_OFF = 1e-3
"""How far from a step a number may lie, in steps: a few roundings of f32 at 255 steps from zero stay below 1e-4. What
lies on a grid by chance is no worse off than otherwise, where half a step is lost."""
_PROBED = 16  # numbers of each channel that are looked at before all are


def grid_scale(array: np.ndarray, axes: tuple[int, ...], last: int) -> np.ndarray:
    """Find the finest step that divides all numbers along `axes`, at most `last` steps from zero: f32, 0 for none.

    A grid with one more step on the negative side counts where there is no other: its end is cut off by one step.
    axes: they stay with size 1 in the result.
    """
    axes = tuple(axis % array.ndim for axis in axes)
    row_axes = [i for i in range(array.ndim) if i not in axes]
    rows = np.transpose(array, (*row_axes, *axes)).reshape(int(np.prod([array.shape[i] for i in row_axes])), -1)
    shape = [1 if i in axes else size for i, size in enumerate(array.shape)]
    return _of_rows(rows.astype(np.float64), last).astype(np.float32).reshape(shape)


def _of_rows(rows: np.ndarray, last: int) -> np.ndarray:
    """The same of each row: f64[n]."""
    largest = np.abs(rows).max(axis=1, initial=0)
    scales = np.zeros(len(rows))
    probes = rows[:, :: max(rows.shape[1] // _PROBED, 1)] if rows.size else rows
    left = np.flatnonzero(largest > 0)
    for steps in (*range(last, 0, -1), last + 1):
        near = left[_are_steps(probes[left], largest[left] / steps)]
        near = near[_are_steps(rows[near], largest[near] / steps)]
        if steps > last:
            near = near[rows[near].max(axis=1, initial=0) < largest[near]]
        scales[near] = largest[near] / steps
        left = left[scales[left] == 0]
    return scales


def _are_steps(rows: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Which rows hold multiples of their step alone: bool[n]."""
    steps = rows / step[:, None]
    near: np.ndarray = np.abs(steps - np.rint(steps)).max(axis=1, initial=0) < _OFF
    return near
