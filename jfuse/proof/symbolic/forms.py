"""Affine forms: a tensor as sums of matrices times atoms, where open axes are indices and not rows.

An *atom* is a scalar that the normal form does not look into: an element of an input, tanh of a row, a product. Atoms
come in families, and a family is a function of some indices (its batch row, its step). An *instance* says which index
of the tensor, or of a loop, each of these is. A `Form` has one row for each element of its closed axes:

    value[open indices][row] = constant[row] + sum over instances of (block[row, :] @ atoms of the instance)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from jfuse.ir.dims import Dim, is_known
from jfuse.proof.symbolic.blocks import Block, MatrixRows, Picks, Stopped, is_zero, largest, limit

ULP = 2.0**-52
RELATIVE = 2.0**-20  # by which constants of rows may differ at most, in proportion to themselves
RESIDUE = 2.0**-40  # below which they may be what rounding leaves of 0
_EXACT = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # factors by which numbers are multiplied exactly


class Ref(NamedTuple):
    """An index: "axis" counts the open axes of a form, "loop" names a loop whose step it is, "at" is a fixed place.

    "param" counts the indices of a family. flipped: counted from the end.
    """

    kind: str
    number: int
    flipped: bool = False

    def turned(self, flipped: bool) -> Ref:
        """The index counted from the other end where `flipped`."""
        if not flipped:
            return self
        return Ref("at", -1 - self.number) if self.kind == "at" else replace_flip(self)


def replace_flip(ref: Ref) -> Ref:
    """The same index counted from the other end."""
    return Ref(ref.kind, ref.number, not ref.flipped)


class Instance(NamedTuple):
    """A family at some indices."""

    family: int
    refs: tuple[Ref, ...]


Part: TypeAlias = tuple[Dim, bool]
"""A factor of an axis: its size, and whether it is open."""


def _is_one(part: Part) -> bool:
    """Whether a part is closed, so that its size is known, and has one place."""
    return not part[1] and bool(part[0] == 1)


class MustClose(Stopped):
    """An open axis whose positions differ must be closed. size: of the axis."""

    def __init__(self, size: Dim, why: str) -> None:
        super().__init__(f"{why} an axis of {size}")
        self.size = size


@dataclass(frozen=True, eq=False)
class Form:
    """A tensor in normal form.

    axes: the parts of each axis. blocks: by instance, whose refs count the open parts. constant: f64[rows].
    error: how far each entry may be from that of exact arithmetic. orders: its transposes that were asked for before.
    """

    axes: tuple[tuple[Part, ...], ...]
    blocks: Mapping[Instance, Block] = field(default_factory=dict)
    constant: np.ndarray = field(default_factory=lambda: np.zeros(1))
    error: float = 0.0
    orders: dict[tuple[int, ...], Form] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        """Axes of size 1 have no parts, however they came to be."""
        if any(map(_is_one, self.parts)):
            axes = tuple(tuple(part for part in axis if not _is_one(part)) for axis in self.axes)
            object.__setattr__(self, "axes", axes)
            del self.__dict__["parts"]

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The parts of all axes in a row."""
        return tuple(part for axis in self.axes for part in axis)

    @property
    def rows(self) -> int:
        """The number of elements of the closed parts."""
        return len(self.constant)

    @property
    def is_constant(self) -> bool:
        """Whether it has no atoms."""
        return not self.blocks

    @cached_property
    def magnitude(self) -> float:
        """The largest absolute entry."""
        constant = max(float(self.constant.max(initial=0.0)), -float(self.constant.min(initial=0.0)))
        return max([constant, *map(largest, self.blocks.values())])

    @property
    def array(self) -> np.ndarray:
        """The constants, in the order of the rows; of a transpose they have its shape."""
        return self.constant

    @cached_property
    def shape(self) -> tuple[Dim, ...]:
        """The sizes of the axes."""
        return tuple(axis[0][0] if len(axis) == 1 else prod(size for size, _ in axis) for axis in self.axes)

    def closed_sizes(self, axis: int) -> list[int]:
        """The sizes of the closed parts of an axis."""
        return [int(size) for size, is_open in self.axes[axis] if not is_open]

    def is_open(self, axis: int) -> bool:
        """Whether some part of the axis is open."""
        return any(is_open for _, is_open in self.axes[axis])

    def take(self, rows: np.ndarray, axes: tuple[tuple[Part, ...], ...] | None = None) -> Form:
        """The form of some rows; the axes are given where they change."""
        axes = self.axes if axes is None else axes
        if len(rows) == self.rows and np.array_equal(rows, np.arange(self.rows)):
            return Form(axes, self.blocks, self.constant, self.error)
        blocks = {i: b.take(rows) for i, b in self.blocks.items()}
        return Form(axes, blocks, self.constant[rows], self.error)

    def scale(self, factors: np.ndarray | float, error: float = 0.0) -> Form:
        """Each row multiplied by an exact number, or one that is within `error`, relatively, of it."""
        sizes = np.abs(factors)
        factors = np.broadcast_to(np.asarray(factors, np.float64), (self.rows,))
        most = float(sizes.max(initial=0.0))
        blocks = {i: b.scaled(factors) for i, b in self.blocks.items()} if most else {}
        exact = error == 0.0 and most in _EXACT and bool((sizes == most).all() or np.isin(sizes, _EXACT).all())
        bound = self.error * most + (0.0 if exact else (ULP + error) * most * self.magnitude)
        return Form(self.axes, blocks, self.constant * factors, bound)

    def plus(self, number: np.ndarray | float) -> Form:
        """A constant added to each row."""
        constant, rounding = exact_sum(self.constant, np.asarray(number, np.float64), self.error)
        return Form(self.axes, self.blocks, constant, self.error + rounding)

    def with_refs(self, change: Mapping[Ref, Ref], axes: tuple[tuple[Part, ...], ...] | None = None) -> Form:
        """The form with indices replaced; those that are not named stay."""

        def moved(ref: Ref) -> Ref:
            plain = Ref(ref.kind, ref.number)
            return change[plain].turned(ref.flipped) if plain in change else ref

        moved_blocks = [(Instance(i.family, tuple(map(moved, i.refs))), b) for i, b in self.blocks.items()]
        axes = self.axes if axes is None else axes
        if len({i for i, _ in moved_blocks}) == len(moved_blocks):
            return Form(axes, dict(moved_blocks), self.constant, self.error)
        result = Form(axes, {}, self.constant, self.error)
        for instance, block in moved_blocks:  # two indices became one: their blocks are added
            result = added(result, Form(axes, {instance: block}, np.zeros(self.rows), 0.0))
        return result

    def uses(self, number: int) -> bool:
        """Whether the value depends on the index of an open part."""
        return any(ref.kind == "axis" and ref.number == number for i in self.blocks for ref in i.refs)

    def without_empty(self) -> Form:
        """The form without blocks that are zero."""
        blocks = {i: b for i, b in self.blocks.items() if not is_zero(b)}
        return self if len(blocks) == len(self.blocks) else replace(self, blocks=blocks)


