"""Whether forms are equal, coefficient by coefficient."""

from __future__ import annotations

import numpy as np

from jfuse.proof.symbolic.blocks import MatrixRows, Picks, Stopped
from jfuse.proof.symbolic.forms import RELATIVE, RESIDUE, Form, Ref, open_numbers, with_part


def difference(a: Form, b: Form, allowance: float = 0.0) -> np.ndarray:
    """Whether each row of two forms differs by more than the rounding of its constants.   bool[rows]

    allowance: how far entries may be apart relative to themselves; 0 for none.
    """
    bound = 2 * (a.error + b.error)
    magnitude = max(a.magnitude, b.magnitude, 2.0**-100)
    if not np.isfinite(magnitude):
        raise Stopped("constants beyond float64")
    if not a.magnitude and not b.magnitude and bound <= RESIDUE:
        return np.zeros(a.rows, bool)  # all coefficients are 0 on both sides
    if bound > 2.0**-26 * magnitude:
        raise Stopped("constants whose rounding is not small")
    differs, zero = _apart(a.constant, b.constant, bound, allowance), np.zeros(a.rows)
    for instance in a.blocks.keys() | b.blocks.keys():
        mine, other = a.blocks.get(instance), b.blocks.get(instance)
        if isinstance(mine, Picks) and isinstance(other, Picks):
            left, right = np.where(mine.atoms >= 0, mine.scale, 0.0), np.where(other.atoms >= 0, other.scale, 0.0)
            same = mine.atoms == other.atoms
            neither = ~_apart(left, zero, bound, 0.0) & ~_apart(right, zero, bound, 0.0)
            differs |= np.where(same, _apart(left, right, bound, allowance), ~neither)
            continue
        if isinstance(mine, MatrixRows) and isinstance(other, MatrixRows) and mine.is_alike(other):
            continue
        size = max(block.width for block in (mine, other) if block is not None)
        left, right = (np.zeros((a.rows, size)) if x is None else x.dense(size) for x in (mine, other))
        differs |= _apart(left, right, bound, allowance).any(axis=1)
    return differs


def _apart(a: np.ndarray, b: np.ndarray, bound: float, allowance: float) -> np.ndarray:
    gap = np.abs(a - b)
    result = np.asarray(~(gap <= (bound + allowance * np.minimum(np.abs(a), np.abs(b)) if allowance else bound)))
    if bound > RELATIVE * RESIDUE:
        # A small entry may be the epsilon below a root: the bound alone, which is that of all entries, would hide it.
        size = np.maximum(np.abs(a), np.abs(b))
        result |= (gap > RELATIVE * size) & (size > RESIDUE)
    return result


def equal(a: Form, b: Form, allowance: float = 0.0) -> bool:
    """Whether all rows of two forms of the same axes are equal up to the rounding of their constants."""
    return not difference(a, b, allowance).any()


def opened(form: Form, part: int) -> Form | None:
    """The form with a closed part open, where its rows are the same along it; else None."""
    sizes = [int(s) for s, o in form.parts if not o]
    before = sum(not o for _, o in form.parts[:part])
    grid = np.arange(form.rows).reshape(sizes)
    if not grid.size:
        return None
    first = np.take(grid, [0], axis=before)
    if not equal(form, form.take(np.broadcast_to(first, grid.shape).reshape(-1))):
        return None
    numbers = [n for p, n in open_numbers(form.parts).items() if p > part]
    change = {Ref("axis", n): Ref("axis", n + 1) for n in numbers}
    return form.take(first.reshape(-1), with_part(form.axes, part, (form.parts[part][0], True))).with_refs(change)
