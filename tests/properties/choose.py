"""What forms of steps draw their operands with: values of the pool, constants that fit them, axes and sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import hypothesis.strategies as st
import numpy as np

from tests.properties.values import Unfit, Value

T = TypeVar("T")
Fits = Callable[[Value], bool]


class Chooser:
    """Draws among the values there are so far. Raises Unfit where none will do."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], pool: Sequence[Value]) -> None:
        self.draw = draw
        self.pool = pool

    def one_of(self, *choices: T) -> T:
        """One of these."""
        result: T = self.draw(st.sampled_from(choices))
        return result

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.draw(st.integers(low, high)))

    def flag(self) -> bool:
        """A coin toss."""
        return bool(self.draw(st.booleans()))

    def value(self, fits: Fits = lambda value: True) -> int:
        """The place of a value that fits; late values are likelier, so that chains form."""
        places = [i for i, v in enumerate(self.pool) if fits(v)]
        if not places:
            raise Unfit("no such value")
        return places[-1 - min(self.integer(0, len(places) - 1), self.integer(0, len(places) - 1))]

    def floats(self, rank: int = 0, most: int = 9) -> int:
        """A float value of a rank between these."""
        return self.value(lambda v: v.is_float and rank <= v.rank <= most)

    def partner(self, x: int, constant: bool = True) -> int | np.ndarray:
        """What broadcasts with a value: another one of its type, or a constant."""
        value = self.pool[x]
        others = [i for i, v in enumerate(self.pool) if v.dtype == value.dtype and broadcasts(v, value)]
        if constant and self.flag():
            return self.constant(self._broadcast_shape(value.shape), value.dtype)
        return others[self.integer(0, len(others) - 1)]

    def _broadcast_shape(self, shape: Sequence[int | None]) -> tuple[int, ...]:
        kept = self.integer(0, len(shape))
        dims = [1 if d is None or self.integer(0, 3) == 0 else d for d in shape[len(shape) - kept :]]
        return tuple(dims)

    def constant(self, shape: Sequence[int], dtype: Any = np.float32) -> np.ndarray:
        """Drawn elements."""
        rng = np.random.default_rng(self.integer(0, 9))
        if np.dtype(dtype).kind == "b":
            return np.asarray(rng.random(tuple(shape)) < 0.5)
        if np.dtype(dtype).kind in "iu":
            return np.asarray(rng.integers(1, 4, tuple(shape)), dtype)
        return np.asarray(rng.standard_normal(tuple(shape)), dtype)

    def axis(self, rank: int) -> int:
        """An axis, at times counted from the end."""
        return self.integer(-rank, rank - 1)

    def axes(self, rank: int) -> list[int]:
        """Some axes, each once."""
        chosen = self.draw(st.lists(st.integers(0, rank - 1), unique=True, max_size=rank)) if rank else []
        return [a - rank if self.flag() else a for a in chosen]

    def permutation(self, rank: int) -> list[int]:
        """All axes in another order."""
        return list(self.draw(st.permutations(range(rank))))


def broadcasts(x: Value, y: Value) -> bool:
    """Whether both go together at all sizes."""
    pairs = zip(x.arrays, y.arrays, strict=True)
    return all(d in (1, e) or e == 1 for a, b in pairs for d, e in zip(a.shape[::-1], b.shape[::-1], strict=False))
