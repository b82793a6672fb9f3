"""Unrolled loops: runs of steps in which every equation has exactly the operands that it has in the last step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import CycleError
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import TensorType
from jfuse.ir.walk import is_same_type
from jfuse.passes.scans.reroll.repetition import Repetition
from jfuse.passes.scans.reroll.steps import (
    Before,
    LaggedValue,
    Operand,
    Orbit,
    Same,
    Slot,
    UnrolledStep,
    align,
    in_order,
    is_linked,
    matches,
    regions_of,
)

LEAST_STEPS = 3  # two equal pieces of code are a pair of anything; a third makes it likely that they are steps


@dataclass(frozen=True, eq=False)
class Unrolled:
    """A loop: orbits in an order in which they can be computed, its steps, and the initial values before them.

    peeled: of a first step that other code computes, what stands there for results of the step; peeled_eqns: this code.
    """

    graph: Graph
    orbits: tuple[Orbit, ...]
    steps: range
    before: Before
    peeled: Mapping[Slot, Var] = field(default_factory=dict)
    peeled_eqns: frozenset[Eqn] = frozenset()

    @property
    def places(self) -> set[int]:
        """The equations of the graph that are in the loop."""
        return {p for orbit in self.orbits for number in self.steps if (p := orbit.at(number)) is not None}

    def template(self, orbit: Orbit) -> Eqn:
        """The equation of an orbit in the last step that has it."""
        return self.graph.eqns[orbit.places[0]]


def unrolled_loops(graph: Graph) -> list[Unrolled]:
    """The loops in straight-line code that do not share an equation, later ones first."""
    repetition = Repetition.of(graph)
    return [loop for region in regions_of(repetition) for loop in [_loop(repetition, region)] if loop is not None]


def _loop(repetition: Repetition, region: Sequence[Orbit]) -> Unrolled | None:
    """The loop that the orbits of a region make up; None where too few of their steps are equal."""
    align(region)
    core = _core(region)
    check = _Check(repetition, core)
    # The last step may be another one than the rest (other code reads it, or its end is cut off). So candidates for the
    # last step go back one by one until enough steps before it are equal.
    last, least = _last_step(region, core, repetition), min(min(o.places) - o.shift for o in core)
    while last - least >= LEAST_STEPS - 2:  # the one before may be folded
        steps, before = check.run(last)
        if len(steps) >= LEAST_STEPS - 1:
            steps, before = with_folded_step(repetition, core, steps, before)
        if len(steps) >= LEAST_STEPS:
            others = [o for o in region if o not in set(core)]
            return _finished(repetition, core, others, steps, before)
        last = min(last, steps.start) - 1
    return None


def _core(region: Sequence[Orbit]) -> list[Orbit]:
    """List the orbits that the loop's carries depend on; without carries, those of its longest-lived result."""
    carried = [s.orbit for orbit in region for s in orbit.sources if s.lag > 0]
    if not carried:
        carried = [max(region, key=lambda o: (len(o.places), o.places[0]))]
    seen: dict[Orbit, None] = {}
    pending = list(carried)
    while pending:
        orbit = pending.pop()
        if orbit not in seen:
            seen[orbit] = None
            pending += [s.orbit for s in orbit.sources]
    return list(seen)


def _last_step(region: Sequence[Orbit], core: Sequence[Orbit], repetition: Repetition) -> int:
    """The number that the last step may have.

    It is the last one that is there at all, unless code after the loop reads there what it reads in no other step: then
    that step is another one than those before.
    """
    carried = [s.orbit for orbit in region for s in orbit.sources if s.lag > 0]
    sure = max((o.last for o in carried), default=max(o.last for o in core))
    latest = max(o.last for o in region)
    inside = {p for o in region for p in o.places.values()}

    def is_read(orbit: Orbit, number: int) -> bool:
        place = orbit.at(number)
        outputs = () if place is None else repetition.graph.eqns[place].outputs
        return any(v in repetition.results or not repetition.readers.get(v, inside) <= inside for v in outputs)

    for number in range(sure + 1, latest + 1):
        if any(is_read(o, number) and not is_read(o, number - 1) for o in region):
            latest = number - 1
            break
    return latest


