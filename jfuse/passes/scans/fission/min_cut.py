"""The fewest values through which everything passes that some results are computed from.

`scipy.sparse.csgraph.maximum_flow` finds the same cuts. It is not used because nothing else that jfuse imports needs
SciPy, and importing it (`python -X importtime -c "import scipy.sparse.csgraph"`: 0.2 s and more) takes as long as the
conversion of a small recurrent model, while these networks have a few dozen nodes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TypeAlias

from jfuse.ir.graph import Var

_Node: TypeAlias = tuple[Var | None, bool]  # a value where it comes in (False) and where it goes on (True)

_SOURCE: _Node = (None, False)
_SINK: _Node = (None, True)
_ENDLESS = 1 << 30


def smallest_cut(
    reads: Mapping[Var, Sequence[Var]], wanted: Sequence[Var], uncut: Collection[Var] = (), *, late: bool = False
) -> tuple[Var, ...]:
    """The smallest set of values from which `wanted` can be computed, in the order in which they are met from there.

    reads: what each value is computed from; those that it does not name are given. uncut: values to keep out of the
    set; none of them may be a given one. late: of several such sets the one nearest to `wanted`, else the farthest.
    """
    # Minimum vertex cut by maximum flow (Ford and Fulkerson): each value is split into an entrance and an exit with
    # capacity 1 between them, and everything else is endless. So each saturated value is one value of the cut.
    network = _Network()
    order = _behind(reads, wanted)
    for var in order:
        network.add((var, False), (var, True), _ENDLESS if var in uncut else 1)
        for before in reads.get(var, ()):
            network.add((before, True), (var, False), _ENDLESS)
        if var not in reads:
            network.add(_SOURCE, (var, False), _ENDLESS)
    for var in wanted:
        network.add((var, True), _SINK, _ENDLESS)
    while network.augment():
        pass
    # Several cuts may be smallest. The residual network tells the one nearest to the sink from that nearest to the
    # source.
    if late:
        near = network.reaching(_SINK)
        return tuple(var for var in order if (var, True) in near and (var, False) not in near)
    far = network.reached(_SOURCE)
    return tuple(var for var in order if (var, False) in far and (var, True) not in far)


def _behind(reads: Mapping[Var, Sequence[Var]], wanted: Sequence[Var]) -> list[Var]:
    behind: dict[Var, None] = {}
    pending = list(reversed(wanted))
    while pending:
        var = pending.pop()
        if var not in behind:
            behind[var] = None
            pending.extend(reversed(reads.get(var, ())))
    return list(behind)


class _Network:
    """Pipes with capacities: what may still flow along each, and back."""

    def __init__(self) -> None:
        self._left: dict[_Node, dict[_Node, int]] = {_SOURCE: {}, _SINK: {}}

    def add(self, start: _Node, end: _Node, capacity: int) -> None:
        self._left.setdefault(start, {})[end] = capacity
        self._left.setdefault(end, {}).setdefault(start, 0)

    def augment(self) -> bool:
        """Send one more unit from the source to the sink. False where none gets through."""
        came_from = self.reached(_SOURCE)
        if _SINK not in came_from:
            return False
        node = _SINK
        while node != _SOURCE:
            before = came_from[node]
            self._left[before][node] -= 1
            self._left[node][before] += 1
            node = before
        return True

    def reached(self, start: _Node) -> dict[_Node, _Node]:
        """The nodes that more could flow to, each with the one before it."""
        before_of = {start: start}
        pending = [start]
        while pending:
            node = pending.pop()
            for after, left in self._left[node].items():
                if left and after not in before_of:
                    before_of[after] = node
                    pending.append(after)
        return before_of

    def reaching(self, end: _Node) -> set[_Node]:
        """The nodes from which more could flow to `end`."""
        nodes = {end}
        pending = [end]
        while pending:
            node = pending.pop()
            for before in self._left[node]:
                if before not in nodes and self._left[before][node]:
                    nodes.add(before)
                    pending.append(before)
        return nodes
