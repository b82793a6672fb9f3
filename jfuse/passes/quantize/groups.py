"""Values that share a scale: a union-find whose sets know the range that they must hold."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass

from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.passes.quantize.parameters import parameters
from jfuse.tflite.runtime.quantized import Fixed

MOST_COARSE = 2.0
"""How many times coarser the steps of a value may become for sharing a scale; beyond that it is quantized anew."""


@dataclass
class Group:
    """A set of values of one type.

    fixed: the parameters that a kernel demands; members: how many there are

    least_scale: what a kernel demands.
    """

    dtype: DType
    low: float
    high: float
    fixed: Fixed | None = None
    symmetric: bool = False
    members: int = 1
    least_scale: float = 0.0

    @property
    def extent(self) -> float:
        """The width of the range with 0 in it."""
        return max(self.high, 0.0) - min(self.low, 0.0)

    @property
    def quantization(self) -> Quantization:
        """The scale and zero point of the group."""
        if self.fixed is not None:
            return Quantization((self.fixed.scale,), (self.fixed.zero_point,))
        return parameters(self.low, self.high, self.dtype, symmetric=self.symmetric, least_scale=self.least_scale)

    def holds(self, low: float, high: float) -> bool:
        """Whether numbers of a range are within reach, up to a step."""
        q = self.quantization
        first, last = (-128, 127) if self.dtype is DType.i8 else (-(2**15), 2**15 - 1)
        return (first - 1 - q.zero_point[0]) * q.scale[0] <= low and high <= (last + 1 - q.zero_point[0]) * q.scale[0]


class Groups:
    """Sets of values by any key."""

    def __init__(self) -> None:
        self._parent: dict[Hashable, Hashable] = {}
        self._groups: dict[Hashable, Group] = {}

    def __contains__(self, key: Hashable) -> bool:
        return key in self._parent

    def __getitem__(self, key: Hashable) -> Group:
        return self._groups[self._root(key)]

    def add(self, key: Hashable, make: Callable[[], Group]) -> Group:
        """The group of a value; one of its own where it has none."""
        if key not in self._parent:
            self._parent[key] = key
            self._groups[key] = make()
        return self[key]

    def _root(self, key: Hashable) -> Hashable:
        while self._parent[key] != key:
            self._parent[key] = key = self._parent[self._parent[key]]
        return key

    def join(self, key: Hashable, other: Hashable, *, alone: bool = False) -> bool:
        """Let two values share their scale, if neither becomes much coarser by it; whether they do.

        alone: nothing but what joins reads `other`, so that its own steps do not matter.
        """
        a, b = self._root(key), self._root(other)
        if a == b:
            return True
        mine, theirs = self._groups[a], self._groups[b]
        joined = _joined(mine, theirs)
        if joined is None:
            return False
        free = alone and theirs.members == 1 and theirs.fixed is None
        if joined.fixed is None and not free and joined.extent > MOST_COARSE * theirs.extent > 0:
            return False
        self._parent[b] = a
        self._groups[a] = joined
        del self._groups[b]
        return True


def _joined(mine: Group, theirs: Group) -> Group | None:
    """The group of both; None where their fixed parameters do not allow it."""
    fixed = mine.fixed or theirs.fixed
    if mine.fixed is not None and theirs.fixed is not None and mine.fixed != theirs.fixed:
        return None
    low, high = min(mine.low, theirs.low), max(mine.high, theirs.high)
    symmetric = mine.symmetric or theirs.symmetric
    joined = Group(mine.dtype, low, high, fixed, symmetric, mine.members + theirs.members)
    free = theirs if mine.fixed is not None else mine
    return None if fixed is not None and not joined.holds(free.low, free.high) else joined
