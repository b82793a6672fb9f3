"""Masked loops by conditional induction, for masks without gaps: the steps of one value come first, then all others.

Row by row, and whatever the states: in steps whose mask is v, a step is that of the loop in which v stands for the
mask, its *core* for v. It reads the states of its own row only. Let the first `count` steps have the value v.

*Prefix*: before step t <= count the states are those of the core for v. If its steps for the other value keep a state,
the last one is the core's after step `max(count - 1, 0)`, or the initial one where there is no such step.

*Suffix*: if the steps for v keep all states, the others see the states of the core for the other value, which runs
over the sequence from there on: step t of it is step `length - count + t` of the loop, for `count` steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from jfuse.proof.symbolic import counts, moves
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.blocks import Picks, Stopped
from jfuse.proof.symbolic.comparison import equal
from jfuse.proof.symbolic.forms import Form, Instance, Ref, added, open_numbers
from jfuse.proof.symbolic.functions import choice, minus, positive
from jfuse.proof.symbolic.lookups import looked_up, scalar
from jfuse.proof.symbolic.loops import (
    ANY,
    Scan,
    Stepped,
    StepReader,
    carry_families,
    open_sizes,
    read,
    states_of,
    stepped,
    with_open_batch,
)

SATURATED = "what enters a gate beside 10,000 is at most 9,000: sigmoid is 0 or 1 there, as in float32"


@dataclass(frozen=True)
class MaskedLoop:
    """A masked loop that was read.

    last: the carries after the last step. ys: what each step of `loop` gives. conditions: under which this holds.
    """

    last: Sequence[Form]
    ys: Sequence[Form]
    loop: int
    conditions: Sequence[str]


def padding(side: str) -> str:
    """The condition of a proof that relies on a mask."""
    return f"the mask is 1 or 0 and padded on the {side}"


def read_masked(reader: StepReader, scan: Scan) -> MaskedLoop | None:
    """The loop by what its core is; None where it is not masked in this way."""
    if reader.atoms.is_trial or any(not x.is_open(0) or len(x.axes[0]) != 1 for x in scan.xs):
        return None
    scan = with_open_batch(scan, reader.sizes)
    mask = _mask_of(reader.atoms, scan)
    if mask is None:
        return None
    place, side, _ = reader.atoms.padded[mask.family]
    first = int((side == "right") != mask.refs[place].flipped)
    reader.atoms.is_saturated = False
    if (read_before := _kept(reader, scan, mask, first)) is None:
        return None
    keeps, step = read_before
    masked = _Masked(reader, scan, mask, first, keeps, step)
    result = masked.suffix() if all(keeps[first]) and not all(keeps[1 - first]) else masked.prefix()
    is_held = reader.atoms.is_saturated and any(keeps[1 - first])
    conditions = [padding(side), *([SATURATED] if is_held else [])]
    return replace(result, conditions=conditions)


def _mask_of(atoms: Atoms, scan: Scan) -> Instance | None:
    """The one mask that a step reads, at its own step and at the row of the carries; else None."""
    masks = {i: open_sizes(x) for x in scan.entering(ANY) for i in counts.masks(atoms, x)}
    if len(masks) != 1:
        return None
    (mask,) = masks
    place = atoms.padded[mask.family].place
    step, rows = mask.refs[place], _rows(mask, place)
    sizes = open_sizes(scan.carries[0]) if scan.carries else []
    own = (step.kind, step.number) == ("loop", ANY) and rows == tuple(Ref("axis", n) for n in range(len(sizes)))
    return mask if own and all(open_sizes(c) == sizes for c in scan.carries) else None


def _rows(mask: Instance, place: int) -> tuple[Ref, ...]:
    """The indices of a mask but its step."""
    return (*mask.refs[:place], *mask.refs[place + 1 :])


def _with_mask(atoms: Atoms, scan: Scan, mask: Instance, value: int) -> Scan:
    """The loop with a number in place of a mask."""
    xs = []
    for x in scan.xs:
        for instance in counts.masks(atoms, x):
            if instance.family == mask.family:
                x = counts.assumed(atoms, x, instance, value)
        xs.append(x)
    return replace(scan, xs=xs)


def _kept(reader: StepReader, scan: Scan, mask: Instance, first: int) -> tuple[list[list[bool]], Stepped] | None:
    """For each value of the mask whether its steps keep each carry, and a step of the core for the first value.

    None where rows read the states of others.
    """
    atoms = reader.atoms
    families = carry_families(atoms, scan)
    state = states_of(scan, ANY, families)
    sizes = open_sizes(state[0]) if state else []
    own = (Ref("loop", ANY), *(Ref("axis", n) for n in range(len(sizes))))
    keeps: list[list[bool]] = [[], []]
    core = Stepped(families, state, ())
    for value in (first, 1 - first):
        atoms.saturates = value != first
        others = _with_mask(atoms, scan, mask, value)
        try:
            carried, ys = stepped(reader, others, ANY, state)
            core = Stepped(families, carried, ys) if value == first else core
            keeps[value] = [equal(c, s) for c, s in zip(carried, state, strict=True)]
            if value != first:
                keeps[value] = [k or _stays(reader, others, state, core.carried, n) for n, k in enumerate(keeps[value])]
        except Stopped:
            return None
        finally:
            atoms.saturates = False
        if any(leaf.refs != own for leaf in atoms.leaves(*carried, *ys) if leaf.family in families):
            return None
        if any(open_sizes(form) != sizes for form in carried):
            return None
    return keeps, core


def _stays(reader: StepReader, others: Scan, state: Sequence[Form], core: Sequence[Form], number: int) -> bool:
    """Whether the steps of a loop keep a carry that is the initial one or a step of the core, as one that is clipped.

    The other carries may be anything.
    """
    for value in (core[number], others.carries[number]):
        before = [value if n == number else s for n, s in enumerate(state)]
        after, same = moves.aligned(stepped(reader, others, ANY, before)[0][number], value)
        if not equal(after, same):
            return False
    return True


@dataclass(frozen=True)
class _Masked:
    """A loop with its mask. first: the value of the mask in the steps that come first. keeps, step: as of `_kept`."""

    reader: StepReader
    scan: Scan
    mask: Instance
    first: int
    keeps: Sequence[Sequence[bool]]
    step: Stepped

    @property
    def atoms(self) -> Atoms:
        """All atoms."""
        return self.reader.atoms

    def rows(self, more: int = 0) -> tuple[Ref, ...]:
        """The indices of the mask but its step, with so many axes before them."""
        rows = _rows(self.mask, self.atoms.padded[self.mask.family].place)
        return tuple(Ref(r.kind, r.number + more, r.flipped) for r in rows)

    def core(self, value: int) -> Scan:
        """The loop in which the mask has a value at each step."""
        return _with_mask(self.atoms, self.scan, self.mask, value)

    def last(self, carried: Sequence[Form], loop: int, value: int) -> list[Form]:
        """The carries after the last step of that value, or the initial ones, by those after each step of a loop."""
        family = self.mask.family
        last = Instance(counts.last(self.atoms, family, value), self.rows())
        count = Instance(counts.count(self.atoms, family, value), self.rows())
        result = []
        for after, before in zip(carried, self.scan.carries, strict=True):
            looked = looked_up(
                self.atoms, after, Ref("loop", loop), counts.whole(scalar(after), last), self.scan.length
            )
            some = positive(self.atoms, counts.whole(after, count))
            result.append(choice(self.atoms, some, looked, before))
        return result

    def chosen(self, loop: int, value: int, yes: Sequence[Form], no: Sequence[Form]) -> list[Form]:
        """The results of the steps: `yes` where the mask has the value, else `no`."""
        refs = tuple(Ref("loop", loop, r.flipped) if r.kind == "loop" else r for r in self.mask.refs)
        result = []
        for a, b in zip(yes, no, strict=True):
            first, second = moves.aligned(*((a, b) if value else (b, a)))
            result.append(choice(self.atoms, counts.whole(first, Instance(self.mask.family, refs)), first, second))
        return result

    def prefix(self) -> MaskedLoop:
        """Read the loop by the steps that come first; carries that the other steps change are unknown."""
        carried, ys, loop = read(self.reader, self.core(self.first), self.step)
        final, keeps = self.last(carried, loop, self.first), self.keeps[1 - self.first]
        final = [f if is_kept else self._unknown(f) for f, is_kept in zip(final, keeps, strict=True)]
        if all(keeps):
            others = self.core(1 - self.first).entering(loop)
            after = self.reader.run(self.scan.step, [*self.scan.consts, *final, *others])[len(final) :]
        else:
            after = [self._unknown(y, Ref("loop", loop)) for y in ys]
        return MaskedLoop(final, self.chosen(loop, self.first, ys, after), loop, ())

    def _unknown(self, like: Form, *refs: Ref) -> Form:
        """Unknown values on the same axes: atoms that equal only themselves."""
        axes = [Ref("axis", n) for n in open_numbers(like.parts).values()]
        family = self.atoms.fresh("unknown", like.rows, len(refs) + len(axes))
        block = Picks(np.arange(like.rows), np.ones(like.rows))
        return Form(like.axes, {Instance(family, (*refs, *axes)): block}, np.zeros(like.rows), 0.0)

    def suffix(self) -> MaskedLoop:
        """Read the loop by the steps that come last, from the first of them on."""
        value, length = 1 - self.first, self.scan.length
        xs = [self._from_first(x) for x in self.core(value).xs]
        carried, ys, loop = read(self.reader, replace(self.scan, xs=xs, reverse=False))
        counted = Instance(counts.count(self.atoms, self.mask.family, value), self.rows())
        step = Ref("loop", loop)
        looked = []
        for y in ys:
            like = scalar(y)
            here = counts.whole(like, Instance(counts.ramp(self.atoms, length), (step,)))
            passed = minus(counts.size_form(self.atoms, like, length), counts.whole(like, counted))
            looked.append(looked_up(self.atoms, y, step, minus(here, passed), length))
        others = self.core(self.first).entering(loop)
        before = self.reader.run(self.scan.step, [*self.scan.consts, *self.scan.carries, *others])
        before = before[len(self.scan.carries) :]
        return MaskedLoop(self.last(carried, loop, value), self.chosen(loop, value, looked, before), loop, ())

    def _from_first(self, x: Form) -> Form:
        """A sequence from the first step of the value that comes last on, in the order of the steps."""
        step = Ref("axis", 0)
        x = x.with_refs({step: step.turned(self.scan.reverse)})
        like = scalar(x)
        here = counts.whole(like, Instance(counts.ramp(self.atoms, self.scan.length), (step,)))
        counted = Instance(counts.count(self.atoms, self.mask.family, 1 - self.first), self.rows(1))
        passed = minus(counts.size_form(self.atoms, like, self.scan.length), counts.whole(like, counted))
        return looked_up(self.atoms, x, step, added(here, passed), self.scan.length)
