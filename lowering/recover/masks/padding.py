"""Proves before the model runs that a mask is padding, on the right or on the left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Eqn, Op, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.lowering.rule_tools.padding_side import side_of_values

_OTHER = {"right": "left", "left": "right"}
_RISES: Mapping[Op, int] = {ops.less: 1, ops.less_equal: 1, ops.greater: 0, ops.greater_equal: 0}
"""The operand whose larger values make a comparison true."""
_COMPARISONS = frozenset({*_RISES, ops.equal, ops.not_equal})


@dataclass(frozen=True)
class Padding:
    """side: "right" (True up to a length, then False), "left" (False first), None where data decides.

    Then `root` is the value that decides, `axis` its axis of steps; `flipped` says whether the mask is its reverse or
    its negation, `negated` whether it is its negation.
    """

    side: str | None
    root: Atom
    axis: int
    flipped: bool = False
    negated: bool = False

    def promised(self, side: str, counts: bool = True) -> str:
        """The side of the mask where the steps of the root that do not count are promised to stand on a side.

        counts: the value of the mask where a step counts.
        """
        return _OTHER[side] if self.flipped ^ self.negated ^ (not counts) else side


def padding_of(mask: Atom, axis: int, made: Mapping[Var, Eqn], flipped: bool = False) -> Padding:
    """The side of a mask along an axis, by the operators that make it: comparisons of step numbers with lengths."""
    if isinstance(mask, Const):
        return Padding(_turned(side_of_values(np.moveaxis(mask.array, axis, 0)), flipped), mask, axis, flipped)
    eqn = made.get(mask)
    if eqn is None:
        return Padding(None, mask, axis, flipped)
    operand = eqn.inputs[0] if eqn.inputs else None
    if eqn.op is ops.logical_not and operand is not None:
        padding = padding_of(operand, axis, made, not flipped)
        return replace(padding, negated=not padding.negated)
    if eqn.op is ops.sub and isinstance(operand, Const) and (operand.array == 1).all():  # a mask of 0 and 1
        negated = eqn.inputs[1]
        if negated is not None and negated.type.shape == eqn.outputs[0].type.shape:
            padding = padding_of(negated, axis, made, not flipped)
            return replace(padding, negated=not padding.negated)
    if eqn.op is ops.logical_and:
        return _of_both(eqn, axis, made, flipped)
    if (split_ := _told_apart(eqn, made)) is not None:
        numbers, negates = split_
        padding = padding_of(numbers, axis, made, flipped != negates)
        return replace(padding, negated=padding.negated != negates)
    if eqn.op in _RISES:
        side = _side_of_comparison(eqn, axis, made)
        return Padding(_turned(side, flipped), mask, axis, flipped)
    if operand is not None and _takes_rows_in_order(eqn, axis, made):
        padding = padding_of(operand, axis, made, flipped)
        return padding if padding.side is None else Padding(None, mask, axis, flipped)
    moved = _moved(eqn, axis)
    if moved is None or operand is None:
        return Padding(None, mask, axis, flipped)
    source_axis, turned = moved
    return padding_of(operand, source_axis, made, flipped != turned)


def _turned(side: str | None, flipped: bool) -> str | None:
    return _OTHER[side] if side and flipped else side


def _told_apart(eqn: Eqn, made: Mapping[Var, Eqn]) -> tuple[Atom, bool] | None:
    """The mask of 0 and 1 that is compared with a number which is between them, and whether the result negates it."""
    if eqn.op not in _COMPARISONS:
        return None
    for numbers, limit in (eqn.inputs, eqn.inputs[::-1]):
        if isinstance(limit, Const) and limit.array.size == 1 and numbers is not None and _is_binary(numbers, made):
            pairs = [np.asarray(n, numbers.type.dtype.numpy) for n in (0, 1)]
            operand_rows = [[limit.array.reshape(()) if a is limit else n for a in eqn.inputs] for n in pairs]
            at = [bool(eqn.op.run(operands, eqn.params, ())[0]) for operands in operand_rows]
            return (numbers, at[0]) if at[0] != at[1] and numbers.type.rank == eqn.outputs[0].type.rank else None
    return None


def _is_binary(atom: Atom | None, made: Mapping[Var, Eqn]) -> bool:
    """Whether numbers are 0 and 1 alone: a mask as numbers, or one minus such."""
    while isinstance(atom, Var) and atom.type.dtype is not DType.bool:
        eqn = made.get(atom)
        if eqn is None:
            return False
        first = eqn.inputs[0] if eqn.inputs else None
        if eqn.op is ops.sub and isinstance(first, Const) and (first.array == 1).all():
            atom = eqn.inputs[1]
        elif eqn.op is ops.cast or any(_moved(eqn, axis) is not None for axis in range(eqn.outputs[0].type.rank)):
            atom = first
        else:
            return False
    return atom is not None and (not isinstance(atom, Const) or bool(np.isin(atom.array, (0, 1)).all()))


def _of_both(eqn: Eqn, axis: int, made: Mapping[Var, Eqn], flipped: bool) -> Padding:
    (result,) = eqn.outputs
    sides = set()
    for atom in eqn.inputs:
        assert atom is not None
        own = axis - (result.type.rank - atom.type.rank)
        if own < 0 or same(atom.type.shape[own], result.type.shape[axis]) is not True:
            return Padding(None, result, axis, flipped)
        sides.add(padding_of(atom, own, made, flipped).side)
    return Padding(sides.pop() if len(sides) == 1 else None, result, axis, flipped)


def _side_of_comparison(eqn: Eqn, axis: int, made: Mapping[Var, Eqn]) -> str | None:
    """The side where one operand counts steps along the axis and the other does not change along it."""
    (result,) = eqn.outputs
    for place, atom in enumerate(eqn.inputs):
        other = eqn.inputs[1 - place]
        if atom is None or other is None or not _is_constant_along(other, axis, result.type.rank):
            continue
        own = axis - (result.type.rank - atom.type.rank)
        if own >= 0 and _counts_up(atom, own, made):
            return "left" if _RISES[eqn.op] == place else "right"  # larger steps make it true, or false
    return None


def _is_constant_along(atom: Atom, axis: int, rank: int) -> bool:
    own = axis - (rank - atom.type.rank)
    return own < 0 or same(atom.type.shape[own], 1) is True


def _counts_up(atom: Atom, axis: int, made: Mapping[Var, Eqn]) -> bool:
    """Whether the values never fall along an axis: a constant, or a RANGE with a positive step, moved about."""
    while isinstance(atom, Var):
        eqn = made.get(atom)
        if eqn is None:
            return False
        if eqn.op is ops.range_:
            step = eqn.inputs[2]
            value = None if step is None else static_value(step)
            return isinstance(value, int) and value > 0
        moved = _moved(eqn, axis)
        operand = eqn.inputs[0]
        if moved is None or moved[1] or operand is None:
            return False
        atom, axis = operand, moved[0]
    return bool((np.diff(atom.array, axis=axis) >= 0).all())


def _takes_rows_in_order(eqn: Eqn, axis: int, made: Mapping[Var, Eqn]) -> bool:
    """Whether a GATHER takes rows along an axis in their order: of a mask with an open length of its own.

    A loop reads it at its counter, which stays within the mask, though nothing but the source's own check says so: what
    is promised of the whole mask is true of these rows as well.
    """
    if eqn.op is not ops.gather or eqn.params["batch_dims"] or eqn.params["axis"] != axis:
        return False
    operand, counter = eqn.inputs
    if counter is None or operand is None or counter.type.rank != 1:
        return False
    around = made.get(counter) if isinstance(counter, Var) else None
    if around is not None and around.op is ops.floor_mod:
        counter, size = around.inputs
        known = None if size is None else static_value(size)
        if counter is None or known is None or same(known, operand.type.shape[axis]) is not True:
            return False
    return _counts_up(counter, 0, made)


def _moved(eqn: Eqn, axis: int) -> tuple[int, bool] | None:
    """Where an axis of the result of a layout op lies in its operand, and whether it is reversed; None for others."""
    (result,) = eqn.outputs
    operand = eqn.inputs[0]
    if operand is None:
        return None
    if eqn.op is ops.transpose:
        permutation = None if eqn.inputs[1] is None else static_value(eqn.inputs[1])
        return None if permutation is None else (int(permutation[axis]), False)
    if eqn.op is ops.reverse_v2:
        axes = None if eqn.inputs[1] is None else static_value(eqn.inputs[1])
        return None if axes is None else (axis, axis in {a % result.type.rank for a in axes})
    if eqn.op in (ops.expand_dims, ops.squeeze, ops.reshape):
        return _through_units(operand, result, axis)
    source, wanted = operand.type.dtype, result.type.dtype
    if eqn.op is ops.cast and (wanted.is_float or source in (wanted, DType.bool) or _holds_steps(source, wanted)):
        return axis, False
    return None


def _holds_steps(source: DType, wanted: DType) -> bool:
    """Whether a CAST between integers wraps no number of steps, nor lengths: below 32 bits it may."""
    return source.is_integer and wanted.is_integer and wanted.numpy.itemsize >= 4


def _through_units(operand: Atom, result: Var, axis: int) -> tuple[int, bool] | None:
    """The axis in the operand of an op that only adds and removes dimensions of 1."""
    old = [i for i, d in enumerate(operand.type.shape) if same(d, 1) is not True]
    new = [i for i, d in enumerate(result.type.shape) if same(d, 1) is not True]
    alike = len(old) == len(new) and all(
        same(operand.type.shape[i], result.type.shape[j]) is True for i, j in zip(old, new, strict=True)
    )
    return (old[new.index(axis)], False) if alike and axis in new else None