@dataclass
class _Check:
    """Compares the operands of steps with the hypothesis of their orbits."""

    found: Repetition
    orbits: Sequence[Orbit]
    values: dict[Slot, dict[int, Atom]] = field(default_factory=dict)

    def run(self, last: int) -> tuple[range, Before]:
        """The longest run of equal steps that ends with number `last`, and the values from before its first one."""
        self.values = {}
        number, first = last, last + 1
        floor = _NEVER
        # From the last step backwards. floor: the least number of the first step. An operand that no step computes must
        # be an initial value, one for all who read it: its step lies before the first one.
        while number >= floor:
            needs = self._step(number)
            if needs is None:
                break
            first, floor = number, max(floor, needs)
            number -= 1
        first = max(first, floor)
        return range(first, last + 1), self._before(first)

    def _step(self, number: int) -> int | None:
        """The least number that the first step may have, seen from this one; None where this one is none."""
        needs = [self._equation(orbit, number) for orbit in self.orbits]
        known = [n for n in needs if n is not None]
        return max(known) if len(known) == len(needs) else None

    def _equation(self, orbit: Orbit, number: int) -> int | None:
        place = orbit.at(number)
        if place is None:
            return _NEVER if number > orbit.last else None
        eqn = self.found.graph.eqns[place]
        needs = [self._operand(o, a, number) for o, a in zip(orbit.operands, eqn.inputs, strict=True)]
        known = [n for n in needs if n is not None]
        return max(known, default=_NEVER) if len(known) == len(needs) else None

    def _operand(self, operand: Operand, atom: Atom | None, number: int) -> int | None:
        if isinstance(operand, LaggedValue):
            return self._value(operand, atom, number)
        return _NEVER if matches(operand, atom, number, self.found) else None

    def _value(self, value: LaggedValue, atom: Atom | None, number: int) -> int | None:
        """A value from before the first step may be anything of the right type, the same for all who read it."""
        then = number - value.lag
        if is_linked(value, atom, number, self.found):
            need = _NEVER
        elif value.lag <= 0 or not isinstance(atom, Var | Const) or not _has_type(value, atom, self.found):
            return None
        else:
            need = then + 1
        assert isinstance(atom, Var | Const)
        known = self.values.setdefault((value.orbit, value.output), {}).setdefault(then, atom)
        return need if self.found.likeness.same(known, atom) or value.lag <= 0 else max(need, number + 1, then + 1)

    def _before(self, first: int) -> Before:
        earlier = {slot: {n: a for n, a in by_number.items() if n < first} for slot, by_number in self.values.items()}
        return {slot: by_number for slot, by_number in earlier.items() if by_number}


_NEVER = -(1 << 30)  # no step is the first one on this account


def _has_type(value: LaggedValue, atom: Atom, repetition: Repetition) -> bool:
    return is_same_type(repetition.graph.eqns[value.orbit.places[0]].outputs[value.output].type, atom.type)


def _finished(
    repetition: Repetition,
    core: Sequence[Orbit],
    others: Sequence[Orbit],
    steps: range,
    before: Before,
) -> Unrolled | None:
    """The loop with everything else that each of its steps computes; None where it is no loop after all."""
    orbits = list(core)
    for orbit in sorted(others, key=lambda o: o.places[0]):
        if all(s.lag == 0 and s.orbit in orbits for s in orbit.sources) and _is_complete(orbit, steps, repetition):
            orbits.append(orbit)
    carried = [s for orbit in orbits for s in orbit.sources if s.lag > 0]
    for s in carried:
        known = before.get((s.orbit, s.output), {})
        if any(steps.start - lag not in known for lag in range(1, s.lag + 1)):
            return None
    if not _is_worth_it(orbits, repetition, bool(carried)):
        return None
    try:
        return Unrolled(repetition.graph, in_order(orbits), steps, before)
    except CycleError:
        return None


def _is_complete(orbit: Orbit, steps: range, repetition: Repetition) -> bool:
    """Whether every step has the equation, on the operands that it has in the last one."""
    for number in steps:
        place = orbit.at(number)
        if place is None:
            return False
        eqn = repetition.graph.eqns[place]
        for operand, atom in zip(orbit.operands, eqn.inputs, strict=True):
            linked = isinstance(operand, LaggedValue) and is_linked(operand, atom, number, repetition)
            if not linked and not matches(operand, atom, number, repetition):
                return False
    return True


def _is_worth_it(orbits: Sequence[Orbit], repetition: Repetition, carries: bool) -> bool:
    """Whether a loop does more than to apply functions to the elements of slices, or of one tensor again and again."""
    reads = any(isinstance(o, UnrolledStep) for orbit in orbits for o in orbit.operands)
    ops = [repetition.graph.eqns[o.places[0]].op for o in orbits]
    works = any(not (op.elementwise or op.linear == "joint") for op in ops)
    return (reads and works) or (carries and (reads or works))


# The first step of an unrolled loop, where the import has folded values of a constant initial state.
# What is left of it is compared with the step that the loop repeats, and what is gone is computed again by the same
# ops: from the initial states that show, and from zeros where they were folded. The step is one of the loop where
# every constant in it is what the loop computes, bit by bit, whatever the source began with.


