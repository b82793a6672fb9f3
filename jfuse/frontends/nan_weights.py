"""Notes on weights that hold NaNs: NaN agrees with NaN, so no comparison of outputs finds them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jfuse.ir.contents import count_nans
from jfuse.ir.graph import Const, Program
from jfuse.ir.walk import all_eqns

_LOGGER = logging.getLogger("jfuse")


@dataclass(frozen=True)
class NanWeights:
    """The arrays of a source that hold NaNs, as its reader comes by them.

    names: of arrays, by their address in memory.
    """

    names: Mapping[int, str] = field(default_factory=dict)
    _found: dict[str, None] = field(default_factory=dict)

    def look_at(self, what: str, value: Any) -> None:
        """Check one more array for NaNs.   what: its description, if no name is known"""
        array = value if isinstance(value, np.ndarray) else np.asarray(value)
        if array.dtype.kind in "fcV" and (count := count_nans(array)):
            what = self.names.get(address(array), what)
            self._found[f"{what} holds {count} NaN among {array.size} numbers: values computed from it are NaN"] = None

    def look_at_constant(self, what: str, value: Any) -> None:
        """As `look_at`, but for a lone NaN, which an author wrote: `where(x > 0, x, nan)`."""
        if np.size(value) > 1:
            self.look_at(what, value)

    def notes(self) -> tuple[str, ...]:
        """A note on each, logged as well."""
        for note in self._found:
            _LOGGER.warning(note)
        return tuple(self._found)


def notes_on_file(program: Program) -> tuple[str, ...]:
    """A note on each constant of a file's program that holds NaNs, by the name of its tensor."""
    nans = NanWeights()
    consts = (a for g in program.graphs() for e in all_eqns(g) for a in e.inputs if isinstance(a, Const))
    for const in {c.memory: c for c in consts}.values():
        nans.look_at_constant(f"the tensor {const.name!r}" if const.name else f"a tensor {const.type}", const.array)
    return nans.notes()


def address(array: np.ndarray) -> int:
    """Where the array begins in memory."""
    return int(array.__array_interface__["data"][0])
