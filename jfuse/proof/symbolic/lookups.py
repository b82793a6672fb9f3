"""Lookups at places that are counted: the last step of a mask, and the steps of each row in reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, same
from jfuse.proof.symbolic import counts, moves
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Block, MatrixRows, Picks
from jfuse.proof.symbolic.comparison import equal
from jfuse.proof.symbolic.forms import Form, Instance, Ref, added, open_numbers
from jfuse.proof.symbolic.functions import choice, minus, positive

_BOUND = Ref("bound", 0)  # the step that is looked up


def scalar(like: Form) -> Form:
    """The constant 0 with the open axes of a form, as one row."""
    parts = tuple((part,) for part in like.parts if part[1])
    return Form(parts, {}, np.zeros(1), 0.0)


def looked_up(atoms: Atoms, form: Form, ref: Ref, index: Form, size: Dim) -> Form:
    """The form with an index in place of one of its own.   index: one row, whose open axes are those of the form

    size: of the axis of the index. Where the index is the last step of a prefix, masks that tell this are known.
    """
    form = form.with_refs({ref: _BOUND})
    ((instance, _),) = index.blocks.items() if len(index.blocks) == 1 else ((None, None),)
    if instance is not None and counts.kind(atoms, instance) == "last":
        mask, value = counts.front(atoms, instance, _BOUND)
        if mask in counts.masks(atoms, form):
            cases = [_lookup(atoms, counts.assumed(atoms, form, mask, v), index, size) for v in (value, 1 - value)]
            op = atoms.of(instance).op
            assert isinstance(op, tuple)
            count = Instance(counts.count(atoms, *op[1:]), instance.refs)
            return choice(atoms, positive(atoms, counts.whole(form, count)), *cases)
    return _lookup(atoms, form, index, size)


def _lookup(atoms: Atoms, form: Form, index: Form, size: Dim) -> Form:
    """The atoms of a form at an index in place of the bound one, counted from the same end however it is spelled."""
    bound = {r.flipped for i in form.blocks for r in i.refs if (r.kind, r.number) == (_BOUND.kind, _BOUND.number)}
    if bound == {True}:
        form = form.with_refs({_BOUND: _BOUND.turned(True)})
        index = minus(counts.size_form(atoms, index, size).plus(-1.0), index)
    index = _upwards(atoms, index, size)
    result = Form(form.axes, {}, form.constant, form.error)
    for instance, block in form.blocks.items():
        if all((r.kind, r.number) != (_BOUND.kind, _BOUND.number) for r in instance.refs):
            result = added(result, Form(form.axes, {instance: block}, np.zeros(form.rows), 0.0))
        else:
            result = added(result, _block_at(atoms, form, instance, block, index))
    return result.without_empty()


def _upwards(atoms: Atoms, index: Form, size: Dim) -> Form:
    """The index with places that are counted from the end, where they had negative factors."""
    result = index
    for instance, block in index.blocks.items():
        if counts.kind(atoms, instance) == "iota" and isinstance(block, Picks) and (block.scale < 0).all():
            turned = Instance(instance.family, tuple(r.turned(True) for r in instance.refs))
            end = minus(counts.size_form(atoms, index, size).plus(-1.0), counts.whole(index, turned))
            factor = float(block.scale[0])
            result = added(minus(result, counts.whole(index, instance, factor)), end.scale(factor))
    return result.without_empty()


def _block_at(atoms: Atoms, like: Form, instance: Instance, block: Block, index: Form) -> Form:
    if isinstance(block, Picks):
        picked = Form(like.axes, {instance: Picks(np.maximum(block.atoms, 0), np.ones(like.rows))}, np.zeros(like.rows))
        scale = np.where(block.atoms >= 0, block.scale, 0.0)
        return atoms.function("lookup", [picked, _repeated(index, picked)], bound=_BOUND).scale(scale)
    columns = np.arange(block.width)
    each = Form((((len(columns), False),),), {instance: Picks(columns, np.ones(len(columns)))}, np.zeros(len(columns)))
    result = Form(like.axes, {}, np.zeros(like.rows), 0.0)
    for other, picks in atoms.function("lookup", [each, _repeated(index, each)], bound=_BOUND).blocks.items():
        assert isinstance(picks, Picks)
        (here,) = np.nonzero(picks.atoms >= 0)
        matrix = np.zeros((like.rows, int(picks.atoms.max()) + 1))
        np.add.at(matrix.T, picks.atoms[here], block.array.T[here])
        result = added(result, Form(like.axes, {other: MatrixRows.of(matrix)}, np.zeros(like.rows), 0.0))
    return result


def _repeated(index: Form, like: Form) -> Form:
    return index.take(np.zeros(like.rows, int), like.axes)


# Patterns of primitives


def counted(atoms: Atoms, form: Form, axes: Sequence[int]) -> Form | None:
    """The sum of a mask, or of its negation, along the steps; else None."""
    if len(axes) != 1 or form.rows != 1 or len(form.blocks) != 1 or form.error or len(form.axes[axes[0]]) != 1:
        return None
    ((mask, block),) = form.blocks.items()
    if mask.family not in atoms.padded or not isinstance(block, Picks) or not form.is_open(axes[0]):
        return None
    number = open_numbers(form.parts)[sum(len(a) for a in form.axes[: axes[0]])]
    place = atoms.padded[mask.family].place
    rows = (*mask.refs[:place], *mask.refs[place + 1 :])
    is_along = [(r.kind, r.number) == ("axis", number) for r in mask.refs]
    factors = (float(form.constant[0]), float(block.scale[0]))
    if sum(is_along) != 1 or not is_along[place] or factors not in {(0.0, 1.0), (1.0, -1.0)}:
        return None
    count = Instance(counts.count(atoms, mask.family, int(factors[1] > 0)), rows)
    one = Form(form.axes, {count: Picks(np.zeros(1, int), np.ones(1))}, np.zeros(1), 0.0)
    return moves.dropped_axis(one, axes[0])


def last_counted(atoms: Atoms, form: Form, least: Form) -> Form | None:
    """max(count - 1, 0), the last step that counts; else None."""
    is_zero = least.is_constant and not least.error and not least.constant.any()
    if not is_zero or form.error or len(form.blocks) != 1 or form.constant.tolist() != [-1.0]:
        return None
    ((count, block),) = form.blocks.items()
    if counts.kind(atoms, count) != "count" or not isinstance(block, Picks) or block.scale.tolist() != [1.0]:
        return None
    op = atoms.of(count).op
    assert isinstance(op, tuple)
    return counts.whole(form, Instance(counts.last(atoms, *op[1:]), count.refs))


def gathered(atoms: Atoms, form: Form, index: Form, numbers: Any, sizes: Sequence[object]) -> Form | None:
    """x[b, last counted step of b, ...] of x[b, t, ...]; else None."""
    dims = (numbers.collapsed_slice_dims, numbers.start_index_map)
    if dims != ((0, 1), (0, 1)) or numbers.operand_batching_dims or index.rows != 2 or index.error:
        return None
    rank = len(index.axes) - 1
    if tuple(numbers.offset_dims) != tuple(range(rank, rank + len(form.axes) - 2)):
        return None
    whole = all(same(a, b) is True for a, b in zip(sizes[2:], form.shape[2:], strict=True))
    if not whole or index.constant.any() or len(form.axes[1]) != 1 or not form.is_open(1) or len(form.axes[0]) > 1:
        return None
    row, last = (_only_atom(index, k) for k in range(2))
    if last is None or counts.kind(atoms, last) != "last":
        return None
    if form.axes[0]:
        batch = form.axes[0][0]
        own = row is not None and counts.kind(atoms, row) == "iota" and row.refs == (Ref("axis", 0),)
        if not own or not batch[1] or [p for p in index.parts if p[1]] != [batch] or last.refs != (Ref("axis", 0),):
            return None
    elif row is not None or last.refs or any(is_open for _, is_open in index.parts):
        return None
    size, steps = form.shape[1], moves.at(form, 1, _BOUND)
    return looked_up(atoms, steps, _BOUND, counts.whole(scalar(steps), last), size)


def gathered_in_rows(atoms: Atoms, form: Form, index: Form, numbers: Any) -> Form | None:
    """x[..., i[t], ...] along one axis, where the first `count` steps of each row are in reverse; else None.

    That is i[t] = count - 1 - t where t < count, else t, which is within the axis.
    """
    (axis, *others) = numbers.collapsed_slice_dims or (None,)
    wide = [a for a, parts in enumerate(form.axes) if parts]  # the other axes are of one place
    if others or axis is None or numbers.start_index_map != (axis,) or axis not in wide:
        return None
    rest = tuple(a for a in wide if a != axis)
    batching = (tuple(numbers.operand_batching_dims), tuple(numbers.start_indices_batching_dims))
    if batching != (rest, tuple(wide.index(a) for a in rest)):
        return None
    if tuple(numbers.offset_dims) != tuple(a for a, parts in enumerate(form.axes) if not parts):
        return None
    if index.error or len(index.axes) != len(wide) + 1 or len(form.axes[axis]) != 1 or not form.is_open(axis):
        return None
    index = moves.reshaped(index, form.shape)
    index, form = moves.aligned(index, form)
    counters = {counts.kind(atoms, i): i for i in counts.factors(atoms, index)}
    if not {"iota", "count"} <= counters.keys():
        return None
    step = Ref("axis", open_numbers(form.parts)[sum(len(a) for a in form.axes[:axis])])
    own, size = counters["iota"].refs[0], form.shape[axis]
    if own.turned(own.flipped) != step or atoms.of(counters["iota"]).op != ("iota", str(size)):
        return None
    like = scalar(form)
    here, count = (counts.whole(like, i) for i in (counters["iota"]._replace(refs=(step,)), counters["count"]))
    mask, value = counts.front(atoms, counters["count"], step)
    if str(atoms.padded[mask.family].size) != str(size):
        return None
    flag = counts.whole(like, mask) if value else counts.whole(like, mask).scale(-1.0).plus(1.0)
    back = minus(count, here).plus(-1.0)
    if not equal(index.take(np.zeros(1, int), like.axes), choice(atoms, flag, back, here)):
        return None
    if not equal(index, index.take(np.zeros(index.rows, int))):
        return None
    bound, value = counts.front(atoms, counters["count"], _BOUND)
    turned = counts.assumed(atoms, form.with_refs({step: _BOUND}), bound, value)
    looked = looked_up(atoms, turned, _BOUND, back, size)
    return choice(atoms, flag.take(np.zeros(form.rows, int), form.axes), looked, form)


def _only_atom(form: Form, row: int) -> Instance | None:
    atoms_of_row = [(i, b) for i, b in form.blocks.items() if not isinstance(b, Picks) or b.atoms[row] >= 0]
    if len(atoms_of_row) != 1 or not isinstance(atoms_of_row[0][1], Picks) or atoms_of_row[0][1].scale[row] != 1.0:
        return None
    return atoms_of_row[0][0]