def with_folded_step(
    repetition: Repetition, orbits: Sequence[Orbit], steps: range, before: Before
) -> tuple[range, Before]:
    """The steps of a loop and what comes before them, with one step more where that is its folded first one."""
    if any(s.lag > 1 for orbit in orbits for s in orbit.sources):
        return steps, before
    number = steps.start - 1
    try:
        before_step = _FoldedStep(repetition, orbits, number).given()
    except (_Differs, CycleError):
        return steps, before
    return range(number, steps.stop), {slot: {number - 1: atom} for slot, atom in before_step.items()}


class _Differs(Exception):
    """The step is not one of the loop."""


def _demand(condition: bool) -> None:
    if not condition:
        raise _Differs


@dataclass
class _FoldedStep:
    found: Repetition
    orbits: Sequence[Orbit]
    number: int
    initial: dict[Slot, Atom] = field(default_factory=dict)
    constants: list[tuple[Slot, Const]] = field(default_factory=list)

    def given(self) -> dict[Slot, Atom]:
        """The initial state with which the loop computes this step; raises _Differs where there is none."""
        present = {o for o in self.orbits if o.at(self.number) is not None}
        _demand(0 < len(present) < len(self.orbits))
        for orbit in self.orbits:
            if orbit in present:
                self._compare(orbit, present)
            self._compare_next(orbit, present)
        values = self._computed([o for o in in_order(self.orbits) if o not in present])
        for (orbit, output), const in self.constants:
            _demand(_is_bitwise_equal(values[orbit][output], const.array))
        return self.initial

    def _compare(self, orbit: Orbit, present: set[Orbit]) -> None:
        """Check that the equations left of the step have the expected operands, except for folded ones."""
        place = orbit.at(self.number)
        assert place is not None
        eqn = self.found.graph.eqns[place]
        for operand, atom in zip(orbit.operands, eqn.inputs, strict=True):
            if not isinstance(operand, LaggedValue):
                _demand(matches(operand, atom, self.number, self.found))
            elif operand.lag:
                self._begin_with((operand.orbit, operand.output), atom)
            else:
                self._compare_value(operand, atom, self.number, present)

    def _compare_next(self, orbit: Orbit, present: set[Orbit]) -> None:
        """The step after this one reads the state that this one leaves."""
        place = orbit.at(self.number + 1)
        _demand(place is not None)
        assert place is not None
        for operand, atom in zip(orbit.operands, self.found.graph.eqns[place].inputs, strict=True):
            if isinstance(operand, LaggedValue) and operand.lag:
                self._compare_value(operand, atom, self.number + 1, present)

    def _compare_value(self, value: LaggedValue, atom: Atom | None, number: int, present: set[Orbit]) -> None:
        if value.orbit in present:
            _demand(is_linked(value, atom, number, self.found))
            return
        _demand(isinstance(atom, Const))
        assert isinstance(atom, Const)
        self.constants.append(((value.orbit, value.output), atom))

    def _begin_with(self, slot: Slot, atom: Atom | None) -> None:
        _demand(isinstance(atom, Var | Const))
        assert isinstance(atom, Var | Const)
        _demand(is_same_type(self._type(slot), atom.type))
        _demand(self.found.likeness.same(self.initial.setdefault(slot, atom), atom))

    def _type(self, slot: Slot) -> TensorType:
        orbit, output = slot
        return self.found.graph.eqns[orbit.places[0]].outputs[output].type

    def _computed(self, folded: Sequence[Orbit]) -> dict[Orbit, tuple[Any, ...]]:
        values: dict[Orbit, tuple[Any, ...]] = {}
        for orbit in folded:
            eqn = self.found.graph.eqns[orbit.places[0]]
            _demand(eqn.op.is_kernel)
            arrays = [self._array(operand, values) for operand in orbit.operands]
            values[orbit] = eqn.op.run(arrays, eqn.params, ())
        return values

    def _array(self, operand: Any, values: dict[Orbit, tuple[Any, ...]]) -> np.ndarray | None:
        if isinstance(operand, Same):
            _demand(not isinstance(operand.atom, Var))
            return operand.atom.array if isinstance(operand.atom, Const) else None
        _demand(isinstance(operand, LaggedValue))
        if not operand.lag:
            _demand(operand.orbit in values)
            array: np.ndarray = values[operand.orbit][operand.output]
            return array
        slot = (operand.orbit, operand.output)
        if slot not in self.initial:
            shape, dtype = self._type(slot).shape, self._type(slot).dtype
            _demand(all(map(is_known, shape)) and (dtype.is_float or dtype.is_integer))
            self.initial[slot] = Const(np.zeros(shape, dtype.numpy))
        atom = self.initial[slot]
        _demand(isinstance(atom, Const))
        return atom.array if isinstance(atom, Const) else None


def _is_bitwise_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
