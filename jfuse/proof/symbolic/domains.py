"""Where functions are defined: terms that may be undefined neither cancel nor are multiplied away.

The logarithm of a negative number is NaN in a file, whatever it is multiplied by. So `0 * log(x)` is not 0, and
`log(x) - log(x)` is not either. A choice leaves the other branch out, NaN or not; a product with a bool does not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.proof.symbolic.atoms import Atoms, Family
from jfuse.proof.symbolic.blocks import Block, Picks, Stopped, present
from jfuse.proof.symbolic.forms import Form, Instance

_FROM_ZERO = frozenset({"sqrt"})
_ABOVE_ZERO = frozenset({"log", "reciprocal"})
_PARTIAL = frozenset({*_FROM_ZERO, *_ABOVE_ZERO, "pow", "rem", "tan"})
_NOT_NEGATIVE = frozenset({"exp", "relu", "sqrt"})
_WITHIN_ONE = frozenset({"tanh", "erf"})
_STRICT = frozenset({"exp", *_WITHIN_ONE})
"""Functions that do not reach the ends of their ranges."""

LOST = ("a term that may be undefined cancels", "a term that may be undefined, times 0")
"""Reasons to stop that tell a difference: one side is NaN where the normal form is a number."""


def is_undefined(atoms: Atoms, number: int) -> bool:
    """Whether the atoms of a family may be no number for some real operands."""
    known = atoms.undefined.get(number)
    if known is None:
        family = atoms.families[number]
        inner = [*(i for form in family.operands for i in form.blocks), *family.factors]
        known = any(is_undefined(atoms, i.family) for i in inner) or not _is_defined(atoms, family)
        atoms.undefined[number] = known
    return known


def mark(atoms: Atoms, families: Sequence[int], carried: Sequence[Form]) -> bool:
    """Note carries that a step may leave undefined; whether some were not known before."""
    new = [f for f, form in zip(families, carried, strict=True) if _terms(atoms, form) and not is_undefined(atoms, f)]
    if new:
        known = [f for f, is_known in atoms.undefined.items() if is_known and atoms.families[f].op == "carry"]
        atoms.undefined = dict.fromkeys((*known, *new), True)
    return bool(new)


def check_kept(atoms: Atoms, result: Form, *operands: Form) -> None:
    """Stop where a term that may be undefined is in no row of a sum, or not in those in which it was."""
    for form in operands:
        for instance, block in _terms(atoms, form):
            after = result.blocks.get(instance)
            is_lost = after is None or (form.rows == result.rows and bool((present(block) & ~present(after)).any()))
            if is_lost:
                raise Stopped(LOST[0])


def check_product(atoms: Atoms, result: Form, a: Form, b: Form) -> None:
    """Stop where a factor that may be undefined is multiplied by 0, or by a bool."""
    rows = _undefined_rows(atoms, a) | _undefined_rows(atoms, b)
    if not rows.any():
        return
    if (rows & ~_undefined_rows(atoms, result)).any():
        raise Stopped(LOST[1])
    if any(_terms(atoms, one) and _has_bool(atoms, other) for one, other in ((a, b), (b, a))):
        raise Stopped("a term that may be undefined, times a bool")


def has_undefined(atoms: Atoms, form: Form) -> bool:
    """Whether a form has terms that may be undefined."""
    return bool(_terms(atoms, form))


def _terms(atoms: Atoms, form: Form) -> list[tuple[Instance, Block]]:
    return [(i, b) for i, b in form.blocks.items() if is_undefined(atoms, i.family)]


def _undefined_rows(atoms: Atoms, form: Form) -> np.ndarray:
    rows = np.zeros(form.rows, bool)
    for _, block in _terms(atoms, form):
        rows |= present(block)
    return rows


def _has_bool(atoms: Atoms, form: Form) -> bool:
    return any(atoms.of(i).is_bool or any(atoms.of(f).is_bool for f in atoms.of(i).factors) for i in form.blocks)


def _is_defined(atoms: Atoms, family: Family) -> bool:
    if family.op not in _PARTIAL:
        return True
    if family.op not in _FROM_ZERO | _ABOVE_ZERO:
        return False
    least, is_above = _least(atoms, family.operands[0])
    error = family.operands[0].error
    if family.op in _FROM_ZERO and not error:
        return bool((least >= 0).all())
    return bool(((least > 2 * error) | ((least >= 0) & is_above & (not error))).all())


def _least(atoms: Atoms, form: Form) -> tuple[np.ndarray, np.ndarray]:
    """A lower bound of each row, and whether the row is above it."""
    least, is_above = form.constant.copy(), np.zeros(form.rows, bool)
    for instance, block in form.blocks.items():
        family = atoms.of(instance)
        factors: Any = block.scale if isinstance(block, Picks) else block.array
        low, high = _range(atoms, family)
        if isinstance(block, Picks):
            low, high = low[np.maximum(block.atoms, 0)], high[np.maximum(block.atoms, 0)]
            factors = np.where(block.atoms >= 0, factors, 0.0)
        with np.errstate(invalid="ignore"):
            ends = np.where(factors > 0, factors * low, np.where(factors < 0, factors * high, 0.0))
        least = least + (ends if ends.ndim == 1 else ends.sum(axis=1))
        is_above |= present(block) & (family.op in _STRICT)
    return least, is_above


def _range(atoms: Atoms, family: Family) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest value of each atom of a family."""
    low, high = np.full(family.size, -np.inf), np.full(family.size, np.inf)
    if family.is_bool or family.op in _WITHIN_ONE:
        return np.full(family.size, 0.0 if family.is_bool else -1.0), np.ones(family.size)
    if family.op in _NOT_NEGATIVE:
        low[:] = 0.0
    if family.op == "sqrt":
        (inner,) = family.operands
        low = np.sqrt(np.maximum(_least(atoms, inner)[0] - 2 * inner.error, 0.0))
    if len(family.factors) == 2 and family.factors[0] == family.factors[1]:  # squares
        low[family.chosen[:, 0] == family.chosen[:, 1]] = 0.0
    return low, high
