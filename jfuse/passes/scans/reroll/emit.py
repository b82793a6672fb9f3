"""Writing unrolled loops as scans, and what other code reads of their steps as parts of the stacked results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise, takewhile
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, symbols_in
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.trace import active_trace, as_atom, at_source, recording
from jfuse.ir.walk import is_same_type, producers, substitute, users
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor
from jfuse.passes.scans.reroll.detect import Unrolled
from jfuse.passes.scans.reroll.sequence_reads import taken, time_at, time_first
from jfuse.passes.scans.reroll.step_graph import StepGraph
from jfuse.passes.scans.reroll.steps import Slot

_JOINED = 3  # so many steps side by side are taken out of the stacked results together


@dataclass(frozen=True)
class _Row:
    """The position of a step's result in the stacked results of its loop."""

    stack: Var
    place: int


class Emitter:
    """Records the equations of a graph again, loops as scans, in the active trace."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._made = producers(graph)
        self._readers = users(graph)
        self._results = {a for a in graph.outputs if isinstance(a, Var)}
        self._atoms: dict[Var, Atom] = {}
        self._rows: dict[Var, _Row] = {}

    def emit(self, unit: Eqn | Unrolled) -> None:
        """Record an equation or a loop whose operands are there already."""
        if isinstance(unit, Unrolled):
            with at_source(_source_of(unit)):
                self._loop(unit)
            return
        with at_source(unit.source):
            joined = self._joined(unit)
        if joined is None:
            operands = {a: self.atom(a) for a in unit.inputs if isinstance(a, Var)}
            active_trace().record(substitute(unit, operands))
        else:
            self._atoms[unit.outputs[0]] = joined

    def atom(self, atom: Atom) -> Atom:
        """Return the atom that replaces a value; one of the stacked rows is read from its stack."""
        if not isinstance(atom, Var) or atom in self._atoms or atom not in self._rows:
            return self._atoms.get(atom, atom) if isinstance(atom, Var) else atom
        row = self._rows[atom]
        place = np.array([row.place], np.int32)
        single = ops.strided_slice(row.stack, place, place + 1, np.ones(1, np.int32), shrink_axis_mask=1)
        self._atoms[atom] = single
        return self._atoms[atom]

    def _loop(self, loop: Unrolled) -> None:
        step = StepGraph(loop)
        alone, joined = self._read_outside(loop)
        finals: dict[Slot, Var] = {}
        for slot, by_number in alone.items():
            last = by_number.get(loop.steps[-1])
            if last is not None and slot in step.carried and not _are_many(by_number, loop):
                finals[slot] = last
        rows = {s: {n: v for n, v in by_number.items() if v is not finals.get(s)} for s, by_number in alone.items()}
        stacked = [slot for slot in alone if rows[slot] or slot in joined]
        results = scan(
            self._operands(step),
            (step.finish(stacked),),
            consts=len(step.consts),
            carries=sum(map(len, step.carried.values())),
            length=len(loop.steps),
        )
        first = 0
        for slot, variables in step.carried.items():
            if slot in finals:
                self._atoms[finals[slot]] = results[first]
            first += len(variables)
        for slot, stack in zip(stacked, results[first:], strict=True):
            self._place_rows(loop, slot, stack, rows[slot])

    def _place_rows(self, loop: Unrolled, slot: Slot, stack: Var, alone: Mapping[int, Var]) -> None:
        orbit, output = slot
        for place, number in enumerate(loop.steps):
            where = orbit.at(number)
            if where is not None:
                self._rows[self._graph.eqns[where].outputs[output]] = _Row(stack, place)
        if slot in loop.peeled:
            self._rows[loop.peeled[slot]] = _Row(stack, 0)
        if _are_many(alone, loop):
            parts = unpacked(stack)
            self._atoms.update((var, parts[number - loop.steps.start]) for number, var in alone.items())

    def _read_outside(self, loop: Unrolled) -> tuple[dict[Slot, dict[int, Var]], set[Slot]]:
        """Find the results of steps that other code reads one by one, and those that it reads side by side."""
        inside = {self._graph.eqns[place] for place in loop.places} | loop.peeled_eqns
        slots = {v: slot for slot, _, v in self._values(loop)}
        alone: dict[Slot, dict[int, Var]] = {}
        joined: set[Slot] = set()
        joins: dict[Eqn, set[Var]] = {}
        for slot, number, var in self._values(loop):
            readers = [e for e in self._readers.get(var, ()) if e not in inside]
            joins.update((e, _side_by_side(e, slots)) for e in readers if e not in joins)
            side_by_side = [e for e in readers if var in joins[e]]
            if side_by_side:
                joined.add(slot)
                alone.setdefault(slot, {})
            if len(side_by_side) < len(readers) or var in self._results:
                alone.setdefault(slot, {})[number] = var
        return alone, joined

    def _values(self, loop: Unrolled) -> Iterator[tuple[Slot, int, Var]]:
        for orbit in loop.orbits:
            for number in loop.steps:
                place = orbit.at(number)
                outputs = () if place is None else self._graph.eqns[place].outputs
                for k, var in enumerate(outputs):
                    yield (orbit, k), number, var
        for slot, var in loop.peeled.items():
            yield slot, loop.steps.start, var

    def _operands(self, step: StepGraph) -> list[Atom]:
        loop = step.loop
        consts = [self.atom(v) for v in step.consts]
        carries = [self._initial(loop.before[slot][loop.steps.start - lag]) for slot, lag in step.delays]
        turned: dict[tuple[Var, int], Any] = {}
        xs: list[Atom] = []
        for source, axis, start, stride in step.sequences:
            if (source, axis) not in turned:
                turned[source, axis] = time_first(_variable(self.atom(source)), axis)
            xs.append(taken(turned[source, axis], start, stride, len(loop.steps)))
        counters = [Const(np.stack([n.array for n in numbers])) for numbers in step.counters]
        return [*consts, *carries, *xs, *counters]

    def _initial(self, atom: Atom) -> Atom:
        """An initial state; what is only filled with a number no longer asks a step of the loop for its shape."""
        value = filled_with(atom, self._made, self._graph)
        if value is None:
            return self.atom(atom)
        # In a trace of its own, or the size of a step would be found that is known already.
        with recording(nested=True) as trace, at_source(self._made[_variable(atom)].source):
            filled = as_atom(ops.fill(shape_tensor(atom.type.shape, self._graph.inputs), value))
        for eqn in trace.eqns:
            active_trace().record(eqn)
        return filled

    def _joined(self, eqn: Eqn) -> Atom | None:
        """The result of an equation that puts steps side by side, out of the stacked results; None for others."""
        stacks = {a: row.stack for a in eqn.inputs if isinstance(a, Var) and (row := self._rows.get(a)) is not None}
        if not _side_by_side(eqn, stacks):
            return None
        packs = eqn.op is ops.pack
        axis = eqn.params["axis"] % eqn.outputs[0].type.rank
        pieces: list[Any] = []
        for stack, group in groupby(eqn.inputs, lambda a: stacks.get(a) if isinstance(a, Var) else None):
            atoms = [a for a in group if a is not None]
            if stack is not None and len(atoms) >= _JOINED:
                run = _selected(stack, [self._rows[_variable(a)].place for a in atoms])
                pieces.append(time_at(run, axis) if packs else _merged(run, axis))
            elif packs:
                pieces.append(ops.pack(*map(self.atom, atoms), axis=axis))
            else:
                pieces += map(self.atom, atoms)
        whole = pieces[0] if len(pieces) == 1 else ops.concatenation(*pieces, axis=axis)
        return whole if is_same_type(whole.type, eqn.outputs[0].type) else None


def _are_many(alone: Mapping[int, Var], loop: Unrolled) -> bool:
    """Whether so many single steps are read that they are given as one sequence, for another loop to find."""
    return len(alone) >= max(len(loop.steps) - 1, _JOINED)


def needs_of(loop: Unrolled, made: Mapping[Var, Eqn]) -> Iterator[Var]:
    """The Vars that a loop is given."""
    step = StepGraph(loop)
    yield from step.consts
    yield from (source for source, *_ in step.sequences)
    before = [loop.before[slot][loop.steps.start - lag] for slot, lag in step.delays]
    yield from (a for a in before if isinstance(a, Var) and filled_with(a, made, loop.graph) is None)


def filled_with(atom: Atom, made: Mapping[Var, Eqn], graph: Graph) -> np.ndarray | None:
    """The number that every element of a tensor is, where its equation says so and the inputs tell its shape."""
    eqn = made.get(atom) if isinstance(atom, Var) else None
    known = {str(d) for v in graph.inputs for d in v.type.shape}
    if not symbols_in(atom.type.shape) <= known:
        return None
    if eqn is not None and eqn.op is ops.zeros_like:
        return np.zeros((), atom.type.dtype.numpy)
    if eqn is not None and eqn.op is ops.fill and isinstance(eqn.inputs[1], Const):
        return eqn.inputs[1].array.reshape(())
    return None


def _side_by_side(eqn: Eqn, groups: Mapping[Var, Any]) -> set[Var]:
    """The operands of a PACK or CONCATENATION that stand in a row with others of their group."""
    if eqn.op is not ops.pack and eqn.op is not ops.concatenation:
        return set()
    if eqn.params.get("fused_activation_function", "NONE") != "NONE":
        return set()
    if eqn.op is ops.concatenation and not _is_mergeable(eqn):
        return set()
    operands: set[Var] = set()
    for group, atoms in groupby(eqn.inputs, lambda a: groups.get(a) if isinstance(a, Var) else None):
        row = [a for a in atoms if isinstance(a, Var)]
        if group is not None and len(row) >= _JOINED:
            operands.update(row)
    return operands


def _is_mergeable(eqn: Eqn) -> bool:
    """Whether the steps' shapes, next to each other, can be written as the shape of a RESHAPE."""
    return all(a is None or sum(not is_known(d) for d in a.type.shape) <= 1 for a in eqn.inputs)