class Turned(Form):
    """An array as a view of another one, which is written out where its rows are read."""

    def __init__(self, axes: tuple[tuple[Part, ...], ...], view: np.ndarray, error: float) -> None:
        for name, value in {"axes": axes, "blocks": {}, "error": error, "orders": {}, "view": view}.items():
            object.__setattr__(self, name, value)
        largest_entry = max(float(view.max(initial=0.0)), -float(view.min(initial=0.0)))
        object.__setattr__(self, "magnitude", largest_entry)

    @cached_property
    def constant(self) -> np.ndarray:
        """The constants in the order of the rows."""
        return np.asarray(self.array.reshape(-1))

    @property
    def array(self) -> np.ndarray:
        """The constants, in the shape of the transpose."""
        return self.__dict__["view"]  # type: ignore[no-any-return]

    @property
    def rows(self) -> int:
        """The number of elements."""
        return int(self.array.size)


class Front(Form):
    """The first places of an open axis, without the rest; only `loops.carried_before` reads it.

    What is counted from the end would be counted from another one. whole: the form with all places.
    """

    whole: Form

    def __init__(self, whole: Form, axis: int, size: Dim) -> None:
        axes = (*whole.axes[:axis], ((size, True),), *whole.axes[axis + 1 :])
        self.__dict__.update(axes=axes, error=0.0, orders={}, whole=whole, cut=whole.shape[axis])

    @property
    def blocks(self) -> Mapping[Instance, Block]:
        """Raise MustClose: the places cannot be read one by one."""
        raise MustClose(self.__dict__["cut"], "a slice of")

    @property
    def constant(self) -> np.ndarray:
        """Raise MustClose."""
        raise MustClose(self.__dict__["cut"], "a slice of")

    def without_empty(self) -> Form:
        """The form itself."""
        return self


def constant(array: Any) -> Form:
    """The form of an array."""
    values = np.asarray(array)
    if values.dtype.kind in "iu" and values.size and np.abs(values.astype(np.float64)).max() >= 2.0**53:
        raise Stopped("an integer beyond 2^53")
    if values.dtype.kind not in "fiub":
        raise Stopped(f"a constant of {values.dtype}")
    numbers = values.astype(np.float64, copy=False)
    if not np.isfinite(numbers).all():
        raise Stopped("a constant that is no real number")
    axes = tuple(((size, False),) for size in values.shape)
    if not numbers.flags.c_contiguous and 1 not in values.shape:
        return Turned(axes, numbers, 0.0)
    return Form(axes, {}, numbers.reshape(-1), 0.0)


