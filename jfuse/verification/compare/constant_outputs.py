"""Outputs whose comparison says next to nothing: they are NaN, or one value, in all calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.ir.graph import Signature


@dataclass(frozen=True)
class _Seen:
    """What the values of an output have in common.   first: the value of one call"""

    first: np.ndarray
    calls: int = 0
    is_nan: bool = True
    is_constant: bool = True

    def with_(self, array: np.ndarray) -> _Seen:
        """One more call."""
        is_nan = array.dtype.kind in "fcV" and array.size > 0 and bool(np.isnan(array).all())
        return replace(
            self,
            calls=self.calls + 1,
            is_nan=self.is_nan and is_nan,
            is_constant=self.is_constant and array.size > 0 and _one_value(self.first, array),
        )


@dataclass
class ConstantOutputs:
    """The outputs that were NaN, or the same whatever the inputs were, in all calls so far."""

    _seen: dict[tuple[str, str], _Seen] = field(default_factory=dict)

    def learn(self, key: str, output: str, array: np.ndarray) -> None:
        """One more value of an output of a signature."""
        seen = self._seen.get((key, output)) or _Seen(array)
        self._seen[key, output] = seen.with_(array)

    def notes(self, signatures: Mapping[str, Signature]) -> Iterator[str]:
        """A sentence for each such output; one that depends on no input may well be the same."""
        for (key, output), seen in self._seen.items():
            if seen.is_nan:
                yield f"{output!r} of {key!r} is NaN in all {seen.calls} calls that were compared"
            elif seen.is_constant and seen.calls > 1 and signatures[key].input_names:
                yield f"{output!r} of {key!r} is the same in all {seen.calls} calls that were compared"


def _one_value(some: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal, or one number throughout, as where their sizes are open."""
    if some.shape == other.shape:
        return bool(np.array_equal(some, other))
    return bool(some.size and (some == some.flat[0]).all() and (other == some.flat[0]).all())
