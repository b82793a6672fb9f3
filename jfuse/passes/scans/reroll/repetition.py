"""The successor relation of unrolled code: the equation of the next step that does what another does in this one.

Two equations are paired if they are equal except for their operands. Each pair of operands must be the same, or read
one sequence at different steps, or be paired in turn. Where code repeats itself, one pair from its end implies all
others. The result is a hypothesis; `detect` checks every step of it.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

from jfuse.ir.contents import Contents
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.text import format_graph
from jfuse.ir.walk import has_effects
from jfuse.passes.scans.reroll.sequence_reads import SequenceRead, reads_of

_DEPTHS = (8, 4, 2)  # how far around an equation its likeness to others is looked at, the best guess first
_PATIENCE = 40  # pairs that may be tried in vain, for each equation: keeps the search linear


class Likeness:
    """Numbers that are equal for constants with equal contents, and for equations alike but for their operands."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}
        self._contents = Contents()
        self._consts: dict[Const, int] = {}

    def const(self, const: Const) -> int:
        """The number of a constant's dtype, shape and contents."""
        number = self._consts.get(const)
        if number is None:
            number = self._consts[const] = self._number((self._contents.number(const), const.quantization))
        return number

    def same(self, a: Atom | None, b: Atom | None) -> bool:
        """Whether two operands surely have the same value."""
        if isinstance(a, Const) and isinstance(b, Const):
            return self.const(a) == self.const(b)
        return a is b

    def eqns(self, eqns: Sequence[Eqn]) -> list[int]:
        """The numbers of equations without their operands."""
        outside = [self._outside(eqn) for eqn in eqns]
        alike = Counter(outside)  # only of those alike are the bodies looked at, which may hold others, and so on
        return [
            number if not eqn.bodies or alike[number] == 1 else self._number((number, _texts(eqn)))
            for eqn, number in zip(eqns, outside, strict=True)
        ]

    def _outside(self, eqn: Eqn) -> int:
        """The number of an equation without its operands and bodies."""
        params = tuple((name, repr(value)) for name, value in eqn.params.items())
        outputs = tuple((out.type, None if out.value is None else repr(out.value)) for out in eqn.outputs)
        operands = tuple(atom is None for atom in eqn.inputs)  # a constant may stand where folding put one
        return self._number((eqn.op, params, outputs, operands))

    def _number(self, key: Any) -> int:
        return self._numbers.setdefault(key, len(self._numbers))


def _texts(eqn: Eqn) -> tuple[str, ...]:
    return tuple(format_graph(body, sources=False) for body in eqn.bodies)


def is_number(eqn: Eqn, index: int, atom: Atom | None) -> bool:
    """Whether an operand may tell the number of the step: a constant number that the op takes as data."""
    if not isinstance(atom, Const) or atom.type.rank != 0 or atom.array.dtype.kind not in "iuf":
        return False
    return eqn.op.is_kernel and not eqn.op.operand_at(index).static


@dataclass
class Repetition:
    """A graph with the successor of each equation that has one. Equations are named by their places in the graph."""

    graph: Graph
    reads: Mapping[Var, SequenceRead]
    made: Mapping[Var, tuple[int, int]]
    likeness: Likeness
    kinds: Sequence[int]
    next: dict[int, int] = field(default_factory=dict)
    previous: dict[int, int] = field(default_factory=dict)

    @cached_property
    def readers(self) -> Mapping[Var, set[int]]:
        """The equations that read each Var."""
        readers: dict[Var, set[int]] = {}
        for i, eqn in enumerate(self.graph.eqns):
            for atom in eqn.inputs:
                if isinstance(atom, Var):
                    readers.setdefault(atom, set()).add(i)
        return readers

    @cached_property
    def results(self) -> frozenset[Atom]:
        """The results of the graph, as a set."""
        return frozenset(self.graph.outputs)

    @classmethod
    def of(cls, graph: Graph) -> Repetition:
        """The successor relation of a graph."""
        likeness = Likeness()
        made = {v: (i, k) for i, eqn in enumerate(graph.eqns) for k, v in enumerate(eqn.outputs)}
        kinds = [
            -1 - i if _has_effect(eqn) else number
            for i, (eqn, number) in enumerate(zip(graph.eqns, likeness.eqns(graph.eqns), strict=True))
        ]
        repetition = cls(graph, reads_of(graph), made, likeness, kinds)
        _Search(repetition).run()
        return repetition


