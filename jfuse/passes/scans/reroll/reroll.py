"""Turns repeated steps, as `unroll=True` and loops of Python write them out, into `scan`.

A step is known by what it computes, not by names: T times the same equations with the same weights, on the next element
of each sequence and on what the step before left. Everything that other code needs of single steps it still gets.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import replace

from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.trace import recording
from jfuse.ir.walk import producers, with_bodies
from jfuse.passes.scans.reroll.detect import Unrolled, unrolled_loops
from jfuse.passes.scans.reroll.emit import Emitter, needs_of
from jfuse.passes.scans.reroll.peeled_step import with_peeled_step
from jfuse.passes.simplify.dce import eliminate_dead_code

_ROUNDS = 16  # a layer that reads another one backwards is seen only when that one is rolled


def reroll(graph: Graph) -> Graph:
    """Turn every run of at least three equal steps into a scan, in bodies as well. Results stay exactly the same."""
    graph = with_bodies(graph, reroll)
    for _ in range(_ROUNDS):
        rolled = _rolled(eliminate_dead_code(graph))
        if rolled is None:
            break
        graph = rolled
    return graph


def _rolled(graph: Graph) -> Graph | None:
    """The graph with its unrolled loops as scans; None where there are none."""
    loops = [with_peeled_step(loop) for loop in unrolled_loops(graph)]
    order = None
    while loops and order is None:
        order, loops = _order(graph, loops)
    if order is None:
        return None
    emitter = Emitter(graph)
    with recording() as trace:
        for unit in order:
            emitter.emit(unit)
        outputs = tuple(emitter.atom(a) for a in graph.outputs)
    if trace.sizes:  # a scan may not assume that two sizes are equal
        return None
    return eliminate_dead_code(replace(graph, eqns=tuple(trace.eqns), outputs=outputs))


def _order(graph: Graph, loops: Sequence[Unrolled]) -> tuple[list[Eqn | Unrolled] | None, list[Unrolled]]:
    """Equations and loops, each after what it needs; or None and the loops without one that needs its own results."""
    owner = {place: loop for loop in loops for place in loop.places}
    units: dict[Eqn | Unrolled, int] = {}
    unit_of: dict[Eqn, Eqn | Unrolled] = {}
    for place, eqn in enumerate(graph.eqns):
        unit = unit_of[eqn] = owner.get(place, eqn)
        units[unit] = place  # of a loop the last one
    made = producers(graph)
    waiting: dict[Eqn | Unrolled, int] = {}
    readers: dict[Eqn | Unrolled, list[Eqn | Unrolled]] = {}
    for unit in units:
        atoms = needs_of(unit, made) if isinstance(unit, Unrolled) else unit.inputs
        needs = {unit_of[made[v]]: None for v in atoms if isinstance(v, Var) and v in made}
        waiting[unit] = len(needs)
        for need in needs:
            readers.setdefault(need, []).append(unit)
    ready = [(units[u], u) for u, count in waiting.items() if not count]
    heapq.heapify(ready)
    order: list[Eqn | Unrolled] = []
    while ready:
        _, unit = heapq.heappop(ready)
        order.append(unit)
        for reader in readers.get(unit, ()):
            waiting[reader] -= 1
            if not waiting[reader]:
                heapq.heappush(ready, (units[reader], reader))
    if len(order) == len(units):
        return order, list(loops)
    done = set(order)
    stuck = next(loop for loop in loops if loop not in done)
    return None, [loop for loop in loops if loop is not stuck]
