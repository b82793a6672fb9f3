"""How much memory the values of a graph take, where each has a place as long as something reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jfuse.ir.graph import Atom, Graph, Var

_ALIGNMENT = 64  # tflite/util.h, kDefaultTensorAlignment


def arena_bytes(graph: Graph, sizes: Mapping[Var, int]) -> int:
    """The bytes of an arena for the values of a graph, planned greedily by size as LiteRT's planner does.

    sizes: the bytes of each value; of those in bodies each graph has its own arena. Operators that work in place or
    need memory of their own are not known here, so that the real arena is a little smaller or larger.
    Algorithm: greedy by size (Pisarchyk and Lee, 2020). Invariant: no two values that live at once overlap.
    """
    spans = _spans(graph)
    placed: list[tuple[int, int, Var]] = []  # begin, end, value
    for var in sorted(spans, key=lambda v: (-sizes[v], spans[v])):
        first, last = spans[var]
        taken = sorted((b, e) for b, e, other in placed if spans[other][0] <= last and first <= spans[other][1])
        place = 0
        for begin, end in taken:
            if place + sizes[var] <= begin:
                break
            place = max(place, end)
        placed.append((place, place + _aligned(sizes[var]), var))
    return max((end for _, end, _ in placed), default=0)


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _spans(graph: Graph) -> dict[Var, tuple[int, int]]:
    """When each value begins, and when it is read last: numbers of equations; results live to the end."""
    end = len(graph.eqns)
    first = {var: 0 for var in graph.inputs} | {v: i for i, eqn in enumerate(graph.eqns) for v in eqn.outputs}
    last = dict(first)
    reads: Sequence[tuple[int, Atom | None]] = [
        *((i, atom) for i, eqn in enumerate(graph.eqns) for atom in eqn.inputs),
        *((end, atom) for atom in (*graph.outputs, *graph.inputs)),
    ]
    for i, atom in reads:
        if isinstance(atom, Var):
            last[atom] = i
    return {var: (begin, last[var]) for var, begin in first.items()}