@dataclass
class _Trial:
    """Pairs that one pair demands. `owner` is the first equation of the pair whose operands are meant."""

    pairs: dict[int, int] = field(default_factory=dict)
    images: set[int] = field(default_factory=set)
    reads: set[Var] = field(default_factory=set)
    ends: list[tuple[int, Var]] = field(default_factory=list)  # owner, operand without a counterpart in the step before
    owners: dict[int, list[int]] = field(default_factory=dict)  # second equation of a pair -> who demands the pair
    touches: bool = False

    @property
    def is_chain(self) -> bool:
        """Whether some equation is both a successor and has one: then the code runs over at least three steps."""
        return any(a in self.images for a in self.pairs)


class _Search:
    """Looks for successors from the end of the graph, where the last step of a repetition has all of it before it."""

    def __init__(self, repetition: Repetition) -> None:
        self._repetition = repetition
        self._eqns = repetition.graph.eqns
        self._read: set[Var] = set()
        self._patience = _PATIENCE * (len(self._eqns) + 100)

    def run(self) -> None:
        groups = [_grouped(colours) for colours in _colours(self._repetition)]
        # Equations with equal colours look alike some levels deep, as in Weisfeiler-Lehman refinement: only these are
        # tried as a pair. From the end, since the last step has the whole repetition behind its operands.
        for e in reversed(range(len(self._eqns))):
            if e not in self._repetition.previous:
                self._pair_with_earlier(e, groups)
        places = _last_reads(self._repetition)
        for group in groups:
            self._pair_in_order_of_reads(group, places)

    def _pair_with_earlier(self, e: int, groups: Sequence[_Groups]) -> None:
        tried = set()
        for group in groups:
            p = group.before.get(e)
            if p is not None and p not in self._repetition.next and p not in tried:
                tried.add(p)
                if self._try(p, e, alone=False):
                    return

    def _pair_in_order_of_reads(self, groups: _Groups, places: Sequence[int | None]) -> None:
        """Code without a memory between its steps has no order of its own: it is paired as its sequences are."""
        for members in groups.members:
            free = [m for m in members if m not in self._repetition.next and m not in self._repetition.previous]
            ordered = sorted((places[m], m) for m in free if places[m] is not None)
            for (i, p), (j, e) in pairwise(ordered):
                if i != j and e not in self._repetition.previous and p not in self._repetition.next:
                    self._try(p, e, alone=True)

    def _try(self, p: int, e: int, *, alone: bool) -> bool:
        if self._patience <= 0:
            return False
        # A pair demands pairs of the operands, and so on backwards. All of them are taken or none: a wrong guess must
        # leave nothing behind, and its size counts against the patience, which keeps the search linear.
        trial = self._trial(p, e)
        size = len(trial.pairs) + 1
        self._prune(trial)
        is_worth_it = trial.is_chain or trial.touches or (alone and bool(trial.reads))
        if not is_worth_it or trial.pairs.get(p) != e:
            self._patience -= size
            return False
        self._repetition.next.update(trial.pairs)
        self._repetition.previous.update((b, a) for a, b in trial.pairs.items())
        self._read |= trial.reads
        return True

    def _trial(self, p: int, e: int) -> _Trial:
        trial, pending = _Trial(), [(p, e, p)]
        while pending:
            a, b, owner = pending.pop()
            for u, v in self._paired(a, b, owner, trial):
                pair = self._operands(u, v, a, trial)
                if pair is not None:
                    pending.append((*pair, a))
        return trial

    def _paired(self, a: int, b: int, owner: int, trial: _Trial) -> Iterator[tuple[Atom | None, Var]]:
        """Take a pair in; its pairs of operands that differ."""
        repetition, (first, second) = self._repetition, (self._eqns[a], self._eqns[b])
        trial.owners.setdefault(b, []).append(owner)
        if repetition.next.get(a) == b or trial.pairs.get(a) == b:
            trial.touches |= repetition.next.get(a) == b
            return
        taken = a in repetition.next or a in trial.pairs or b in repetition.previous or b in trial.images
        operands = list(self._different(first, second))
        # Where weights differ, or something computed stands against a weight, these are two different steps.
        if (
            taken
            or a == b
            or repetition.kinds[a] != repetition.kinds[b]
            or any(not isinstance(v, Var) for _, v in operands)
        ):
            trial.ends += [(owner, v) for v in second.outputs[:1]]
            return
        trial.pairs[a] = b
        trial.images.add(b)
        yield from ((u, v) for u, v in operands if isinstance(v, Var))

    def _prune(self, trial: _Trial) -> None:
        """Take out the pairs of steps that differ: those with an operand that is in no step after it either.

        An operand without a counterpart in the step before is that of a first step, where later ones have counterparts.
        """
        # waiting: by an equation, the pairs that read its result without a counterpart in the step before. They hold
        # only as long as that equation has a successor itself, so a pair that goes takes them with it.
        waiting: dict[int, list[int]] = {}
        pending: list[int] = []
        for owner, var in trial.ends:
            place = self._repetition.made.get(var, (-1, 0))[0]
            waiting.setdefault(place, []).append(owner)
            if var not in trial.reads and var not in self._read and not self._goes_on(place, trial):
                pending.append(owner)
        while pending:
            owner = pending.pop()
            second = trial.pairs.pop(owner, None)
            if second is None:
                continue
            trial.images.discard(second)
            readers = trial.owners[second]
            waiting.setdefault(second, []).extend(readers)
            pending += readers if not self._goes_on(second, trial) else []
            pending += waiting.get(owner, [])

    def _goes_on(self, place: int, trial: _Trial) -> bool:
        return place in trial.pairs or place in self._repetition.next

    def _different(self, first: Eqn, second: Eqn) -> Iterator[tuple[Atom | None, Atom | None]]:
        """The pairs of operands that differ in more than the number of the step."""
        for i, (u, v) in enumerate(zip(first.inputs, second.inputs, strict=False)):
            if not self._repetition.likeness.same(u, v) and not (is_number(first, i, u) and is_number(second, i, v)):
                yield u, v

    def _operands(self, u: Atom | None, v: Var, owner: int, trial: _Trial) -> tuple[int, int] | None:
        """The equations to pair for two different operands; None where they read one sequence, or are an end."""
        if not isinstance(u, Var):
            trial.ends.append((owner, v))
            return None
        read_u, read_v = self._repetition.reads.get(u), self._repetition.reads.get(v)
        if read_u is not None and read_v is not None and read_u.sequence == read_v.sequence:
            if read_u.index != read_v.index:
                trial.reads.add(u)
            return None
        made_u, made_v = self._repetition.made.get(u), self._repetition.made.get(v)
        if made_u is None or made_v is None or made_u[1] != made_v[1]:
            trial.ends.append((owner, v))
            return None
        return made_u[0], made_v[0]


