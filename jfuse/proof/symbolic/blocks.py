"""Blocks: the factors of atoms in the rows of a form, as one atom in each row or as rows of a matrix.

Matrices are weights: they are shared and never written, and what is taken of their rows or multiplied is noted only.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

_LARGEST = 2**23  # elements of a matrix


class Stopped(Exception):
    """The prover cannot go on; the text is the reason."""


def limit(elements: int) -> None:
    """Raise Stopped for a matrix that is too large."""
    if elements > _LARGEST:
        raise Stopped(f"a matrix of {elements} elements is too large")


@dataclass(frozen=True, eq=False)
class Picks:
    """A block with at most one atom in each row.   atoms: i[n], -1 for none; scale: f64[n]"""

    atoms: np.ndarray
    scale: np.ndarray

    def take(self, rows: np.ndarray) -> Picks:
        """The block of some rows."""
        return Picks(self.atoms[rows], self.scale[rows])

    def scaled(self, factors: np.ndarray) -> Picks:
        """The block with each row multiplied."""
        return Picks(np.where(factors == 0, -1, self.atoms), self.scale * factors)

    @property
    def width(self) -> int:
        """The number of atoms that it can have."""
        return int(self.atoms.max(initial=-1)) + 1

    @cached_property
    def sizes(self) -> np.ndarray:
        """The largest absolute factor of each row, 0 where it has no atom.   f64[n]"""
        return np.where(self.atoms >= 0, np.abs(self.scale), 0.0)

    def dense(self, size: int) -> np.ndarray:
        """The matrix of the block, for so many atoms."""
        limit(len(self.atoms) * size)
        matrix = np.zeros((len(self.atoms), size))
        (rows,) = np.nonzero(self.atoms >= 0)
        matrix[rows, self.atoms[rows]] = self.scale[rows]
        return matrix

    def at(self, point: np.ndarray) -> np.ndarray:
        """The sum of each row, for a value of each atom.   f64[n]"""
        return np.where(self.atoms >= 0, self.scale * point[self.atoms], 0.0)


@dataclass(frozen=True, eq=False)
class Matrix:
    """A matrix whose rows blocks share.   array: f64[m, atoms]"""

    array: np.ndarray

    @cached_property
    def sizes(self) -> np.ndarray:
        """The largest absolute entry of each row."""
        largest: np.ndarray = np.maximum(self.array.max(axis=1, initial=0.0), -self.array.min(axis=1, initial=0.0))
        return largest


@dataclass(frozen=True, eq=False)
class MatrixRows:
    """Rows of a matrix, each multiplied.   rows: side by side, or i[n]; scale: f64[n], None for 1"""

    matrix: Matrix
    rows: slice | np.ndarray
    scale: np.ndarray | None = None

    @classmethod
    def of(cls, array: np.ndarray) -> MatrixRows:
        """All rows of an array."""
        return cls(Matrix(array), slice(0, len(array)))

    def take(self, rows: np.ndarray) -> MatrixRows:
        """The block of some rows."""
        start = self.rows.start if isinstance(self.rows, slice) else 0
        chosen = rows + start if isinstance(self.rows, slice) else self.rows[rows]
        if len(chosen) and chosen[-1] - chosen[0] == len(chosen) - 1 and (np.diff(chosen) == 1).all():
            chosen = slice(int(chosen[0]), int(chosen[-1]) + 1)
        return MatrixRows(self.matrix, chosen, None if self.scale is None else self.scale[rows])

    def scaled(self, factors: np.ndarray) -> MatrixRows:
        """The block with each row multiplied."""
        return MatrixRows(self.matrix, self.rows, factors if self.scale is None else self.scale * factors)

    @property
    def width(self) -> int:
        """The number of atoms that it can have."""
        return int(self.matrix.array.shape[1])

    @cached_property
    def base(self) -> np.ndarray:
        """The rows as they are in the matrix; a view where they stand side by side."""
        return self.matrix.array[self.rows]

    @cached_property
    def sizes(self) -> np.ndarray:
        """The largest absolute factor of each row.   f64[n]"""
        sizes = self.matrix.sizes[self.rows]
        return sizes if self.scale is None else sizes * np.abs(self.scale)

    @cached_property
    def array(self) -> np.ndarray:
        """The block written out, not to be changed.   f64[n, atoms]"""
        return self.base if self.scale is None else self.base * self.scale[:, None]

    def dense(self, size: int) -> np.ndarray:
        """The matrix of the block, for so many atoms."""
        missing = size - self.width
        dense: np.ndarray = np.pad(self.array, ((0, 0), (0, missing))) if missing else self.array
        return dense

    def at(self, point: np.ndarray) -> np.ndarray:
        """The sum of each row, for a value of each atom.   f64[n]"""
        total: np.ndarray = self.base @ point[: self.width]
        return total if self.scale is None else total * self.scale

    def is_alike(self, other: MatrixRows) -> bool:
        """Whether both are written out the same, told without doing so; False where that is not known."""
        if self.base.shape != other.base.shape or not _same_scale(self.scale, other.scale):
            return False
        return (self.matrix is other.matrix and self.rows is other.rows) or np.array_equal(self.base, other.base)


def _same_scale(a: np.ndarray | None, b: np.ndarray | None) -> bool:
    return np.array_equal(1.0 if a is None else a, 1.0 if b is None else b) or (
        (a is None or bool((a == 1.0).all())) and (b is None or bool((b == 1.0).all()))
    )


Block: TypeAlias = "Picks | MatrixRows"


def largest(block: Block) -> float:
    """The largest absolute entry."""
    return float(block.sizes.max(initial=0.0))


def present(block: Block) -> np.ndarray:
    """Whether each row has an atom.   bool[n]"""
    return np.asarray(block.sizes != 0)  # what is no number is there


def is_zero(block: Block) -> bool:
    """Whether no row has an atom."""
    return not block.sizes.any()
