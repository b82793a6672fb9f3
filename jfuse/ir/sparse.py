"""Sparse constants: a file holds their nonzero elements and the indices of these."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Const
from jfuse.ir.quantization import Quantization, array_digest
from jfuse.ir.types import DType, TensorType

_MOST_ELEMENTS = 2**31  # of the dense array: no kernel indexes more

Level = int | tuple[Const, Const]
"""One level of the tree of elements: its size where it is dense, else (segments, indices), as CSR has them."""


@dataclass(frozen=True, eq=False)
class Sparsity:
    """Where the elements of a sparse tensor stand, as TFLite writes it down.

    order: the axes by which the tree of elements branches, outermost first; numbers from the rank on are axes of the
        blocks. blocks: the axis that each axis of the blocks divides. levels: one for each entry of `order`.
    """

    order: tuple[int, ...]
    blocks: tuple[int, ...]
    levels: tuple[Level, ...]

    def consts(self) -> Iterator[Const]:
        """The segments and the indices of each level that is not dense."""
        for level in self.levels:
            yield from () if isinstance(level, int) else level

    def places(self, shape: Sequence[int], where: str, most: int) -> np.ndarray:
        """The place of each element in the flat dense array: i64[n]; BadFlatbuffer where they do not fit the shape.

        most: elements that are stored, at least; a tree that names more is refused before it fills the memory.
        """
        sizes = self._sizes(shape, where)
        most = max([most, *(level[0].array.size for level in self.levels if not isinstance(level, int))])
        parents = np.zeros(1, np.int64)
        indices = np.zeros((1, 0), np.int64)
        for axis, level in zip(self.order, self.levels, strict=True):
            if isinstance(level, int):
                if level != sizes[axis]:
                    raise _wrong(where, f"{sizes[axis]} along axis {axis}", level)
                if len(parents) * level > most:
                    raise _wrong(where, f"at most {most:,} elements, as are stored", f"{len(parents) * level:,}")
                numbers, counts = np.tile(np.arange(level), len(parents)), np.full(len(parents), level)
                parents = np.repeat(parents, counts) * level + numbers
            else:
                numbers, counts, parents = _children(level, parents, sizes[axis], where)
            indices = np.concatenate([np.repeat(indices, counts, axis=0), numbers[:, None]], axis=1)
        return self._flat(indices, shape, sizes)

    def _sizes(self, shape: Sequence[int], where: str) -> list[int]:
        """How many indices each axis has: those of the shape, divided into blocks, then those of the blocks."""
        rank = len(shape)
        count = rank + len(self.blocks)
        right = len(self.levels) == count and sorted(self.order) == list(range(count))
        if not right or any(not 0 <= axis < rank for axis in self.blocks) or int(np.prod(shape)) > _MOST_ELEMENTS:
            raise _wrong(where, f"levels for the axes of {list(shape)}", f"{self.order}, {self.blocks}")
        sizes = [int(d) for d in shape]
        for number, axis in enumerate(self.blocks):
            level = self.levels[self.order.index(rank + number)]
            if not isinstance(level, int) or level < 1 or sizes[axis] % level:
                raise _wrong(where, f"blocks that divide {sizes[axis]}", level)
            sizes[axis] //= level
            sizes.append(level)
        return sizes

    def _flat(self, indices: np.ndarray, shape: Sequence[int], sizes: Sequence[int]) -> np.ndarray:
        by_axis = {axis: indices[:, i] for i, axis in enumerate(self.order)}
        places = np.zeros(len(indices), np.int64)
        for axis, size in enumerate(shape):
            index = by_axis[axis]
            for number, divided in enumerate(self.blocks):
                if divided == axis:
                    index = index * sizes[len(shape) + number] + by_axis[len(shape) + number]
            places = places * int(size) + index
        return places


def _children(
    level: tuple[Const, Const], parents: np.ndarray, size: int, where: str
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The indices below each parent, how many there are, and their places among all indices of the level."""
    segments, indices = (c.array.astype(np.int64) for c in level)
    if segments.size <= int(parents.max(initial=-1)) + 1:
        raise _wrong(where, "a segment for each index of the level above", segments.size)
    starts, ends = segments[parents], segments[parents + 1]
    if np.any(starts > ends) or np.any(starts < 0) or np.any(ends > indices.size):
        raise _wrong(where, f"segments in order, up to {indices.size}", "others")
    counts = ends - starts
    total = int(counts.sum())
    if total > indices.size:
        raise _wrong(where, f"segments that do not overlap, of {indices.size} indices", total)
    places = np.repeat(starts - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts) + np.arange(total)
    numbers = indices[places]
    if numbers.size and (numbers.min() < 0 or numbers.max() >= size):
        raise _wrong(where, f"indices below {size}", f"{numbers.min()} to {numbers.max()}")
    return numbers, counts, places


def _wrong(where: str, expected: str, found: object) -> BadFlatbuffer:
    return BadFlatbuffer(
        "the elements of a sparse tensor do not fit its shape", where=where, expected=expected, found=found
    )


class SparseConst(Const):
    """A sparse constant: its elements as the file has them. `array` is the dense one, made when it is asked for."""

    def __init__(
        self,
        stored: np.ndarray,
        shape: tuple[int, ...],
        sparsity: Sparsity,
        name: str | None = None,
        quantization: Quantization | None = None,
    ) -> None:
        for field, value in (("name", name), ("quantization", quantization)):
            object.__setattr__(self, field, value)
        self.__dict__.update(_stored=stored, _dense_shape=shape, sparsity=sparsity)

    _stored: np.ndarray
    _dense_shape: tuple[int, ...]
    sparsity: Sparsity

    @property
    def stored(self) -> np.ndarray:
        """The elements that the file holds."""
        return self._stored

    @cached_property
    def array(self) -> np.ndarray:
        """The dense array, zero where no element is stored."""
        dense = np.zeros(int(np.prod(self.shape)), self.stored.dtype)
        dense[self.sparsity.places(self.shape, self.name or "a sparse constant", self.stored.size)] = self.stored
        return dense.reshape(self.shape)

    @cached_property
    def type(self) -> TensorType:
        """Shape and dtype of the dense array."""
        return TensorType(self._dense_shape, DType.of(self.stored.dtype), self.quantization)

    @cached_property
    def digest(self) -> str:
        """Sixteen hex digits that depend on all that is stored."""
        levels = [level if isinstance(level, int) else [c.digest for c in level] for level in self.sparsity.levels]
        text = f"sparse {self.type.dtype}{self.shape} {self.sparsity.order} {self.sparsity.blocks} {levels}"
        return array_digest(text, self.stored)