@dataclass(frozen=True)
class _Groups:
    """Equations that look alike, in groups, and for each the one of its group before it."""

    members: tuple[tuple[int, ...], ...]
    before: Mapping[int, int]


def _grouped(colours: Sequence[int]) -> _Groups:
    members: dict[int, list[int]] = {}
    for i, colour in enumerate(colours):
        members.setdefault(colour, []).append(i)
    several = sorted((tuple(m) for m in members.values() if len(m) > 1), key=operator.itemgetter(-1), reverse=True)
    return _Groups(tuple(several), {e: p for m in several for p, e in pairwise(m)})


def _colours(repetition: Repetition) -> list[list[int]]:
    """For each depth a number for each equation, equal where equations and what they read look alike that deep."""
    now = list(repetition.kinds)
    by_depth: dict[int, list[int]] = {}
    inputs = {v: i for i, v in enumerate(repetition.graph.inputs)}
    operands = [[_seen(a, repetition, inputs) for a in eqn.inputs] for eqn in repetition.graph.eqns]
    for depth in range(1, max(_DEPTHS) + 1):
        now = [hash((c, *_from(seen, now))) for c, seen in zip(repetition.kinds, operands, strict=True)]
        by_depth[depth] = now
    return [by_depth[depth] for depth in _DEPTHS]


_Seen = tuple[int, int | None]
"""How an operand looks: a number, and the equation behind it where there is one."""


def _seen(atom: Atom | None, repetition: Repetition, inputs: Mapping[Var, int]) -> _Seen:
    if not isinstance(atom, Var):
        return (repetition.likeness.const(atom) if isinstance(atom, Const) and atom.type.rank else -1), None
    read = repetition.reads.get(atom)
    if read is not None:
        source = repetition.made.get(read.source)
        key = hash((read.axis, read.kept, inputs.get(read.source)))
        return key, None if source is None else source[0]
    made = repetition.made.get(atom)
    return (hash(("input", inputs.get(atom))), None) if made is None else (made[1], made[0])


def _from(seen: Sequence[_Seen], colours: Sequence[int]) -> Iterator[Any]:
    for number, eqn in seen:
        yield number if eqn is None else (number, colours[eqn])


def _last_reads(repetition: Repetition) -> list[int | None]:
    """For each equation the last place that it or what it needs reads of any sequence."""
    places: list[int | None] = []
    for eqn in repetition.graph.eqns:
        known = [_place(atom, repetition, places) for atom in eqn.inputs if isinstance(atom, Var)]
        places.append(max((p for p in known if p is not None), default=None))
    return places


def _place(var: Var, repetition: Repetition, places: Sequence[int | None]) -> int | None:
    read = repetition.reads.get(var)
    if read is not None:
        return read.index
    made = repetition.made.get(var)
    return None if made is None else places[made[0]]


def _has_effect(eqn: Eqn) -> bool:
    return bool(eqn.effects) or any(map(has_effects, eqn.bodies))
