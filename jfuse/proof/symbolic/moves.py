"""Movement of elements: which row of a form each element of a result is. Values are not looked at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod

import numpy as np

from jfuse.ir.dims import Dim, is_known, same
from jfuse.proof.symbolic.blocks import Block, MatrixRows, Picks, Stopped, limit
from jfuse.proof.symbolic.comparison import opened
from jfuse.proof.symbolic.counts import is_count
from jfuse.proof.symbolic.forms import (
    ULP,
    Form,
    Front,
    Instance,
    MustClose,
    Part,
    Ref,
    Turned,
    added,
    closed,
    constant,
    open_numbers,
)

Axes = tuple[tuple[Part, ...], ...]


def grid(form: Form) -> np.ndarray:
    """The numbers of the rows, one axis for each axis of the form, of size 1 where it is open."""
    return np.arange(form.rows).reshape(grid_shape(form))


def grid_shape(form: Form) -> list[int]:
    """The number of closed places of each axis."""
    return [prod(form.closed_sizes(axis)) for axis in range(len(form.axes))]


def moved(form: Form, rows: np.ndarray, axes: Axes) -> Form:
    """The form whose rows are these of another, whose open parts keep their order."""
    limit(rows.size)
    return form.take(rows.reshape(-1), axes)


def _is_plain(form: Form) -> bool:
    """Whether it is an array and nothing else."""
    return form.is_constant and not any(is_open for _, is_open in form.parts)


def aligned(*forms: Form) -> list[Form]:
    """Forms of one shape with the same parts, closed or open where they must be."""
    if all(form.axes == forms[0].axes for form in forms):
        return list(forms)
    shaped = list(forms)
    for axis in range(len(forms[0].axes)):
        shaped = _same_parts(shaped, axis)
    for part in range(len(shaped[0].parts)):
        shaped = _same_openness(shaped, part)
    return shaped


def _same_parts(forms: Sequence[Form], axis: int) -> list[Form]:
    """The forms with an axis split into the same factors: those of the one that has the most."""
    finest = max((form.axes[axis] for form in forms), key=len)
    return [form if _factors(form, axis, finest) else _split(form, axis, finest) for form in forms]


def _factors(form: Form, axis: int, parts: tuple[Part, ...]) -> bool:
    mine = form.axes[axis]
    return len(mine) == len(parts) and all(same(a, b) is True for (a, _), (b, _) in zip(mine, parts, strict=True))


def _split(form: Form, axis: int, parts: tuple[Part, ...]) -> Form:
    mine = form.axes[axis]
    if len(mine) > 1:
        raise Stopped("an axis with other factors")
    if not mine:  # of size 1
        raise Stopped("an implicit broadcast")
    ((size, is_open),) = mine
    first = sum(len(a) for a in form.axes[:axis])
    if not is_open:
        axes = (*form.axes[:axis], tuple((s, False) for s, _ in parts), *form.axes[axis + 1 :])
        return Form(axes, form.blocks, form.constant, form.error)
    count = open_numbers(form.parts)[first]
    if form.uses(count):
        raise Stopped(f"an axis of {size} with other factors")
    after = [n for n in open_numbers(form.parts).values() if n > count]
    change = {Ref("axis", n): Ref("axis", n + len(parts) - 1) for n in after}
    return form.with_refs(change, (*form.axes[:axis], tuple((s, True) for s, _ in parts), *form.axes[axis + 1 :]))


def _same_openness(forms: list[Form], part: int) -> list[Form]:
    states = [form.parts[part][1] for form in forms]
    if all(states) or not any(states):
        return forms
    used = [s and f.uses(open_numbers(f.parts)[part]) for f, s in zip(forms, states, strict=True)]
    if not any(used):
        return [closed(f, part) if s else f for f, s in zip(forms, states, strict=True)]
    changed = [f if s else opened(f, part) for f, s in zip(forms, states, strict=True)]
    if any(f is None for f in changed):
        raise MustClose(forms[0].parts[part][0], "positions differ along")
    return [f for f in changed if f is not None]


def reshaped(form: Form, shape: Sequence[Dim]) -> Form:
    """The form under another shape: parts stay in order, closed ones are split and joined."""
    if len(form.shape) == len(shape) and all(same(a, b) is True for a, b in zip(form.shape, shape, strict=True)):
        return form
    left = [part for part in form.parts if not (is_known(part[0]) and part[0] == 1 and not part[1])]
    axes: list[tuple[Part, ...]] = []
    for dim in shape:
        parts: list[Part] = []
        size: Dim = 1
        while same(size, dim) is not True:
            if not left:
                raise Stopped(f"a reshape from {_text(form.shape)} to {_text(shape)}")
            (first, is_open), *rest = left
            if is_open and is_known(first) and is_known(dim) and is_known(size) and dim % (size * first) != 0:
                raise MustClose(first, "a reshape of")
            if same(size * first, dim) is True or is_open or not is_known(dim):
                parts.append((first, is_open))
                size, left = size * first, rest
                continue
            whole, rest_of_it = _divided(int(first), int(dim) // int(size)) if is_known(size) else (0, 0)
            if not whole:
                raise MustClose(dim, "a reshape of")
            parts.append((whole, False))
            size = size * whole
            left = rest if rest_of_it == 1 else [(rest_of_it, False), *rest]
        axes.append(tuple(parts))
    if any(not (is_known(s) and s == 1) for s, _ in left):
        raise Stopped(f"a reshape from {_text(form.shape)} to {_text(shape)}")
    return Form(tuple(axes), form.blocks, form.constant, form.error)


def _divided(size: int, part: int) -> tuple[int, int]:
    """The factor of a closed part that is taken, and what is left of it; (0, 0) where it cannot be divided."""
    if part and size % part == 0:
        return part, size // part
    return (size, 1) if size and part % size == 0 else (0, 0)


def _text(shape: Sequence[Dim]) -> str:
    return "x".join(map(str, shape)) or "scalar"


def transposed(form: Form, order: Sequence[int]) -> Form:
    """The axes in another order."""
    if list(order) == list(range(len(form.axes))):
        return form
    known = form.orders.get(tuple(order))
    if known is None:
        known = form.orders[tuple(order)] = _transposed(form, order)
    return known


def _transposed(form: Form, order: Sequence[int]) -> Form:
    places = np.split(np.arange(len(form.parts)), np.cumsum([len(a) for a in form.axes])[:-1])
    parts = [int(p) for axis in order for p in places[axis]] if form.axes else []
    numbers = open_numbers(form.parts)
    shape = [int(s) for s, is_open in form.parts if not is_open]
    if _is_plain(form) and all(len(a) <= 1 for a in form.axes):
        view = form.array.reshape(grid_shape(form)).transpose(order)
        return Turned(tuple(form.axes[a] for a in order), view, form.error)
    which = {p: i for i, p in enumerate(p for p, (_, o) in enumerate(form.parts) if not o)}
    rows = np.arange(form.rows).reshape(shape).transpose([which[p] for p in parts if p in which])
    change = {Ref("axis", numbers[p]): Ref("axis", n) for n, p in enumerate(p for p in parts if p in numbers)}
    return moved(form, rows, tuple(form.axes[a] for a in order)).with_refs(change)


def broadcast(form: Form, shape: Sequence[Dim], dimensions: Sequence[int]) -> Form:
    """The form repeated along new axes, and along those of size 1: they are open, and nothing depends on them."""
    axes: list[tuple[Part, ...]] = []
    change: dict[Ref, Ref] = {}
    before, count = 0, 0
    for axis, size in enumerate(shape):
        if axis in dimensions and same(form.shape[dimensions.index(axis)], size) is True:
            parts = form.axes[dimensions.index(axis)]
            for _, is_open in parts:
                if is_open:
                    change[Ref("axis", before)] = Ref("axis", count)
                    before, count = before + 1, count + 1
            axes.append(parts)
        elif is_known(size) and size == 1:
            axes.append(())
        else:
            axes.append(((size, True),))
            count += 1
    return Form(tuple(axes), form.blocks, form.constant, form.error).with_refs(change)


def on_axes(form: Form, index: Callable[[np.ndarray], np.ndarray], touched: Sequence[int]) -> Form:
    """The form whose rows are chosen by a function of their grid; the axes that it changes are closed before."""
    form = with_closed(form, touched)
    rows = index(grid(form))
    axes = tuple(((rows.shape[a], False),) if a in touched or not parts else parts for a, parts in enumerate(form.axes))
    return moved(form, rows, axes)


def with_closed(form: Form, axes: Sequence[int]) -> Form:
    """The form with some axes closed."""
    for axis in axes:
        while form.is_open(axis):
            first = sum(len(a) for a in form.axes[:axis])
            form = closed(form, next(p for p in range(first, len(form.parts)) if form.parts[p][1]))
    return form


def sliced(form: Form, starts: Sequence[Dim], ends: Sequence[Dim], strides: Sequence[int]) -> Form:
    """A part of each axis. Of an open axis all, its first place, its last one, or its first places, to be joined."""
    whole = [
        same(s, 0) is True and same(e, d) is True and step == 1
        for s, e, d, step in zip(starts, ends, form.shape, strides, strict=True)
    ]
    if sum(whole) == len(whole) - 1 and _is_front(form, axis := whole.index(False), starts, ends, strides):
        return Front(form, axis, ends[axis])
    for axis, is_whole in enumerate(whole):
        if not is_whole and form.is_open(axis):
            form = _place(form, axis, starts[axis], ends[axis])
            whole[axis] = True
    touched = [axis for axis, is_whole in enumerate(whole) if not is_whole]
    slices = [
        slice(int(s), int(e), int(step)) if axis in touched else slice(None)
        for axis, (s, e, step) in enumerate(zip(starts, ends, strides, strict=True))
    ]
    return on_axes(form, lambda rows: rows[tuple(slices)], touched)


def one_part(form: Form, axes: Sequence[int], starts: np.ndarray, sizes: Sequence[Dim]) -> Form | None:
    """The part of these sizes, from these places of some axes; None where it may reach beyond the end."""
    places: dict[int, int] = {axis: int(start) for axis, start in zip(axes, starts, strict=True)}
    first = [places.get(axis, 0) for axis in range(len(form.axes))]
    ends = [start + size for start, size in zip(first, sizes, strict=True)]
    for start, end, size in zip(first, ends, form.shape, strict=True):
        is_first = start == 0 and (same(end, size) is True or (is_known(end) and end == 1))
        if not is_first and not (start >= 0 and is_count(size - end)):
            return None
    return sliced(form, first, ends, [1] * len(first))


def _is_front(form: Form, axis: int, starts: Sequence[Dim], ends: Sequence[Dim], strides: Sequence[int]) -> bool:
    """Whether a slice is the first places of an open axis, more than one."""
    is_plain = form.is_open(axis) and len(form.axes[axis]) == 1 and strides[axis] == 1
    return is_plain and same(starts[axis], 0) is True and same(ends[axis], 1) is not True


def _place(form: Form, axis: int, start: Dim, end: Dim) -> Form:
    """An open axis at its first or last place."""
    size = form.shape[axis]
    if len(form.axes[axis]) != 1:
        raise MustClose(size, "a slice of")
    is_one = same(end - start, 1) is True
    if is_one and same(start, 0) is True:
        return at(form, axis, Ref("at", 0))
    if is_one and same(start, size - 1) is True:
        return at(form, axis, Ref("at", -1))
    raise MustClose(size, "a slice of")


def at(form: Form, axis: int, ref: Ref) -> Form:
    """The form with an open axis at a place, or at the step of a loop: the axis has size 1."""
    first = sum(len(a) for a in form.axes[:axis])
    number = open_numbers(form.parts)[first]
    change = {Ref("axis", number): ref}
    change |= {Ref("axis", n): Ref("axis", n - 1) for n in open_numbers(form.parts).values() if n > number}
    return form.with_refs(change, (*form.axes[:axis], (), *form.axes[axis + 1 :]))


def reversed_(form: Form, axes: Sequence[int]) -> Form:
    """The order of some axes turned around."""
    for axis in axes:
        if form.is_open(axis):
            if len(form.axes[axis]) != 1:
                raise Stopped("a reversed axis of several factors")
            first = sum(len(a) for a in form.axes[:axis])
            ref = Ref("axis", open_numbers(form.parts)[first])
            form = form.with_refs({ref: Ref(ref.kind, ref.number, True)})
        else:
            form = on_axes(form, partial(np.flip, axis=axis), [axis])
    return form


def concatenated(forms: Sequence[Form], axis: int) -> Form:
    """Forms one after the other along an axis, which is closed."""
    forms = [with_closed(form, [axis]) for form in forms]
    if all(map(_is_plain, forms)):
        joined = np.concatenate([form.constant.reshape(grid_shape(form)) for form in forms], axis)
        error = max(form.error for form in forms)
        return Form(tuple(((s, False),) for s in joined.shape), {}, joined.reshape(-1), error)
    sizes = [int(form.shape[axis]) for form in forms]
    ends = np.cumsum(sizes)
    widened = []
    for form, end, size in zip(forms, ends, sizes, strict=True):
        padding = [(0, 0)] * len(form.axes)
        padding[axis] = (int(end) - size, int(ends[-1]) - int(end))
        widened.append(padded(form, padding))
    total = widened[0]
    for other in widened[1:]:
        total = added(*aligned(total, other))
    return total


def padded(form: Form, padding: Sequence[tuple[int, int]], value: float = 0.0) -> Form:
    """The form with constants around it."""
    touched = [a for a, sizes in enumerate(padding) if sizes != (0, 0)]
    form = with_closed(form, touched)
    if not touched:
        return form
    rows = np.pad(grid(form), padding, constant_values=-1)
    outside = rows.reshape(-1) < 0
    axes = tuple(((rows.shape[a], False),) if a in touched else parts for a, parts in enumerate(form.axes))
    taken = moved(form, np.maximum(rows, 0), axes) if form.rows else constant(np.zeros(rows.shape))
    inside = taken.scale(np.where(outside, 0.0, 1.0))
    return Form(axes, inside.blocks, np.where(outside, value, inside.constant), inside.error).without_empty()


def summed(form: Form, axes: Sequence[int]) -> Form:
    """The sum along some axes, which are closed."""
    form = with_closed(form, axes)
    rows = grid(form)
    axes_left = [a for a in range(len(form.axes)) if a not in axes]
    order = rows.transpose([*axes_left, *axes]).reshape(-1, prod(rows.shape[a] for a in axes))
    places, count = np.arange(len(order))[:, None], order.shape[1]
    blocks: dict[Instance, Block] = {}
    for instance, block in form.blocks.items():
        if isinstance(block, Picks):
            atoms, scale = block.atoms[order], np.where(block.atoms >= 0, block.scale, 0.0)[order]
            limit(len(order) * (int(atoms.max()) + 1))
            matrix = np.zeros((len(order), int(atoms.max()) + 1))
            np.add.at(matrix, (places, np.maximum(atoms, 0)), scale)
            blocks[instance] = MatrixRows.of(matrix)
        else:
            blocks[instance] = MatrixRows.of(block.array[order.reshape(-1)].reshape(*order.shape, -1).sum(axis=1))
    error = count * (form.error + count * ULP * form.magnitude)
    axes_kept = tuple(form.axes[a] for a in axes_left)
    return Form(axes_kept, blocks, form.constant[order].sum(axis=1), error).without_empty()


def dropped(form: Form) -> Form:
    """The form without its first axis, which has one place."""
    return Form(form.axes[1:], form.blocks, form.constant, form.error)


def dropped_axis(form: Form, axis: int) -> Form:
    """The form without an open axis along which it does not change."""
    number = open_numbers(form.parts)[sum(len(a) for a in form.axes[:axis])]
    change = {Ref("axis", n): Ref("axis", n - 1) for n in open_numbers(form.parts).values() if n > number}
    return form.with_refs(change, (*form.axes[:axis], *form.axes[axis + 1 :]))


def with_axis(form: Form) -> Form:
    """The form with a first axis of one place."""
    return Form((((1, False),), *form.axes), form.blocks, form.constant, form.error)


def row(form: Form, place: int) -> Form:
    """The form at a place of its first axis, which is closed."""
    rows = grid(form)[place]
    return moved(form, rows, form.axes[1:])


def at_once(family: int) -> Form:
    """The scalar that a family of one atom is."""
    return Form((), {Instance(family, ()): Picks(np.zeros(1, int), np.ones(1))})
