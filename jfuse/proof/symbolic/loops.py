"""Equality of loops by induction, over a relation between their carries.

The relation says which element of a carry of the one is which of the other. Numbers suggest it: both loops run for a
few steps at one random point. It is proven then: the initial values are equal, and one step keeps it, in normal form.
So it holds after any number of steps. Elements for which it does not are dropped, and the rest is proven without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import prod
from typing import Any, Protocol

import numpy as np

from jfuse.ir.dims import Dim, is_known, same
from jfuse.proof.symbolic import domains, moves
from jfuse.proof.symbolic.atoms import Atoms, nearest
from jfuse.proof.symbolic.blocks import Picks, Stopped
from jfuse.proof.symbolic.comparison import difference, equal, opened
from jfuse.proof.symbolic.forms import Form, Front, Instance, Part, Ref, added, open_numbers

ANY = -1  # stands for the number of a loop while one of its steps is read
_STEPS = 3  # that both loops run for a suggestion
_CLOSE = 1e-7  # between numbers of elements that may be equal
_MIXED = np.array([1.0, 0.7, 0.3, 0.9])  # of the numbers of an element, one by which it is looked up


@dataclass(frozen=True, eq=False)
class Scan:
    """A scan of jax: its step and operands.   step: a closed jaxpr"""

    step: Any
    length: Dim
    reverse: bool
    consts: Sequence[Form]
    carries: Sequence[Form]
    xs: Sequence[Form]

    def entering(self, number: int) -> list[Form]:
        """List the form of the element that a step of the loop reads from each sequence."""
        ref = Ref("loop", number, self.reverse)
        return [moves.dropped(moves.at(x, 0, ref)) for x in self.xs]


@dataclass(frozen=True, eq=False)
class SymbolicLoop:
    """A loop that was read: the families of its carries before each step, and what one step makes of them.

    numbers: gives the suggestion's, for each carry f64[rows, steps], or None.
    """

    number: int
    length: Dim
    initial: Sequence[Form]
    families: Sequence[int]
    carried: Sequence[Form]
    numbers: Callable[[], Sequence[np.ndarray] | None]


class StepReader(Protocol):
    """Reads the steps of loops; it keeps the loops that were read."""

    atoms: Atoms
    sizes: frozenset[int]
    loops: list[SymbolicLoop]

    def run(self, closed: Any, forms: Sequence[Form]) -> list[Form]:
        """The results of a closed jaxpr for forms of its operands."""


@dataclass(frozen=True)
class Stepped:
    """The carries after one step of the loop `ANY`. Before it, each carry is an atom of a family of its own."""

    families: Sequence[int]
    carried: Sequence[Form]
    ys: Sequence[Form]

    def of(self, loop: int) -> tuple[list[Form], list[Form]]:
        """The carries after a step of a loop, and what the step gives."""
        change = {Ref("loop", ANY): Ref("loop", loop)}
        return [c.with_refs(change) for c in self.carried], [y.with_refs(change) for y in self.ys]


def read(reader: StepReader, scan: Scan, step: Stepped | None = None) -> tuple[list[Form], list[Form], int]:
    """The carries after a step, what it gives, and the loop of whose step they speak.   step: if it was read before"""
    forms = [*scan.consts, *scan.carries, *scan.xs]
    if any(ref.kind == "loop" for form in forms for i in form.blocks for ref in i.refs):
        raise Stopped("a loop within a loop")
    scan = with_open_batch(scan, reader.sizes)
    if any(not x.is_open(0) or len(x.axes[0]) != 1 for x in scan.xs):
        raise Stopped("a loop over steps that are not one axis")
    numbers = cache(lambda: _numbers(reader, scan))
    for loop in reader.loops:
        if same(loop.length, scan.length) is True:
            results = _as_known(reader, scan, loop, numbers)
            if results is not None:
                return (*results, loop.number)
    number = len(reader.loops)
    families = carry_families(reader.atoms, scan) if step is None else step.families
    state = states_of(scan, number, families)
    carried, ys = stepped(reader, scan, number, state) if step is None else step.of(number)
    while domains.mark(reader.atoms, families, carried):
        carried, ys = stepped(reader, scan, number, state)
    reader.loops.append(SymbolicLoop(number, scan.length, scan.carries, families, carried, numbers))
    return carried, ys, number


def carry_families(atoms: Atoms, scan: Scan) -> list[int]:
    """A new family for each carry of a loop, whose atoms are its elements before a step."""
    return [atoms.fresh("carry", c.rows, 1 + len(open_numbers(c.parts))) for c in scan.carries]


def states_of(scan: Scan, loop: int, families: Sequence[int]) -> list[Form]:
    """The carries before a step of a loop as atoms of their families."""
    return [atoms_of(c, loop, [(f, np.arange(c.rows))]) for f, c in zip(families, scan.carries, strict=True)]


def with_open_batch(scan: Scan, sizes: frozenset[int]) -> Scan:
    """The loop whose initial states, where they are the same for all rows of a batch, have that axis open.

    An axis that rows share with units, as sequences have it, is divided before.
    """
    divided = {prod(size for size, _ in axis): axis for x in scan.xs for axis in x.axes[1:] if len(axis) > 1}
    return replace(scan, carries=[_with_open_batch(carry, sizes, divided) for carry in scan.carries])


def _with_open_batch(form: Form, sizes: frozenset[int], divided: Mapping[Dim, tuple[Part, ...]]) -> Form:
    axes = tuple(
        tuple((s, False) for s, _ in divided[axis[0][0]])
        if len(axis) == 1 and not axis[0][1] and axis[0][0] in divided
        else axis
        for axis in form.axes
    )
    form = Form(axes, form.blocks, form.constant, form.error)
    for part in range(sum(len(axis) for axis in form.axes[:-1])):
        size, is_open = form.parts[part]
        form = (opened(form, part) or form) if size in sizes and not is_open else form
    return form


def atoms_of(carry: Form, loop: int, rows: Sequence[tuple[int, np.ndarray]]) -> Form:
    """A carry before a step of a loop.   rows: families, and which of their atoms each row is, -1 for none"""
    refs = (Ref("loop", loop), *(Ref("axis", n) for n in open_numbers(carry.parts).values()))
    result = Form(carry.axes, {}, np.zeros(carry.rows), 0.0)
    for family, atoms in rows:
        block = Picks(atoms, np.where(atoms >= 0, 1.0, 0.0))
        result = added(result, Form(carry.axes, {Instance(family, refs): block}, np.zeros(carry.rows), 0.0))
    return result.without_empty()


def stepped(reader: StepReader, scan: Scan, loop: int, state: Sequence[Form]) -> tuple[list[Form], list[Form]]:
    """The carries after a step of a loop, with the same axes as before it, and what the step gives."""
    results = reader.run(scan.step, [*scan.consts, *state, *scan.entering(loop)])
    carried = []
    for before, after in zip(state, results[: len(state)], strict=True):
        alike = moves.aligned(before, after)
        if alike[0].parts != before.parts:
            raise Stopped("a carry whose open axes change")
        carried.append(alike[1])
    return carried, results[len(state) :]


def _numbers(reader: StepReader, scan: Scan) -> list[np.ndarray] | None:
    """Each element of each carry at a random point, before some steps; None where it cannot be had."""

    def at_point(form: Form, step: int = 0) -> Form:
        change = {Ref("loop", ANY): Ref("at", 1000 + step)}
        values = reader.atoms.evaluated(form.with_refs(change), as_values=True)
        return Form(form.axes, {}, values, 0.0)

    consts, state = [at_point(c) for c in scan.consts], [at_point(c) for c in scan.carries]
    seen = [[c.constant] for c in state]
    reader.atoms.is_trial = True
    try:
        for step in range(_STEPS):
            inputs = [at_point(x, step) for x in scan.entering(ANY)]
            results = reader.run(scan.step, [*consts, *state, *inputs])[: len(state)]
            state = [moves.aligned(b, at_point(a))[1] for b, a in zip(state, results, strict=True)]
            for values, form in zip(seen, state, strict=True):
                values.append(form.constant)
        return [np.stack(values, axis=1) for values in seen]
    except (Stopped, ValueError):
        return None
    finally:
        reader.atoms.is_trial = False


def _as_known(
    reader: StepReader, scan: Scan, loop: SymbolicLoop, numbers: Callable[[], Sequence[np.ndarray] | None]
) -> tuple[list[Form], list[Form]] | None:
    """The results of a step in terms of another loop, by a relation that is proven; None where there is none.

    Carries with equal initial values are tried first: then no numbers are needed. Of a loop that reads the states of
    the other one, which are no numbers, they are all that is tried.
    """
    if {leaf.family for leaf in reader.atoms.leaves(*scan.xs)} & set(loop.families):
        turns = (_by_relation(reader, scan, loop, relation) for relation in _to_each(reader, scan, loop))
        return next((results for results in turns if results is not None), None)
    is_read = {leaf.family for leaf in reader.atoms.leaves(*loop.carried)}
    relation = _by_initial_values(reader, scan, loop, is_read)
    results = None if relation is None else _by_relation(reader, scan, loop, relation, most=1)
    if results is not None:
        return results
    mine, others = numbers(), loop.numbers()
    if mine is None or others is None:
        return None
    suggested = [
        _suggested(loop, others, is_read, c, n, i) for i, (c, n) in enumerate(zip(scan.carries, mine, strict=True))
    ]
    relation = [_where_equal(reader, r, loop.initial, c) for r, c in zip(suggested, scan.carries, strict=True)]
    return _by_relation(reader, scan, loop, relation)


def _by_initial_values(
    reader: StepReader, scan: Scan, loop: SymbolicLoop, is_read: set[int]
) -> list[list[np.ndarray]] | None:
    """A relation of whole carries with equal initial values, each with another one; None where some have none.

    is_read: the families of carries that the step reads; these come first.
    """
    left = sorted(range(len(loop.families)), key=lambda n: loop.families[n] not in is_read)
    relation = []
    for carry in scan.carries:
        alike = (n for n in left if loop.initial[n].parts == carry.parts)
        chosen = next((n for n in alike if equal(loop.initial[n], carry, reader.atoms.allowance)), None)
        if chosen is None:
            return None
        left.remove(chosen)
        relation.append(
            [np.arange(carry.rows) if n == chosen else np.full(carry.rows, -1) for n in range(len(loop.families))]
        )
    return relation


def _to_each(reader: StepReader, scan: Scan, loop: SymbolicLoop) -> Iterator[list[list[np.ndarray]]]:
    """For each carry of a loop the relation of all carries to it that have its initial value."""
    for n, initial in enumerate(loop.initial):
        alike = [c.parts == initial.parts and equal(initial, c, reader.atoms.allowance) for c in scan.carries]
        yield [
            [np.arange(c.rows) if is_alike and k == n else np.full(c.rows, -1) for k in range(len(loop.families))]
            for c, is_alike in zip(scan.carries, alike, strict=True)
        ]


def _by_relation(
    reader: StepReader, scan: Scan, loop: SymbolicLoop, relation: list[list[np.ndarray]], most: int | None = None
) -> tuple[list[Form], list[Form]] | None:
    """The results of a step by what a step keeps of a relation, which is matches in `most` turns; else None."""
    others = carry_families(reader.atoms, scan)
    while any((atoms >= 0).any() for r in relation for atoms in r) and most != 0:
        state = []
        for carry, rows, other in zip(scan.carries, relation, others, strict=True):
            left = np.where(np.stack(rows).max(axis=0) < 0, np.arange(carry.rows), -1)
            state.append(atoms_of(carry, loop.number, [*zip(loop.families, rows, strict=True), (other, left)]))
        carried, ys = stepped(reader, scan, loop.number, state)
        if domains.mark(reader.atoms, others, carried):
            continue
        closer = [_where_equal(reader, r, loop.carried, c) for r, c in zip(relation, carried, strict=True)]
        if all((a == b).all() for r, s in zip(relation, closer, strict=True) for a, b in zip(r, s, strict=True)):
            return carried, ys
        relation, most = closer, None if most is None else most - 1
    return None


def _suggested(
    loop: SymbolicLoop,
    known_numbers: Sequence[np.ndarray],
    is_read: set[int],
    carry: Form,
    numbers: np.ndarray,
    own: int,
) -> list[np.ndarray]:
    """For each carry of a loop which of its elements has the numbers of each element of another's, -1 for none.

    is_read: the families of carries that the step reads; of several with the same numbers these come first, then those
    that have most, then the one at the same place, `own`.
    """
    matches = [np.full(carry.rows, -1) for _ in loop.families]
    for n, initial in enumerate(loop.initial):
        known = known_numbers[n]
        if open_sizes(initial) == open_sizes(carry) and len(known):
            candidates = _one_to_one(known @ _MIXED, numbers @ _MIXED)
            close = (np.abs(known[candidates] - numbers) <= _CLOSE * (1 + np.abs(numbers))).all(axis=1)
            matches[n] = np.where(close, candidates, -1)
    left, result = np.full(carry.rows, True), list(matches)
    for n in sorted(
        range(len(matches)), key=lambda n: (loop.families[n] not in is_read, -(matches[n] >= 0).sum(), n != own)
    ):
        result[n] = np.where(left, matches[n], -1)
        left &= result[n] < 0
    return result


def _one_to_one(known: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """For each number the place of the nearest known one; of equal ones the first for the first, and so on.

    States of units with equal weights, and those that a clip holds, have the same numbers.
    """
    candidates = nearest(known, wanted)
    order = np.argsort(known, kind="stable")
    starts = np.concatenate([[True], np.diff(known[order]) > _CLOSE * (1 + np.abs(known[order][1:]))])
    group = np.empty(len(known), int)
    group[order] = np.cumsum(starts) - 1
    by_group = np.argsort(group, kind="stable")  # places of a group in their own order
    first, count = np.searchsorted(group[by_group], np.arange(starts.sum())), np.bincount(group)
    of_wanted = group[candidates]
    in_order = np.argsort(of_wanted, kind="stable")
    rank = np.empty(len(wanted), int)
    rank[in_order] = np.arange(len(wanted)) - np.searchsorted(of_wanted[in_order], of_wanted[in_order])
    return np.asarray(by_group[first[of_wanted] + rank % count[of_wanted]])


def open_sizes(form: Form) -> list[str]:
    """The sizes of the open parts."""
    return [str(size) for size, is_open in form.parts if is_open]


def _where_equal(reader: StepReader, rows: Sequence[np.ndarray], known: Sequence[Form], form: Form) -> list[np.ndarray]:
    """The relation without the elements whose forms differ."""
    result = []
    for atoms, other in zip(rows, known, strict=True):
        (here,) = np.nonzero(atoms >= 0)
        equal_atoms = atoms.copy()
        if here.size:
            axes = (((len(here), False),),)
            differs = difference(form.take(here, axes), other.take(atoms[here], axes), reader.atoms.allowance)
            equal_atoms[here[differs]] = -1
        result.append(equal_atoms)
    return result


def carried_before(reader: StepReader, forms: Sequence[Form], axis: int) -> Form | None:
    """A carry before each step of a loop, spelled as its initial value before what all steps but the last make of it.

    None where the joined forms are something else.
    """
    if len(forms) != 2 or axis != 0 or forms[0].axes[0] or not isinstance(forms[1], Front):
        return None
    first, rest = moves.dropped(forms[0]), forms[1].whole
    for loop in reader.loops:
        if any(same(size, loop.length) is not True for size in (rest.shape[0], forms[1].shape[0] + 1)):
            continue
        for family, before, after in zip(loop.families, loop.initial, loop.carried, strict=True):
            made = collected(after, loop.number, loop.length, reverse=False)
            if _are_equal(before, first) and _are_equal(made, rest):
                state = atoms_of(before, loop.number, [(family, np.arange(before.rows))])
                return collected(state, loop.number, loop.length, reverse=False)
    return None


def _are_equal(one: Form, other: Form) -> bool:
    """Whether two forms, whose shapes may differ, are equal."""
    if len(one.axes) != len(other.axes) or any(
        same(a, b) is not True for a, b in zip(one.shape, other.shape, strict=True)
    ):
        return False
    try:
        first, second = moves.aligned(one, other)
        return equal(first, second)
    except Stopped:
        return False


def after_last(form: Form, loop: int) -> Form:
    """Return a step's result at the last step."""
    return form.with_refs({Ref("loop", loop): Ref("at", -1)})


def collected(form: Form, loop: int, length: Dim, *, reverse: bool) -> Form:
    """Stack the results of all steps along a new first axis."""
    change = {Ref("axis", n): Ref("axis", n + 1) for n in open_numbers(form.parts).values()}
    change[Ref("loop", loop)] = Ref("axis", 0, reverse)
    if is_known(length) and length == 1:
        change[Ref("loop", loop)] = Ref("at", -1)
    return form.with_refs(change, (((length, True),), *form.axes))
