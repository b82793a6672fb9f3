"""Turns repeated steps, as `unroll=True` and loops of Python write them out, into `scan`.

A step is known by what it computes, not by names: T times the same equations with the same weights, on the next element
of each sequence and on what the step before left. Everything that other code needs of single steps it still gets.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jfuse.base.errors import NotFused
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import recording
from jfuse.ir.walk import producers, substitute_graph, with_bodies
from jfuse.kernels import ops
from jfuse.passes.scans.reroll.detect import Unrolled, unrolled_loops
from jfuse.passes.scans.reroll.emit import Emitter, needs_of
from jfuse.passes.scans.reroll.sequence_reads import SequenceRead, reads_of
from jfuse.passes.scans.reroll.step_graph import StepGraph
from jfuse.passes.scans.reroll.steps import Counter, Slot, UnrolledStep
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.proof.prove import ROUNDED, KnownOperands, prove

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


# The first step of an unrolled loop that other code computes: converters peel it where the loop begins with zeros.
# That code lacks the products with the zero state. Its biases are folded and its operators merged, so it does not
# read like a step. It is the first step if it gives the results of the loop's step from zeros. This is proven as
# fusions are, on random rows in float64.

_MOST = 2  # times as many equations as a step of the loop has, in a first step


class _Differs(Exception):
    """The code is no step of the loop."""


def with_peeled_step(loop: Unrolled) -> Unrolled:
    """The loop with one step more where the code before it computes that step from states of zeros; else the loop."""
    first = loop.steps.start - 1
    now = {slot: by_number.get(first) for slot, by_number in loop.before.items()}
    if not now or not _may_have(loop, now):
        return loop
    zeros = {slot: {first - 1: Const(_zeros(slot, loop))} for slot in now}
    longer = replace(loop, steps=range(first, loop.steps.stop), before=zeros)
    step = StepGraph(longer)
    body = step.finish(())
    peeled = _PeeledCode(loop.graph, step)
    atoms = [now[slot] for slot in step.carried]
    try:
        written = peeled.written(body.inputs, [a for a in atoms if a is not None])
        known = {v: zeros[slot][first - 1].array for slot, (v,) in step.carried.items()}
        # Biases that the converter added up are rounded once more than those of the loop's step.
        prove(written, body, KnownOperands([known.get(v) for v in body.inputs]), tolerance=ROUNDED)
    except (NotFused, _Differs):
        return loop
    values = {slot: a for slot, a in zip(step.carried, atoms, strict=True) if isinstance(a, Var)}
    return replace(longer, peeled=values, peeled_eqns=frozenset(written.eqns))


def _may_have(loop: Unrolled, now: Mapping[Slot, Atom | None]) -> bool:
    """Whether a step more can be written at all: its rows are there, and the states are of known size."""
    operands = [o for orbit in loop.orbits for o in orbit.operands]
    if any(isinstance(o, Counter) for o in operands) or any(s.lag > 1 for o in loop.orbits for s in o.sources):
        return False
    if not any(isinstance(a, Var) for a in now.values()) or any(a is None for a in now.values()):
        return False
    if not all(all(map(is_known, a.type.shape)) and a.type.dtype.is_float for a in now.values() if a is not None):
        return False
    return all(_has_row(o, loop.steps.start - 1) for o in operands if isinstance(o, UnrolledStep))


def _has_row(step: UnrolledStep, number: int) -> bool:
    size = step.read.source.type.shape[step.read.axis]
    return is_known(size) and 0 <= step.index(number) < size


def _zeros(slot: Slot, loop: Unrolled) -> np.ndarray:
    orbit, output = slot
    t = loop.template(orbit).outputs[output].type
    return np.zeros([int(d) for d in t.shape], t.dtype.numpy)


class _PeeledCode:
    """The code before a loop, up to the rows of its sequences and the values that all steps read."""

    def __init__(self, graph: Graph, step: StepGraph) -> None:
        self._graph = graph
        self._made = producers(graph)
        self._reads = reads_of(graph)
        self._shared = step.consts
        self._rows = {(source, axis, index): v for (source, axis, index, _), v in step.sequences.items()}
        self._limit = _MOST * len(step.finish(()).eqns)

    def written(self, inputs: Sequence[Var], results: Sequence[Atom]) -> Graph:
        """The code as a graph over the inputs of the loop's step; raises _Differs where it reads anything else."""
        known: dict[Var, Atom] = {}
        eqns: set[Eqn] = set()
        rows: list[Eqn] = []
        pending = [a for a in results if isinstance(a, Var)]
        reads_a_row = False
        while pending:
            var = pending.pop()
            read = self._reads.get(var)
            if var in known or (var in self._made and self._made[var] in eqns):
                continue
            if var in self._shared:
                known[var] = self._shared[var]
            elif read is not None and (read.source, read.axis, read.index) in self._rows:
                known[var] = self._row(read, var, rows)
                reads_a_row = True
            else:
                eqn = self._made.get(var)
                if eqn is None or eqn.bodies or eqn.effects or len(eqns) > self._limit:
                    raise _Differs
                eqns.add(eqn)
                pending += [a for a in eqn.inputs if isinstance(a, Var)]
        if not reads_a_row or not eqns:
            raise _Differs
        ordered = tuple(e for e in self._graph.eqns if e in eqns)
        graph = substitute_graph(Graph("first step", (), ordered, tuple(results)), known)
        return replace(graph, inputs=tuple(inputs), eqns=(*rows, *graph.eqns))

    def _row(self, read: SequenceRead, var: Var, rows: list[Eqn]) -> Var:
        row = self._rows[read.source, read.axis, read.index]
        if not read.kept:
            return row
        row_with_axis = Var(var.type)
        rows.append(Eqn(ops.expand_dims, (row, Const(np.array(read.axis, np.int32))), (row_with_axis,)))
        return row_with_axis
