"""Ranges of indices, and their propagation from an equation's result to its operands."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from jfuse.ir.dims import Dim, floor_divided, is_known, same, substitute_dim, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph
from jfuse.kernels import ops

_WIDTH = 100  # of a range that nothing bounds above
_BESIDE = 2  # how far below the least number a clipped index is drawn, so that clipping shows


@dataclass(frozen=True)
class IndexRange:
    """The numbers from `least` on that are below all of `below`, which may be open sizes."""

    least: int = 0
    below: tuple[Dim, ...] = ()

    def also(self, other: IndexRange) -> IndexRange:
        """Intersect two ranges; of disjoint ones (the two arms of a case distinction), return the one that holds 0."""
        both = IndexRange(max(self.least, other.least), (*self.below, *(d for d in other.below if d not in self.below)))
        return both if both.has_numbers else other if other.least == 0 else self

    @property
    def has_numbers(self) -> bool:
        """Whether any number lies within, as far as the sizes are known."""
        return all(self.least < int(d) for d in self.below if is_known(d))

    def ends(self, sizes: Mapping[str, int]) -> tuple[int, int]:
        """The least number and the one after the greatest, at least one apart, with sizes for what is open."""
        known = [int(substitute_dim(d, sizes)) for d in self.below if symbols_of(d) <= sizes.keys()]
        return self.least, max(min(known, default=self.least + _WIDTH), self.least + 1)


Passed = Iterable[tuple[IndexRange, Atom | None]]
"""Ranges, each with the operand that is to lie within it."""


def entries_of(eqn: Eqn) -> tuple[Atom | None, ...]:
    """The operands whose entries an equation hands on as they are."""
    if eqn.op.entries:
        return tuple(eqn.inputs[eqn.op.operand_index(name)] for name in eqn.op.entries)
    if eqn.op.moves == "joins":
        return eqn.inputs
    return () if eqn.op.moves is None else eqn.inputs[:1]


@dataclass(frozen=True)
class Extents:
    """The least and the greatest entry of the integers in a graph that are known: constants, sizes, counts of rows."""

    known: dict[Atom, tuple[Dim, Dim]] = field(default_factory=dict)
    made_by: dict[Atom, Eqn] = field(default_factory=dict)

    @classmethod
    def of(cls, graph: Graph) -> Extents:
        """Those of a graph, in the order of its equations."""
        extents = cls()
        for eqn in graph.eqns:
            extents.made_by.update(dict.fromkeys(eqn.outputs, eqn))
            for result in (r for r in eqn.outputs if r.type.dtype.is_integer):
                ends = _of_value(result.value) or extents._computed(eqn)
                if ends is not None:
                    extents.known[result] = ends
        return extents

    def __call__(self, atom: Atom | None) -> tuple[Dim, Dim] | None:
        """Of one atom; None where it is not known."""
        if isinstance(atom, Const):
            return _of_value(atom.array) if atom.type.dtype.is_integer else None
        return None if atom is None else self.known.get(atom)

    def _computed(self, eqn: Eqn) -> tuple[Dim, Dim] | None:
        """Derive the ends of a result from its operands: rows that are counted, moved, added or scaled."""
        if eqn.op is ops.range_:
            return _counted(*map(self, eqn.inputs))
        if eqn.op in (ops.add, ops.mul):
            x, y = map(self, eqn.inputs)
            if x is None or y is None:
                return None
            if eqn.op is ops.add:
                return x[0] + y[0], x[1] + y[1]
            return (x[0] * y[0], x[1] * y[1]) if _is_natural(x[0]) and _is_natural(y[0]) else None
        moved = entries_of(eqn)
        return self(moved[0]) if len(moved) == 1 and not isinstance(moved[0], Const) else None


def _of_value(value: np.ndarray | None) -> tuple[Dim, Dim] | None:
    """Of integers, or of one size."""
    if value is None or not value.size:
        return None
    if value.dtype != object:
        return int(value.min()), int(value.max())
    flat = value.reshape(-1).tolist()
    if all(map(is_known, flat)):
        return min(flat), max(flat)
    return (flat[0], flat[0]) if len(flat) == 1 else None


def _counted(
    first: tuple[Dim, Dim] | None, limit: tuple[Dim, Dim] | None, step: tuple[Dim, Dim] | None
) -> tuple[Dim, Dim] | None:
    return (0, limit[1] - 1) if first == (0, 0) and step == (1, 1) and limit is not None else None


def _is_natural(number: Dim) -> bool:
    """Whether a number is 0 or more, as sizes are."""
    return not is_known(number) or number >= 0


def moved_ranges(eqn: Eqn, of: IndexRange, extents: Extents) -> Iterator[tuple[IndexRange, Atom | None]]:
    """The operands of an equation with the ranges that they must lie within, for its result to lie within `of`.

    Those whose entries are handed on; those to which something known is added, or which are scaled by it; the places of
    a row and a column that one number tells; those that are clipped, which may lie a little beside the range as well.
    """
    if eqn.op is ops.add:
        yield from _of_sum(eqn, of, extents)
    elif eqn.op is ops.sub:
        x, y = eqn.inputs
        yield from _kept(x, _less(of, _negative(extents(y))))
        yield from _kept(y, _subtracted(of, extents(x)))
    elif eqn.op is ops.mul:
        yield from ((range_, x) for x, step in _either(eqn, extents) for range_ in _scaled(of, step))
    elif eqn.op is ops.maximum:
        yield from ((IndexRange(of.least - _BESIDE, of.below), x) for x, c in _either(eqn, extents) if _reaches(c, of))
    elif eqn.op is ops.minimum:
        yield from ((IndexRange(of.least) if _is_below(c, of) else of, x) for x, c in _either(eqn, extents))
    else:
        yield from ((of, atom) for atom in entries_of(eqn))


def _either(eqn: Eqn, extents: Extents) -> Iterator[tuple[Atom | None, tuple[Dim, Dim]]]:
    """An operand with what the other one is, where that is known."""
    x, y = eqn.inputs
    for atom, other in ((x, y), (y, x)):
        if (ends := extents(other)) is not None and extents(atom) is None:
            yield atom, ends


def _of_sum(eqn: Eqn, of: IndexRange, extents: Extents) -> Iterator[tuple[IndexRange, Atom | None]]:
    known = list(_either(eqn, extents))
    for atom, ends in known:
        yield from _kept(atom, _less(of, ends))
    for column, scaled in () if known or of.least != 0 else (eqn.inputs, eqn.inputs[::-1]):
        step = _step(scaled, extents)
        if step is not None:  # row * step + column
            yield IndexRange(0, (step,)), column
            yield IndexRange(0, tuple(d - step + 1 for d in of.below)), scaled


def _step(atom: Atom | None, extents: Extents) -> Dim | None:
    """The number by which what is not known is scaled."""
    made_by = None if atom is None else extents.made_by.get(atom)
    if made_by is None or made_by.op is not ops.mul:
        return None
    return next((least for _, (least, greatest) in _either(made_by, extents) if same(least, greatest)), None)


def _kept(atom: Atom | None, range_: IndexRange | None) -> Iterator[tuple[IndexRange, Atom | None]]:
    if range_ is not None and range_.has_numbers:
        yield range_, atom


def _less(of: IndexRange, ends: tuple[Dim, Dim] | None) -> IndexRange | None:
    """Return the numbers that stay within a range when any number between two ends is added."""
    if ends is None or not is_known(ends[0]):
        return None
    return IndexRange(of.least - int(ends[0]), tuple(d - ends[1] for d in of.below))


def _subtracted(of: IndexRange, ends: tuple[Dim, Dim] | None) -> IndexRange | None:
    """Return the numbers that end within a range when subtracted from any number between two ends."""
    if ends is None:
        return None
    least = [ends[1] - d + 1 for d in of.below]
    if not all(map(is_known, least)):
        return None
    return IndexRange(max(map(int, least), default=0), (ends[0] - of.least + 1,))


def _negative(ends: tuple[Dim, Dim] | None) -> tuple[Dim, Dim] | None:
    return None if ends is None else (-ends[1], -ends[0])


def _scaled(of: IndexRange, ends: tuple[Dim, Dim]) -> Iterator[IndexRange]:
    """Return the numbers that end within a range when multiplied by one number above 0."""
    step = ends[0]
    if same(*ends) is not True or (is_known(step) and step < 1):
        return
    if is_known(step):
        yield IndexRange(-(-of.least // int(step)), tuple(floor_divided(d + step - 1, int(step)) for d in of.below))
    elif of.least == 0:
        yield IndexRange(0, tuple((d + step - 1) // step for d in of.below))


def _reaches(ends: tuple[Dim, Dim], of: IndexRange) -> bool:
    """Whether nothing lies below a range that is at least as large as a number."""
    return is_known(ends[0]) and int(ends[0]) >= of.least


def _is_below(ends: tuple[Dim, Dim], of: IndexRange) -> bool:
    """Whether everything lies below the end of a range that is at most as large as a number."""
    return bool(of.below) and all(is_known(d - ends[1]) and int(d - ends[1]) > 0 for d in of.below)
