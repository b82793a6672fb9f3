"""Outputs whose comparison says next to nothing: they are NaN, or one value, in all calls, as a whole or in part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Signature, Var
from jfuse.ir.walk import live_eqns
from jfuse.running.runner import Runner
from jfuse.verification.compare.ties import chooses
from jfuse.verification.subject import Arrays

_NAMED = 8
"""Of the places on an axis; the others are counted alone."""


@dataclass
class _CommonValues:
    """Properties that hold in all calls so far: the output is NaN, or constant.

    first: the value of one call. nan_places, constant_places: of floats, for each axis whose size is the same in all
    calls, where on it all is NaN, or the same, in all calls.
    """

    first: np.ndarray
    calls: int = 0
    is_nan: bool = True
    is_constant: bool = True
    nan_places: dict[int, np.ndarray] = field(default_factory=dict)
    constant_places: dict[int, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.first.dtype.kind in "fcV" and self.first.size:
            sizes = {axis: size for axis, size in enumerate(self.first.shape) if size > 1}
            self.nan_places = {axis: np.ones(size, bool) for axis, size in sizes.items()}
            self.constant_places = {axis: np.ones(size, bool) for axis, size in sizes.items()}

    def learn(self, array: np.ndarray) -> None:
        """One more call."""
        self.calls += 1
        nans = np.isnan(array) if array.dtype.kind in "fcV" else np.zeros(array.shape, bool)
        self.is_nan = self.is_nan and array.size > 0 and bool(nans.all())
        self.is_constant = self.is_constant and array.size > 0 and _one_value(self.first, array)
        for axis in tuple(self.nan_places):
            if array.size and array.shape[axis] == self.first.shape[axis]:
                others = tuple(i for i in range(array.ndim) if i != axis)
                self.nan_places[axis] &= nans.all(others)
                self.constant_places[axis] &= _same_places(self.first, array, others)
            else:
                del self.nan_places[axis], self.constant_places[axis]


@dataclass
class ConstantOutputs:
    """The outputs that were NaN, or the same whatever the inputs were, in all calls so far."""

    _seen: dict[tuple[str, str], _CommonValues] = field(default_factory=dict)

    def learn(self, key: str, output: str, array: np.ndarray) -> None:
        """One more value of an output of a signature."""
        self._seen.setdefault((key, output), _CommonValues(array)).learn(array)

    def notes(self, signatures: Mapping[str, Signature]) -> Iterator[str]:
        """A sentence for each such output; one that depends on no input may well be the same."""
        for (key, output), seen in self._seen.items():
            said, calls = f"{output!r} of {key!r} is", f"in all {seen.calls} calls that were compared"
            may_differ = seen.calls > 1 and signatures[key].input_names
            if seen.is_nan:
                yield f"{said} NaN {calls}"
            elif seen.is_constant and may_differ:
                yield f"{said} the same {calls}"
            else:
                yield from (f"{said} NaN at {where} {calls}" for where in _parts(seen.nan_places))
                if may_differ:
                    yield from (f"{said} the same at {where} {calls}" for where in _parts(seen.constant_places))


def _one_value(some: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays are equal, or one number throughout, as where their sizes are open."""
    if some.shape == other.shape:
        return bool(np.array_equal(some, other))
    return bool(some.size and (some == some.flat[0]).all() and (other == some.flat[0]).all())


def _same_places(some: np.ndarray, other: np.ndarray, others: tuple[int, ...]) -> np.ndarray:
    """Where on an axis `_one_value` is true of what two arrays have there.   others: the axes but for this one"""
    if some.shape == other.shape:
        return np.asarray((some == other).all(others))
    ends = [end(others) for array in (some, other) for end in (array.min, array.max)]
    return np.asarray((ends[0] == ends[1]) & (ends[0] == ends[2]) & (ends[0] == ends[3]))


def _parts(places: Mapping[int, np.ndarray]) -> Iterator[str]:
    """Words for the places that are true, where others on their axis are not."""
    for axis, there in places.items():
        indices = np.flatnonzero(there)
        if 0 < len(indices) < len(there):
            named = ", ".join(map(str, indices[:_NAMED])) + (", …" if len(indices) > _NAMED else "")
            yield f"{len(indices):,} of {len(there):,} places of axis {axis} ({named})"


# Choices among NaNs: where an ARG_MAX or a comparison meets a NaN, every runtime takes another element.


def chooses_among_nans(signature: Signature, inputs: Arrays, outputs: Iterable[str]) -> bool:
    """Whether a choice that one of the outputs depends on has a NaN among its operands, in a first call."""
    graph, names = signature.graph, set(outputs)
    live = live_eqns(graph, [a for n, a in zip(signature.output_names, graph.outputs, strict=False) if n in names])
    chosen = [a for e in live if chooses(e) for a in e.inputs if isinstance(a, Var) and a.type.dtype.is_float]
    if signature.states or not chosen:
        return False
    before = replace(graph, eqns=live, outputs=tuple(dict.fromkeys(chosen)))
    try:
        values = Runner(before, quick=True)([inputs[name] for name in signature.input_names])
    except JfuseError:  # what the graph holds cannot be run by itself
        return False
    return any(bool(np.isnan(value).any()) for value in values)
