"""Equations with their successors, and what each of their operands is: the steps of an unrolled loop as a hypothesis.

An *orbit* is an equation with its successors, one for each step. The last two of them say what an operand is: the same
in every step, the next element of a sequence, or what an orbit computed in this step or some steps before. The last
step is number 0, those before it have negative numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from typing import TypeAlias

import numpy as np

from jfuse.ir.graph import Atom, Const, Var
from jfuse.passes.scans.reroll.repetition import Repetition, is_number
from jfuse.passes.scans.reroll.sequence_reads import SequenceRead


@dataclass(frozen=True)
class Same:
    """An operand that is the same in every step."""

    atom: Atom | None


@dataclass(frozen=True)
class UnrolledStep:
    """An operand that is one step of a sequence: `read` in the last step, `stride` less in the one before."""

    read: SequenceRead
    stride: int

    def index(self, number: int) -> int:
        """The place that the step of a number reads."""
        return self.read.index + number * self.stride

    def moved(self, number: int) -> UnrolledStep:
        """The operand whose last step is the one that has this number now."""
        return replace(self, read=replace(self.read, index=self.index(number)))

    @property
    def line(self) -> tuple[object, ...]:
        """The key that operands share where one may be ahead of the other."""
        return (*self.read.sequence, self.stride)

    @property
    def progress(self) -> int:
        """How many steps the last one is ahead of place 0."""
        return self.read.index // self.stride


@dataclass(frozen=True, eq=False)
class Counter:
    """An operand that is a number: `last` in the last step, `stride` less in the one before."""

    last: np.ndarray
    stride: np.ndarray

    @property
    def line(self) -> tuple[object, ...]:
        """The key that operands share where one may be ahead of the other."""
        return self.last.dtype, self.stride.item()

    @property
    def progress(self) -> int:
        """How many steps the last one is ahead of number 0."""
        return int(self.last // self.stride) if self.stride else 0

    def is_at(self, number: int, atom: Atom | None) -> bool:
        """Whether the constant is the one that the step of a number should have."""
        return isinstance(atom, Const) and bool(atom.array == self.last + number * self.stride)


@dataclass(frozen=True)
class LaggedValue:
    """An operand that an orbit of the loop computed `lag` steps before."""

    orbit: Orbit
    output: int
    lag: int


Operand: TypeAlias = Same | UnrolledStep | Counter | LaggedValue


@dataclass(eq=False)
class Orbit:
    """One equation of the step, with its places in the graph by the number of the step."""

    places: dict[int, int]
    operands: tuple[Operand, ...] = ()
    shift: int = 0

    @property
    def last(self) -> int:
        """The number of the last step that has it."""
        return -self.shift

    def at(self, number: int) -> int | None:
        """The position of its equation in the graph for a step."""
        return self.places.get(number + self.shift)

    @property
    def sources(self) -> list[LaggedValue]:
        """The operands that orbits of the loop computed."""
        return [o for o in self.operands if isinstance(o, LaggedValue)]


Slot: TypeAlias = tuple[Orbit, int]
"""A result of an orbit."""

Before: TypeAlias = Mapping[Slot, Mapping[int, Atom]]
"""For each result that later steps read, its initial values, by the numbers of steps before the first one."""


def regions_of(repetition: Repetition) -> list[list[Orbit]]:
    """The orbits with their operands, those together that depend on each other."""
    orbits: list[Orbit] = []
    owner: dict[int, Orbit] = {}
    for end in sorted(set(repetition.previous) - set(repetition.next), reverse=True):
        orbit = Orbit(dict(_backwards(end, repetition)))
        orbits.append(orbit)
        owner.update(dict.fromkeys(orbit.places.values(), orbit))
    for orbit in orbits:
        orbit.operands = tuple(_operands(orbit, owner, repetition))
    return _connected(orbits)


def _backwards(end: int, repetition: Repetition) -> Iterator[tuple[int, int]]:
    number, place = 0, end
    while True:
        yield number, place
        if place not in repetition.previous:
            return
        number, place = number - 1, repetition.previous[place]


def _operands(orbit: Orbit, owner: Mapping[int, Orbit], repetition: Repetition) -> Iterator[Operand]:
    """Classify the operands of an orbit by its last two equations; `Same` where nothing else fits."""
    last, before = (repetition.graph.eqns[orbit.places[number]] for number in (0, -1))
    for i, (u, v) in enumerate(zip(before.inputs, last.inputs, strict=True)):
        reads = [repetition.reads.get(a) if isinstance(a, Var) else None for a in (u, v)]
        made = [repetition.made.get(a) if isinstance(a, Var) else None for a in (u, v)]
        if repetition.likeness.same(u, v):
            yield Same(v)
        elif isinstance(u, Const) and isinstance(v, Const) and is_number(last, i, v) and v.array.dtype.kind != "u":
            yield Counter(v.array, v.array - u.array)
        elif reads[0] and reads[1] and reads[0].sequence == reads[1].sequence and reads[0].index != reads[1].index:
            yield UnrolledStep(reads[1], reads[1].index - reads[0].index)
        elif made[0] and made[1] and made[1][0] in owner and repetition.next.get(made[0][0]) == made[1][0]:
            source = owner[made[1][0]]
            number = next(n for n, p in source.places.items() if p == made[1][0])
            yield LaggedValue(source, made[1][1], -number)
        else:
            yield Same(v)


def _connected(orbits: Sequence[Orbit]) -> list[list[Orbit]]:
    root: dict[Orbit, Orbit] = {o: o for o in orbits}

    def find(orbit: Orbit) -> Orbit:
        while root[orbit] is not orbit:
            root[orbit] = root[root[orbit]]
            orbit = root[orbit]
        return orbit

    for orbit in orbits:
        for source in orbit.sources:
            root[find(orbit)] = find(source.orbit)
    regions: dict[Orbit, list[Orbit]] = {}
    for orbit in orbits:
        regions.setdefault(find(orbit), []).append(orbit)
    return list(regions.values())


def align(region: Sequence[Orbit]) -> None:
    """Give the orbits of a region the steps that they belong to."""
    _turn_round(region)
    _align(region)


def _turn_round(region: Sequence[Orbit]) -> None:
    """Steps without a memory may come in any order: take the one in which the first sequence is read forwards."""
    strides = [o.stride for orbit in region for o in orbit.operands if isinstance(o, UnrolledStep)]
    if not strides or strides[0] > 0 or any(source.lag for orbit in region for source in orbit.sources):
        return
    counts = {orbit: len(orbit.places) for orbit in region}
    for orbit in region:
        first = 1 - counts[orbit]
        orbit.places = {first - number: place for number, place in orbit.places.items()}
        orbit.operands = tuple(_turned(o, first, counts) for o in orbit.operands)


def _turned(operand: Operand, first: int, counts: Mapping[Orbit, int]) -> Operand:
    """An operand of an orbit whose first step is now its last one."""
    if isinstance(operand, UnrolledStep):
        return replace(operand.moved(first), stride=-operand.stride)
    if isinstance(operand, Counter):
        return Counter(operand.last + first * operand.stride, -operand.stride)
    if isinstance(operand, LaggedValue):
        return replace(operand, lag=counts[operand.orbit] - 1 + first)
    return operand


def _align(region: Sequence[Orbit]) -> None:
    """Find which step an orbit belongs to whose last step is missing, as nothing needs its result.

    So far all orbits end together. A state that depends on a sequence belongs where the others read it; the product of
    a state with weights, which the last step leaves out as well, rightly belongs to the step that needs it.
    """
    ordered = sorted(region, key=lambda o: o.places[0])
    mapped, timed = _mapped(ordered)
    # slack: how far an orbit could move to an earlier step. ahead: how far it moves, at least as its readers need it.
    slack = _slack(ordered, mapped, timed)
    ahead: dict[Orbit, int] = {}
    needed: dict[Orbit, int] = {}
    for orbit in reversed(ordered):
        # What depends on sequences alone is computed where it is needed, so that nobody has to carry it.
        lead = needed.get(orbit, slack[orbit] if orbit in timed else 0)
        ahead[orbit] = min(slack[orbit], lead) if orbit in mapped else slack[orbit]
        for s in orbit.sources:
            needed[s.orbit] = max(needed.get(s.orbit, 0), ahead[orbit] - s.lag)
    for orbit in region:
        orbit.shift = ahead[orbit]
        orbit.operands = tuple(_shifted(o, orbit, ahead) for o in orbit.operands)


def _mapped(ordered: Sequence[Orbit]) -> tuple[set[Orbit], set[Orbit]]:
    """The orbits that depend on no memory, and those among them that depend on a sequence or a counter."""
    mapped: set[Orbit] = set()
    timed: set[Orbit] = set()
    for orbit in ordered:
        if all(s.orbit in mapped for s in orbit.sources):
            mapped.add(orbit)
            if _tells_time(orbit) or any(s.orbit in timed for s in orbit.sources):
                timed.add(orbit)
    return mapped, timed


def _tells_time(orbit: Orbit) -> bool:
    return any(isinstance(o, UnrolledStep | Counter) for o in orbit.operands)


def _slack(ordered: Sequence[Orbit], mapped: set[Orbit], timed: set[Orbit]) -> dict[Orbit, int]:
    """How many steps earlier an orbit that is tied to a sequence or a counter has all that it needs."""
    furthest: dict[tuple[object, ...], int] = {}
    for o in (o for orbit in ordered for o in orbit.operands if isinstance(o, UnrolledStep | Counter)):
        furthest[o.line] = max(furthest.get(o.line, o.progress), o.progress)
    slack: dict[Orbit, int] = {}
    for orbit in ordered:
        sources = [s for s in orbit.sources if s.orbit is not orbit]
        room = [s.lag + slack.get(s.orbit, 0) for s in sources]
        room += [furthest[o.line] - o.progress for o in orbit.operands if isinstance(o, UnrolledStep | Counter)]
        tied = orbit in mapped or _tells_time(orbit) or any(s.orbit in timed for s in sources)
        slack[orbit] = max(0, min(room, default=len(orbit.places))) if tied else 0
    return slack


def _shifted(operand: Operand, orbit: Orbit, ahead: Mapping[Orbit, int]) -> Operand:
    """An operand of an orbit that belongs to an earlier step than it seemed, counted from number 0 again."""
    if isinstance(operand, UnrolledStep):
        return operand.moved(orbit.shift)
    if isinstance(operand, Counter):
        return replace(operand, last=operand.last + orbit.shift * operand.stride)
    if isinstance(operand, LaggedValue):
        return replace(operand, lag=operand.lag + ahead[operand.orbit] - orbit.shift)
    return operand


def matches(operand: Operand, atom: Atom | None, number: int, repetition: Repetition) -> bool:
    """Whether an operand of a step is the same as in other steps, the right step of a sequence, or a number."""
    if isinstance(operand, Same):
        return repetition.likeness.same(operand.atom, atom) or _reads_alike(operand.atom, atom, repetition)
    if isinstance(operand, UnrolledStep):
        read = repetition.reads.get(atom) if isinstance(atom, Var) else None
        return read is not None and read.sequence == operand.read.sequence and read.index == operand.index(number)
    return isinstance(operand, Counter) and operand.is_at(number, atom)


def is_linked(value: LaggedValue, atom: Atom | None, number: int, repetition: Repetition) -> bool:
    """Whether an operand is what the orbit computed the right number of steps before."""
    place = value.orbit.at(number - value.lag)
    return place is not None and isinstance(atom, Var) and repetition.made.get(atom) == (place, value.output)


def _reads_alike(a: Atom | None, b: Atom | None, repetition: Repetition) -> bool:
    """Whether two Vars are the same step of the same sequence."""
    if not isinstance(a, Var) or not isinstance(b, Var) or a not in repetition.reads:
        return False
    return repetition.reads[a] == repetition.reads.get(b)


def in_order(orbits: Sequence[Orbit]) -> tuple[Orbit, ...]:
    """The orbits, each after those whose results of the same step it needs; raises CycleError where there are none."""
    needs = {o: [s.orbit for s in o.sources if s.lag == 0] for o in sorted(orbits, key=lambda o: o.places[0])}
    return tuple(TopologicalSorter(needs).static_order())