def _selected(stack: Var, places: Sequence[int]) -> Var:
    """Some steps of a stack, in their order."""
    strides = {b - a for a, b in pairwise(places)}
    if len(strides) == 1 and 0 not in strides:
        return _variable(taken(stack, places[0], strides.pop(), len(places)))
    return _variable(ops.gather(stack, np.array(places, np.int32), axis=0))


def _merged(stack: Var, axis: int) -> Var:
    """The steps of a stack one after the other along an axis that each of them has."""
    count, *step = stack.type.shape
    shape = [count * d if i == axis else d for i, d in enumerate(step)]
    sizes = np.array([int(d) if is_known(d) else -1 for d in shape], np.int32)
    return _variable(ops.reshape(time_at(stack, axis), sizes))


def _source_of(loop: Unrolled) -> Source:
    """Return the common part of the sources of all equations of the last steps."""
    numbers = loop.steps[-2:]
    places = [p for orbit in loop.orbits for n in numbers if (p := orbit.at(n)) is not None]
    sources = [loop.graph.eqns[p].source for p in places]
    node = "/".join(_common([s.node.split("/") for s in sources]))
    return Source(node, "", tuple(_common([s.stack for s in sources])))


def _common(paths: Sequence[Sequence[str]]) -> list[str]:
    return [names[0] for names in takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))]


def _variable(value: Any) -> Var:
    assert isinstance(value, Var), "steps are read of tensors that are computed at run time"
    return value
