"""Other layouts of tensors: with their axes in another order, with one more axis of size 1, with one less."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from jfuse.ir.dims import Shape, same
from jfuse.ir.graph import Eqn, Graph
from jfuse.kernels import ops
from jfuse.lowering.peephole.layout.reshape import constant_shape
from jfuse.lowering.peephole.layout.transpose import known_permutation

Perm = tuple[int, ...]
RENAMES = frozenset({ops.reshape, ops.expand_dims, ops.squeeze})
_CHANNELS_FIRST = frozenset({(0, 3, 1, 2), (0, 4, 1, 2, 3)})
_WIDENED = 3  # the rank of sequences, which are convolved as images


class Layout(Protocol):
    """How tensors of one rank could be laid out else.

    rank: theirs. least: how many operators less are worth it. moves_axes: whether every axis has a place in it.
    """

    moves_axes: bool

    @property
    def rank(self) -> int:
        """How many dimensions the tensors have that could be laid out else."""

    @property
    def least(self) -> int:
        """How many operators fewer make the other layout worth it."""

    def gives(self, eqn: Eqn) -> bool:
        """Whether an equation converts a tensor from the other layout."""

    def undoes(self, eqn: Eqn) -> bool:
        """Whether an equation makes the other layout of a tensor."""

    def absorbs(self, eqn: Eqn) -> bool:
        """Whether an equation that reads a tensor can read the other layout of it as well, in one operator."""

    def is_free(self, made_by: Eqn | None) -> bool:
        """Whether what makes a tensor can make the other layout of it as well, in one operator."""

    def renames(self, shape: Shape) -> bool:
        """Whether a tensor of that shape has its elements in the same order in the other layout: a RESHAPE moves it."""

    def fits(self, shape: Shape) -> bool:
        """Whether a tensor of that shape, of the rank, has the other layout."""

    def place(self, axis: int) -> int:
        """Where an axis is in the other layout."""

    def constant(self, array: np.ndarray) -> np.ndarray:
        """A constant of the rank in the other layout."""

    def new(self, x: Any) -> Any:
        """A tensor in the other layout."""

    def old(self, x: Any) -> Any:
        """A tensor in this layout, converted from the other one."""


@dataclass(frozen=True)
class TransposedLayout:
    """A tensor is TRANSPOSE(its new one, perm), which may be spelled as a RESHAPE where only sizes of 1 move."""

    moves_axes = True
    perm: Perm

    @property
    def rank(self) -> int:
        return len(self.perm)

    @property
    def least(self) -> int:
        return 0 if self.perm in _CHANNELS_FIRST else 1

    def gives(self, eqn: Eqn) -> bool:
        return known_permutation(eqn) == self.perm or _reorders_ones(eqn, self.perm)

    def undoes(self, eqn: Eqn) -> bool:
        after = known_permutation(eqn)
        if after is None:
            return _reorders_ones(eqn, tuple(map(int, self._back)))
        return tuple(self.perm[a] for a in after) == tuple(range(self.rank))

    def absorbs(self, eqn: Eqn) -> bool:
        return known_permutation(eqn) is not None or (_reshapes(eqn) and self.renames(eqn.inputs[0].type.shape))  # type: ignore[union-attr]

    def is_free(self, made_by: Eqn | None) -> bool:
        """Where turning a tensor only renames its axes, in a RESHAPE that is there already."""
        return made_by is not None and made_by.op in RENAMES and self.renames(made_by.outputs[0].type.shape)

    def renames(self, shape: Shape) -> bool:
        return _keeps_elements(shape, self._back)

    def fits(self, shape: Shape) -> bool:
        return True

    def place(self, axis: int) -> int:
        return self.perm[axis]

    def constant(self, array: np.ndarray) -> np.ndarray:
        return array.transpose(self._back)

    def new(self, x: Any) -> Any:
        return ops.transpose(x, self._back)

    def old(self, x: Any) -> Any:
        return ops.transpose(x, np.array(self.perm, np.int32))

    @property
    def _back(self) -> np.ndarray:
        return np.argsort(self.perm).astype(np.int32)


def _reshapes(eqn: Eqn) -> bool:
    return eqn.op in RENAMES and constant_shape(eqn.outputs[0].type.shape) is not None


def _reorders_ones(eqn: Eqn, perm: Perm) -> bool:
    """Whether an equation is a RESHAPE that does what TRANSPOSE by a permutation would: it moves sizes of 1 only."""
    x = eqn.inputs[0] if _reshapes(eqn) else None
    if x is None or x.type.rank != len(perm) or eqn.outputs[0].type.rank != len(perm):
        return False
    turned = zip((x.type.shape[a] for a in perm), eqn.outputs[0].type.shape, strict=True)
    return all(same(d, e) is True for d, e in turned) and _keeps_elements(x.type.shape, perm)


def _keeps_elements(shape: Shape, perm: Iterable[int]) -> bool:
    """Whether a permutation moves axes of size 1 only."""
    moved = [a for a in perm if same(shape[a], 1) is not True]
    return moved == sorted(moved)


class _Renamed:
    """One axis of size 1 more or less: any RESHAPE takes that in."""

    least = 1

    def absorbs(self, eqn: Eqn) -> bool:
        return _reshapes(eqn)

    def renames(self, shape: Shape) -> bool:
        return True

    def is_free(self, made_by: Eqn | None) -> bool:
        return made_by is not None and self.absorbs(made_by)


@dataclass(frozen=True)
class Widened(_Renamed):
    """A tensor is SQUEEZE(its new one, axis), as convolutions over sequences leave it."""

    moves_axes = True
    rank: int
    axis: int

    def gives(self, eqn: Eqn) -> bool:
        return _drops(eqn, self.rank, self.axis)

    def undoes(self, eqn: Eqn) -> bool:
        return _inserts(eqn, self.rank, self.axis)

    def fits(self, shape: Shape) -> bool:
        return True

    def place(self, axis: int) -> int:
        return axis + (axis >= self.axis)

    def constant(self, array: np.ndarray) -> np.ndarray:
        return np.expand_dims(array, self.axis)

    def new(self, x: Any) -> Any:
        return ops.expand_dims(x, np.int32(self.axis))

    def old(self, x: Any) -> Any:
        return ops.squeeze(x, squeeze_dims=(self.axis,))


@dataclass(frozen=True)
class Narrowed(_Renamed):
    """A tensor is EXPAND_DIMS(its new one, axis)."""

    moves_axes = False
    rank: int
    axis: int

    def gives(self, eqn: Eqn) -> bool:
        return _inserts(eqn, self.rank - 1, self.axis)

    def undoes(self, eqn: Eqn) -> bool:
        return _drops(eqn, self.rank - 1, self.axis)

    def fits(self, shape: Shape) -> bool:
        return same(shape[self.axis], 1) is True

    def place(self, axis: int) -> int:
        return axis - (axis > self.axis)

    def constant(self, array: np.ndarray) -> np.ndarray:
        return array.squeeze(self.axis)

    def new(self, x: Any) -> Any:
        return ops.squeeze(x, squeeze_dims=(self.axis,))

    def old(self, x: Any) -> Any:
        return ops.expand_dims(x, np.int32(self.axis))


def layouts_in(graph: Graph) -> Iterator[Layout]:
    """The layouts that tensors of a graph have had or will have."""
    orders = map(known_permutation, graph.eqns)
    yield from dict.fromkeys(TransposedLayout(order) for order in orders if order is not None)
    layouts: dict[Layout, None] = {}
    for eqn in graph.eqns:
        x, shape = eqn.inputs[0] if eqn.op in RENAMES else None, eqn.outputs[0].type.shape if eqn.outputs else ()
        if x is None or abs(x.type.rank - len(shape)) != 1:
            continue
        rank = min(x.type.rank, len(shape))
        layouts |= {Widened(rank, a): None for a in range(rank) if rank == _WIDENED and _drops(eqn, rank, a)}
        layouts |= {Narrowed(rank + 1, a): None for a in range(rank + 1) if _inserts(eqn, rank, a)}
    yield from layouts


def _drops(eqn: Eqn, rank: int, axis: int) -> bool:
    """Whether an equation makes a tensor of that rank by leaving out an axis of size 1."""
    x = eqn.inputs[0] if eqn.op in RENAMES else None
    return x is not None and _is_longer(x.type.shape, eqn.outputs[0].type.shape, rank, axis)


def _inserts(eqn: Eqn, rank: int, axis: int) -> bool:
    """Whether an equation makes of a tensor of that rank one with an axis of size 1 more."""
    x = eqn.inputs[0] if eqn.op in RENAMES else None
    return x is not None and _is_longer(eqn.outputs[0].type.shape, x.type.shape, rank, axis)


def _is_longer(long: Shape, short: Shape, rank: int, axis: int) -> bool:
    if len(short) != rank or len(long) != rank + 1 or same(long[axis], 1) is not True:
        return False
    rest = (*long[:axis], *long[axis + 1 :])
    return all(same(d, e) is True for d, e in zip(rest, short, strict=True))
