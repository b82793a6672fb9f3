"""The values of one run of a graph, by the node of the source that each comes from."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

Value: TypeAlias = np.ndarray | None
"""An array; None where it is not known."""


@dataclass
class Nodes:
    """Results of one run, by node: the op and the values of each equation of the node, in order.

    turns: for each loop, by its node, the results of its bodies in each turn, by the number of the body.
    constants: those that the equations read.
    """

    results: dict[str, list[tuple[str, tuple[np.ndarray, ...]]]] = field(default_factory=dict)
    turns: dict[str, Callable[[], Sequence[Mapping[int, Nodes]]]] = field(default_factory=dict)
    constants: list[np.ndarray] = field(default_factory=list)

    def add(self, name: str, op: str, results: Sequence[Value]) -> None:
        """One more equation of a node."""
        known = tuple(r for r in results if r is not None)
        if name and len(known) == len(results):
            self.results.setdefault(name, []).append((op, known))

    def arrays(self) -> Iterator[tuple[str, np.ndarray]]:
        """All values, each once, with their nodes."""
        seen: set[int] = set()
        for name, entries in self.results.items():
            for array in (a for _, results in entries for a in results if id(a) not in seen):
                seen.add(id(array))
                yield name, array