def added(a: Form, b: Form) -> Form:
    """The sum of two forms of the same axes."""
    blocks: dict[Instance, Block] = dict(a.blocks)
    error = a.error + b.error
    for instance, block in b.blocks.items():
        mine = blocks.get(instance)
        if mine is None:
            blocks[instance] = block
            continue
        blocks[instance], rounding = _sum(mine, block)
        error += rounding
    total, dropped = a.constant, False
    if b.constant.any():
        total, rounding = exact_sum(a.constant, b.constant, error)
        _refuse_large(a.constant, b.constant, total)
        error += rounding
        cancelled = _is_cancelled(a.constant, total, error)
        total, dropped = np.where(cancelled, 0.0, total), bool(cancelled.any())
    for instance in a.blocks.keys() & b.blocks.keys():
        blocks[instance], is_less = _cleaned(blocks[instance], a.blocks[instance], error)
        dropped |= is_less
        if is_zero(blocks[instance]):
            del blocks[instance]
    return Form(a.axes, blocks, total, 2 * error if dropped else error)


def _refuse_large(a: np.ndarray, b: np.ndarray, total: np.ndarray) -> None:
    """Stop where large constants cancel: in f32 such sums round, in real numbers they do nothing."""
    if ((np.maximum(np.abs(a), np.abs(b)) > 2.0**20) & (np.abs(total) < 2.0**20)).any():
        raise Stopped("large constants that cancel")


def _is_cancelled(term: np.ndarray, total: np.ndarray, error: float) -> np.ndarray:
    """Whether what is left of each term, in a sum, is rounding: small beside the error, and beside the term."""
    small = np.abs(total) <= error
    return np.asarray(small & (total != 0.0) & (np.abs(total) <= RELATIVE * np.abs(term)) if small.any() else small)


def _cleaned(block: Block, term: Block, error: float) -> tuple[Block, bool]:
    """A sum whose entries that are zero but for rounding are zero, and whether some were not."""
    if isinstance(block, Picks) and isinstance(term, Picks):
        small = _is_cancelled(term.scale, block.scale, error) & (block.atoms >= 0)
        return Picks(np.where(small, -1, block.atoms), np.where(small, 0.0, block.scale)), bool(small.any())
    size = max(block.width, term.width)
    total = block.dense(size)
    if not (np.abs(total) <= error).any():
        return block, False
    small = _is_cancelled(term.dense(size), total, error)
    return (MatrixRows.of(np.where(small, 0.0, total)), True) if small.any() else (block, False)


def exact_sum(a: np.ndarray, b: np.ndarray, error: float = 0.0) -> tuple[np.ndarray, float]:
    """The sum and the largest rounding in it, exactly.   Source: Knuth, TAOCP 2, 4.2.2, theorem B (TwoSum)

    error: of the terms; one that is larger and gets lost beside the other stops the proof.
    """
    total = a + b
    other = total - a
    rounding = np.abs((a - (total - other)) + (b - other))
    smaller = np.minimum(np.abs(a), np.abs(b))
    if ((rounding > RESIDUE) & (rounding > RELATIVE * smaller) & (smaller > error)).any():
        raise Stopped("a constant that is lost beside a large one")
    return total, float(rounding.max(initial=0.0))


def _sum(a: Block, b: Block) -> tuple[Block, float]:
    if isinstance(a, Picks) and isinstance(b, Picks):
        either = (a.atoms < 0) | (b.atoms < 0) | (a.atoms == b.atoms)
        if either.all():
            mine, other = np.where(a.atoms >= 0, a.scale, 0.0), np.where(b.atoms >= 0, b.scale, 0.0)
            scale, rounding = exact_sum(mine, other)
            return Picks(np.maximum(a.atoms, b.atoms), scale), rounding
    size = max(a.width, b.width)
    total = MatrixRows.of(a.dense(size) + b.dense(size))
    return total, ULP * largest(total)


def closed(form: Form, part: int) -> Form:
    """The form with an open part closed, along which it does not change."""
    numbers = open_numbers(form.parts)
    size = form.parts[part][0]
    if not is_known(size) or form.uses(numbers[part]):
        raise MustClose(size, "positions differ along")
    grid = np.arange(form.rows).reshape([int(s) for s, o in form.parts if not o])
    before = sum(not o for _, o in form.parts[:part])
    limit(form.rows * int(size))
    rows = np.repeat(np.expand_dims(grid, before), int(size), axis=before).reshape(-1)
    change = {Ref("axis", n): Ref("axis", n - 1) for n in numbers.values() if n > numbers[part]}
    return form.take(rows, with_part(form.axes, part, (size, False))).with_refs(change)


def open_numbers(parts: Sequence[Part]) -> dict[int, int]:
    """For the position of each open part its number among the open ones."""
    places = [i for i, (_, is_open) in enumerate(parts) if is_open]
    return {part: number for number, part in enumerate(places)}


def with_part(axes: tuple[tuple[Part, ...], ...], place: int, part: Part) -> tuple[tuple[Part, ...], ...]:
    """The axes with the part of a position replaced."""
    flat = [p for axis in axes for p in axis]
    flat[place] = part
    walk = iter(flat)
    return tuple(tuple(next(walk) for _ in axis) for axis in axes)
