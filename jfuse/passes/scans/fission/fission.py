"""Splits the step of a scan into recurrences that do not need each other, and computations without a state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from jfuse.ir.graph import Atom, Eqn, Var
from jfuse.ir.walk import live_eqns, producers
from jfuse.kernels.control import scan_parts
from jfuse.passes.scans.fission.min_cut import smallest_cut
from jfuse.passes.scans.fission.step_operands import LoopSteps
from jfuse.passes.scans.fission.vectorize import can_vectorize, data_operands


class FissionStep:
    """A scan's step: the next value of each carry, and the dependences among its values.

    A carry that never changes counts as a constant of the loop.
    """

    def __init__(self, eqn: Eqn) -> None:
        (self.body,) = eqn.bodies
        self.eqn = eqn
        self.eqns = live_eqns(self.body, self.body.outputs)
        consts, carries, xs = scan_parts(self.body.inputs, eqn.params)
        self.next: dict[Var, Atom] = {
            var: out for var, out in zip(carries, self.body.outputs, strict=False) if out is not var
        }
        self.carries = tuple(self.next)
        self.xs: tuple[Var, ...] = tuple(xs)
        operands = dict(zip(self.body.inputs, eqn.inputs, strict=True))
        self.operands: dict[Var, Atom] = {var: a for var, a in operands.items() if a is not None}
        self.fixed: tuple[Var, ...] = tuple(v for v in (*consts, *carries) if v not in self.next)
        self.all_carries: tuple[Var, ...] = tuple(carries)
        self.rows: tuple[Atom, ...] = self.body.outputs[len(carries) :]
        self.made_by = producers(self.eqns)
        self.steps = LoopSteps(eqn.params["length"], tuple(a for a in eqn.inputs if isinstance(a, Var)))
        self._vectorizable: dict[Eqn, bool] = {}

    @cached_property
    def stepped(self) -> frozenset[Var]:
        """The values that may differ from step to step."""
        stepped = {*self.carries, *self.xs}
        for eqn in self.eqns:
            if any(atom in stepped for atom in eqn.inputs):
                stepped.update(eqn.outputs)
        return frozenset(stepped)

    @cached_property
    def behind(self) -> dict[Var, int]:
        """For each value the carries that it is computed from within the step, a bit for each."""
        carries_of = dict.fromkeys(self.body.inputs, 0) | {var: 1 << i for i, var in enumerate(self.carries)}
        for eqn in self.eqns:
            bits = _union(carries_of[a] for a in eqn.inputs if isinstance(a, Var))
            carries_of.update(dict.fromkeys(eqn.outputs, bits))
        return carries_of

    @cached_property
    def ahead(self) -> dict[Var, int]:
        """For each value the carries whose next value is computed from it, a bit for each."""
        carries_of: dict[Var, int] = {}
        for i, atom in enumerate(self.next.values()):
            if isinstance(atom, Var):
                carries_of[atom] = carries_of.get(atom, 0) | 1 << i
        for eqn in reversed(self.eqns):
            bits = _union(carries_of.get(out, 0) for out in eqn.outputs)
            for operand in eqn.inputs:
                if isinstance(operand, Var):
                    carries_of[operand] = carries_of.get(operand, 0) | bits
        return carries_of

    @cached_property
    def reach(self) -> list[int]:
        """For each carry the carries that it is computed from over any number of steps, a bit for each."""
        reached = [self.behind[a] if isinstance(a, Var) else 0 for a in self.next.values()]
        # Warshall's transitive closure, on rows of bits: afterwards bit k of row i says that carry i depends on k.
        for k in range(len(reached)):
            for i, bits in enumerate(reached):
                if bits >> k & 1:
                    reached[i] |= reached[k]
        return reached

    def places(self, eqn: Eqn) -> frozenset[int]:
        """The operands of an equation, of those whose data it reads, that may differ from step to step."""
        return frozenset(i for i, atom in data_operands(eqn).items() if atom in self.stepped)

    def is_vectorizable(self, eqn: Eqn) -> bool:
        """Whether an equation can be had for all steps at once."""
        if eqn not in self._vectorizable:
            self._vectorizable[eqn] = can_vectorize(eqn, self.places(eqn), self.steps)
        return self._vectorizable[eqn]


@dataclass(eq=False)
class Part:
    """A scan to be: carries that need each other, or none; the equations that it is about, and what it is given.

    given: values that come from outside, one step at a time. rows: values of its steps that are read outside.
    """

    carries: tuple[Var, ...]
    eqns: tuple[Eqn, ...]
    given: tuple[Var, ...] = ()
    rows: dict[Var, None] = field(default_factory=dict)


class FissionPlan:
    """Which part of a scan computes what, and which equations stand outside of any.

    stays(eqn, places): whether a part may keep an equation that it reads and that could stand outside, given which of
    its operands differ from step to step. late: whether a part is given what is computed as far as possible, and what
    all steps share.
    """

    def __init__(self, step: FissionStep, stays: Callable[[Eqn, frozenset[int]], bool], *, late: bool) -> None:
        self.step = step
        self._stays = stays
        self._late = late
        self.parts = _recurrences(step)
        if not late:
            _keep_masked_rows(step, self.parts)
        self.core = {eqn: part for part in self.parts for eqn in part.eqns}
        self.part_of = {var: part for part in self.parts for var in part.carries}
        self.outside: dict[Eqn, None] = {}
        self.delayed: dict[Var, None] = {}  # carries of which the old values are read outside of their part
        self.shared = self._shared() if late else ()
        for part in self.parts:
            part.given = self._given(part)
        self._want()

    @property
    def changes_nothing(self) -> bool:
        """Whether the plan is the scan as it is."""
        return (
            len(self.parts) == 1
            and len(self.parts[0].carries) == len(self.step.all_carries)
            and not self.outside
            and not self.delayed
            and tuple(self.parts[0].rows) == self.step.rows
        )

    def _given(self, part: Part) -> tuple[Var, ...]:
        """List the values that the part reads from outside, as few as possible (a smallest cut)."""
        own = set(part.carries) | {out for eqn in part.eqns for out in eqn.outputs}
        # The graph of the cut has the equations that may move into the part. Values that exist for single steps only
        # (`uncut`) cannot be sequences from outside, so the cut must pass before them.
        reads_of_part = [a for eqn in part.eqns for a in eqn.inputs if a in self.step.stepped and a not in own]
        reads: dict[Var, list[Var]] = {}
        uncut: set[Var] = set()
        for eqn in self.step.eqns:
            vectorizable = self._is_free(eqn) and self.step.is_vectorizable(eqn)
            if self._is_free(eqn) and (not vectorizable or self._stays(eqn, self.step.places(eqn))):
                stepped = [a for a in eqn.inputs if isinstance(a, Var) and a in self.step.stepped]
                reads.update(dict.fromkeys(eqn.outputs, stepped))
                uncut.update(() if vectorizable else eqn.outputs)
        return smallest_cut(reads, [a for a in reads_of_part if isinstance(a, Var)], uncut, late=self._late)

    def _is_free(self, eqn: Eqn) -> bool:
        return eqn not in self.core and any(out in self.step.stepped for out in eqn.outputs)

    def _want(self) -> None:
        """Find the equations that must run outside, and the values that the parts must return for them."""
        pending: list[Atom | None] = [*self.step.rows, *(var for part in self.parts for var in part.given)]
        pending += [*self.shared, *(atom for var, atom in self.step.next.items() if var not in self.part_of)]
        seen: set[Var] = set()
        while pending:
            atom = pending.pop(0)
            if isinstance(atom, Var) and atom not in seen:
                seen.add(atom)
                pending += self._needed_for(atom)
        order = {row: None for row in self.step.rows if isinstance(row, Var)}
        for part in self.parts:
            part.rows = {var: None for var in (*order, *part.rows) if var in part.rows}

    def _needed_for(self, var: Var) -> Iterable[Atom | None]:
        """Note where a value that is wanted outside comes from; what else is wanted because of it."""
        eqn = self.step.made_by.get(var)
        if eqn is None:
            part = self.part_of.get(var)
            if var not in self.step.next:
                return ()
            if part is not None and self.step.next[var] in part.carries:  # carries that only change places
                part.rows[var] = None
                return ()
            self.delayed[var] = None
            return (self.step.next[var],)
        if self._is_free(eqn) and not self.step.is_vectorizable(eqn):
            part = self._residue(eqn)
            part.rows[var] = None
            return part.given
        if eqn in self.core:
            self.core[eqn].rows[var] = None
            return ()
        self.outside[eqn] = None
        return self.operands(eqn)

    def operands(self, eqn: Eqn) -> Iterable[Atom | None]:
        """List the operands that an equation outside depends on by value."""
        is_stepped = any(out in self.step.stepped for out in eqn.outputs)
        return data_operands(eqn).values() if is_stepped else eqn.inputs

    def _shared(self) -> tuple[Var, ...]:
        """List values that each step reads although they are the same in all steps."""
        step = self.step
        read = (a for e in step.eqns if any(out in step.stepped for out in e.outputs) for a in e.inputs)
        return tuple(dict.fromkeys(a for a in read if a in step.made_by and a not in step.stepped))

    def _residue(self, eqn: Eqn) -> Part:
        """A part without carries, for an equation that no loop has to carry but that is for single steps only."""
        # All such equations between the same carries share one part; two loops over the same steps would cost more.
        # The part takes everything between two of them as well, or the parts would need each other in a circle.
        step = self.step
        key = self._place(eqn)
        alike = {e for e in step.eqns if self._is_free(e) and not step.is_vectorizable(e) and self._place(e) == key}
        after: set[Var] = set()
        for e in step.eqns:
            if e in alike or any(a in after for a in e.inputs):
                after.update(e.outputs)
        before: set[Atom | None] = set()
        between: list[Eqn] = []
        for e in reversed(step.eqns):
            if e in alike or any(out in before for out in e.outputs):
                before.update(e.inputs)
                if e not in self.core and (e in alike or any(out in after for out in e.outputs)):
                    between.append(e)
        part = Part((), tuple(reversed(between)))
        self.parts.append(part)
        self.core.update(dict.fromkeys(part.eqns, part))
        part.given = self._given(part)
        return part

    def _place(self, eqn: Eqn) -> tuple[int, int]:
        """Between which carries an equation stands."""
        step = self.step
        return _union(step.behind[o] for o in eqn.outputs), _union(step.ahead.get(o, 0) for o in eqn.outputs)


def _recurrences(step: FissionStep) -> list[Part]:
    """A part for each set of carries that need each other, with all equations between them, an earlier one first."""
    # Carries that reach each other are a strongly connected component of the step's dependences: one recurrence.
    reach = step.reach
    sets = {
        _union(1 << j for j in range(len(reach)) if reach[i] >> j & 1 and reach[j] >> i & 1) for i in range(len(reach))
    }
    sets.discard(0)

    def depth(carries: int) -> tuple[int, int]:
        return _union(bits for i, bits in enumerate(reach) if carries >> i & 1).bit_count(), -carries

    # By the number of carries behind a set, which is a topological order: a set has more behind it than those it reads.
    ordered = sorted(sets, key=depth)
    for carries in list(ordered):
        leaders = [s for s in ordered if s != carries and depth(s) < depth(carries) and _reads(step, carries, s)]
        if leaders and _only_selects(step, carries):
            leader = max(leaders, key=depth)
            ordered[ordered.index(leader)] |= carries
            ordered.remove(carries)
    return [
        Part(tuple(v for i, v in enumerate(step.carries) if carries >> i & 1), _within(step, carries))
        for carries in ordered
    ]


def _within(step: FissionStep, carries: int) -> tuple[Eqn, ...]:
    """The equations between some carries and their next values."""
    return tuple(
        eqn
        for eqn in step.eqns
        if _union(step.behind[out] for out in eqn.outputs) & carries
        and _union(step.ahead.get(out, 0) for out in eqn.outputs) & carries
    )


def _reads(step: FissionStep, carries: int, others: int) -> bool:
    """Whether some carries are computed from the others."""
    return bool(_union(bits for i, bits in enumerate(step.reach) if carries >> i & 1) & others)


def _only_selects(step: FissionStep, carries: int) -> bool:
    """Whether some carries only hold what others were: Keras repeats its last output where a mask says so.

    Apart from the recurrence that it follows such a carry would be a loop for nothing.
    """
    return all(_selects(eqn) for eqn in _within(step, carries))


def _keep_masked_rows(step: FissionStep, parts: Sequence[Part]) -> None:
    """Leave a collected result that is selected with a part that selects its carries: one mask decides on all."""
    for row in step.rows:
        eqn = step.made_by.get(row) if isinstance(row, Var) else None
        if eqn is None or not _selects(eqn):
            continue
        for part in parts:
            conditions = {e.inputs[0] for e in part.eqns if _selects(e)}
            inside = {out for e in part.eqns for out in e.outputs}
            if eqn.inputs[0] in conditions and eqn not in part.eqns and inside.intersection(eqn.inputs):
                between = _between(step, part, eqn)
                if not any(e in other.eqns for other in parts for e in between if other is not part):
                    part.eqns = (*part.eqns, *between, eqn)


def _between(step: FissionStep, part: Part, last: Eqn) -> tuple[Eqn, ...]:
    """The equations that compute the operands of `last` from the carries of a part, and that it does not have yet.

    A part that had the last of them alone would be given what itself computes: zeros in the shape of a new state.
    """
    carries = _union(1 << i for i, var in enumerate(step.carries) if var in part.carries)
    needed: set[Atom | None] = set(last.inputs)
    between: list[Eqn] = []
    for eqn in reversed(step.eqns):
        if any(out in needed and step.behind[out] & carries for out in eqn.outputs):
            needed.update(eqn.inputs)
            between.append(eqn)
    return tuple(eqn for eqn in reversed(between) if eqn not in part.eqns)


def _selects(eqn: Eqn) -> bool:
    return eqn.op.is_kernel and eqn.op.switch == "select"


def _union(bits: Iterable[int]) -> int:
    union = 0
    for b in bits:
        union |= b
    return union
