"""Counting integers: sizes, positions along an axis, numbers of steps with a mask's value. They do not wrap."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.ir.dims import Dim, is_known
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Block, MatrixRows, Picks
from jfuse.proof.symbolic.forms import Form, Instance, Ref, added

WIDE = (np.dtype(np.int32), np.dtype(np.int64))
"""Integers that hold every size and place of an axis."""
_LARGEST = 2**31 - 1  # a size, in TFLite


def is_count(dim: Any) -> bool:
    """Whether a dimension is known not to be negative, as all sizes; `T - 1` is not, as T is 1 or more."""
    try:
        return bool(dim >= 0)
    except InconclusiveDimensionOperation:
        return False


def ramp(atoms: Atoms, size: Dim) -> int:
    """The family of the places of an axis."""
    return atoms.named(("iota", str(size)), 1, 1)


def count(atoms: Atoms, mask: int, value: int) -> int:
    """The family of how many steps of a mask have a value."""
    return atoms.named(("count", mask, value), 1, atoms.families[mask].arity - 1)


def last(atoms: Atoms, mask: int, value: int) -> int:
    """The family of the place of the last one of so many steps, 0 where there are none: max(count - 1, 0)."""
    return atoms.named(("last", mask, value), 1, atoms.families[mask].arity - 1)


def kind(atoms: Atoms, instance: Instance) -> str:
    """The kind of an atom that counts: "iota", "count", "last" or "dim"; "" for others."""
    op = atoms.of(instance).op
    return str(op[0]) if isinstance(op, tuple) and op[0] in ("iota", "count", "last", "dim") else ""


def whole(like: Form, instance: Instance, scale: float = 1.0) -> Form:
    """The only atom of an instance in each row."""
    block = Picks(np.zeros(like.rows, int), np.full(like.rows, scale))
    return Form(like.axes, {instance: block}, np.zeros(like.rows), 0.0)


def size_form(atoms: Atoms, like: Form, size: Dim) -> Form:
    """A size in each row."""
    if is_known(size):
        return Form(like.axes, {}, np.full(like.rows, float(size)), 0.0)
    return whole(like, Instance(atoms.named(("dim", str(size)), 1, 0), ()))


# Bounds


def bounds(atoms: Atoms, form: Form) -> tuple[np.ndarray, np.ndarray] | None:
    """The least and the largest integer that each row may be, where it is a sum of counts; else None."""
    if form.error:
        return None
    low, high = form.constant.copy(), form.constant.copy()
    for instance, block in form.blocks.items():
        most = _most(atoms, instance)
        if most is None or not isinstance(block, Picks):
            return None
        scale = np.where(block.atoms >= 0, block.scale, 0.0)
        low, high = low + np.minimum(scale, 0) * most, high + np.maximum(scale, 0) * most
        if (scale != np.round(scale)).any():
            return None
    return None if (form.constant != np.round(form.constant)).any() else (low, high)


def fits(atoms: Atoms, form: Form, dtype: np.dtype) -> bool:
    """Whether all rows are sums of counts that an integer type holds."""
    limits = bounds(atoms, form)
    if limits is None or dtype.kind not in "iu":
        return False
    info = np.iinfo(dtype)
    return bool((limits[0] >= info.min).all() and (limits[1] <= info.max).all())


def _most(atoms: Atoms, instance: Instance) -> int | None:
    """The largest value of an atom that is a bool, a count, or a product of these; None for others."""
    family = atoms.of(instance)
    if family.is_bool:
        return 1
    if family.factors:
        limits = [_most(atoms, i) for i in family.factors]
        known = [most for most in limits if most is not None]
        return int(np.prod(known, dtype=object)) if len(known) == len(limits) else None
    if not kind(atoms, instance):
        return None
    assert isinstance(family.op, tuple)
    size = atoms.padded[family.op[1]].size if family.op[0] in ("count", "last") else family.op[1]
    return int(size) if str(size).isdigit() else _LARGEST


# Masks


def front(atoms: Atoms, counted: Instance, step: Ref) -> tuple[Instance, int]:
    """The mask and its value that say whether a step is among the first ones of a "count" or a "last"."""
    op = atoms.of(counted).op
    assert isinstance(op, tuple)
    _, mask, value = op
    place, side, _ = atoms.padded[mask]
    comes_first = (side == "right") == bool(value)
    refs = (*counted.refs[:place], step.turned(not comes_first), *counted.refs[place:])
    return Instance(mask, refs), value


def masks(atoms: Atoms, form: Form) -> set[Instance]:
    """The masks that a form has as atoms or as factors of them."""
    return {i for i in factors(atoms, form) if i.family in atoms.padded}


def factors(atoms: Atoms, form: Form) -> set[Instance]:
    """The atoms of a form and their factors."""
    return {i for instance in form.blocks for i in _factors(atoms, instance)}


def _factors(atoms: Atoms, instance: Instance) -> Iterator[Instance]:
    return (i for i, _ in atoms.factors_of(instance, np.zeros(1, int)))


def assumed(atoms: Atoms, form: Form, mask: Instance, value: int) -> Form:
    """The form with a number in place of a mask, alone or as a factor."""
    result = Form(form.axes, {}, form.constant, form.error)
    for instance, block in form.blocks.items():
        if mask not in set(_factors(atoms, instance)):
            result = added(result, Form(form.axes, {instance: block}, np.zeros(form.rows), 0.0))
            continue
        if value:
            result = added(result, _without(atoms, form, instance, block, mask))
    return result.without_empty()


def _without(atoms: Atoms, like: Form, instance: Instance, block: Block, mask: Instance) -> Form:
    """A block whose products have no such factor."""
    columns = np.maximum(block.atoms, 0) if isinstance(block, Picks) else np.arange(block.width)
    left = [(i, a) for i, a in atoms.factors_of(instance, columns) if i != mask]
    if not left:
        ones = np.where(block.atoms >= 0, block.scale, 0.0) if isinstance(block, Picks) else block.array.sum(axis=1)
        return Form(like.axes, {}, ones, 0.0)
    result = Form(like.axes, {}, np.zeros(like.rows), 0.0)
    for places, other, which in atoms.product(left):
        if isinstance(block, Picks):
            chosen = np.full(like.rows, -1)
            chosen[places] = which
            chosen = np.where(block.atoms >= 0, chosen, -1)
            of_other: Block = Picks(chosen, np.where(chosen >= 0, block.scale, 0.0))
        else:
            matrix = np.zeros((like.rows, int(which.max()) + 1))
            np.add.at(matrix.T, which, block.array.T[places])
            of_other = MatrixRows.of(matrix)
        result = added(result, Form(like.axes, {other: of_other}, np.zeros(like.rows), 0.0))
    return result


def positive(atoms: Atoms, form: Form) -> Form | None:
    """1 where a sum of counts is above 0, else 0, in terms of masks; None where that is not known.

    Of products with a mask both cases are taken. `t < count` is the mask, where the steps that count come first.
    """
    limits = bounds(atoms, form)
    if limits is None:
        return None
    for value, holds in ((0.0, limits[1] <= 0), (1.0, limits[0] > 0)):
        if holds.all():
            return Form(form.axes, {}, np.full(form.rows, value), 0.0)
    flags = masks(atoms, form)
    if flags and any(kind(atoms, i) for i in factors(atoms, form)):
        return _by_cases(atoms, form, min(flags))
    return _is_front(atoms, form)


def _by_cases(atoms: Atoms, form: Form, mask: Instance) -> Form | None:
    cases = [positive(atoms, assumed(atoms, form, mask, value)) for value in (0, 1)]
    if any(case is None or masks(atoms, case) - {mask} or len(case.blocks) > 1 for case in cases):
        return None
    no, yes = (assumed(atoms, case, mask, value) for value, case in enumerate(cases) if case is not None)
    factors = yes.constant - no.constant
    return added(no, whole(form, mask).scale(factors)).without_empty()


def _is_front(atoms: Atoms, form: Form) -> Form | None:
    """The mask for `count - t` and its contrary for `t - count + 1`."""
    if form.rows != 1 or len(form.blocks) != 2:
        return None
    scales = {kind(atoms, i): (i, float(b.scale[0])) for i, b in form.blocks.items() if isinstance(b, Picks)}
    if scales.keys() != {"iota", "count"}:
        return None
    (place, of_place), (counted, of_count) = scales["iota"], scales["count"]
    mask, value = front(atoms, counted, place.refs[0])
    if atoms.of(place).op != ("iota", str(atoms.padded[mask.family].size)):
        return None
    holds = {(-1.0, 1.0, 0.0): value, (1.0, -1.0, 1.0): 1 - value}.get((of_place, of_count, float(form.constant[0])))
    if holds is None:
        return None
    one = whole(form, mask)
    return one if holds else one.scale(-1.0).plus(1.0)
