"""Masked loops whose counted steps come first, by conditional induction; and how often a mask counts.

Let u be 1 in the steps that count and 0 in the others, so that u never grows from one step to the next. Shown in normal
form for one step, whatever the state: it is `u * core + (1 - u) * state`, and reads the state of its own row only.
Then, row by row, the state before step t is that of the core loop (in which all steps count) before step
min(t, count). So the last state is the core's after step `max(count - 1, 0)`, or the initial one where nothing counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.proof.symbolic import moves
from jfuse.proof.symbolic.atoms import Atoms
from jfuse.proof.symbolic.comparison import equal
from jfuse.proof.symbolic.forms import Form, Instance, Picks, Ref, Stopped, open_numbers
from jfuse.proof.symbolic.functions import choice, positive
from jfuse.proof.symbolic.loops import Scan, StepReader, atoms_of, open_sizes, read, stepped, with_open_batch

WIDE = (np.dtype(np.int32), np.dtype(np.int64))
"""Integers that hold every size and place of an axis."""

_BOUND = Ref("bound", 0)  # the step that is looked up
_ANY = -1  # the number of a loop for one step of which is spoken


@dataclass(frozen=True)
class MaskedLoop:
    """A masked loop that was read.

    last: the carries after the last step. ys: what each step of `loop` gives. side: on which the mask is padded.
    """

    last: Sequence[Form]
    ys: Sequence[Form]
    loop: int
    side: str


def padding(side: str) -> str:
    """The condition of a proof that relies on a mask."""
    return f"the mask is 1 or 0 and padded on the {side}"


def read_masked(reader: StepReader, scan: Scan) -> MaskedLoop | None:
    """The loop by what its core is; None where it is not masked in this way."""
    if reader.atoms.is_trial or any(not x.is_open(0) or len(x.axes[0]) != 1 for x in scan.xs):
        return None
    scan = replace(scan, carries=[with_open_batch(c, reader.sizes) for c in scan.carries])
    mask = _mask_of(reader.atoms, scan)
    counted = None if mask is None else _counted_value(reader, scan, mask)
    if mask is None or counted is None:
        return None
    place, side = reader.atoms.padded[mask.family]
    comes_first = (side == "right") != mask.refs[place].flipped
    if comes_first != bool(counted):
        return None
    # The counted steps come first, so the loop is that without a mask, read at the last counted step (`last`, or the
    # initial state where `count` is 0). The other steps then all start from these final carries, which they keep.
    carried, ys, loop = read(reader, _with_mask(scan, mask, counted))
    rows = (*mask.refs[:place], *mask.refs[place + 1 :])
    count, last = _count(reader.atoms, mask.family, bool(counted)), _last(reader.atoms, mask.family, bool(counted))
    final = []
    for after, before in zip(carried, scan.carries, strict=True):
        selected = looked_up(reader.atoms, after, Ref("loop", loop), Instance(last, rows))
        some = positive(reader.atoms, _spread(after, Instance(count, rows)))
        final.append(choice(reader.atoms, some, selected, before))
    masked_steps = reader.run(scan.step, [*scan.consts, *final, *_with_mask(scan, mask, 1 - counted).entering(loop)])
    here = Instance(mask.family, tuple(Ref("loop", loop, r.flipped) if r.kind == "loop" else r for r in mask.refs))
    chosen = [_chosen(reader.atoms, here, counted, a, b) for a, b in zip(ys, masked_steps[len(final) :], strict=True)]
    return MaskedLoop(final, chosen, loop, side)


def _mask_of(atoms: Atoms, scan: Scan) -> Instance | None:
    """The one mask that a step reads, at its own step and at the row of the carries; else None."""
    entering = scan.entering(_ANY)
    masks = {i: open_sizes(x) for x in entering for i in x.blocks if i.family in atoms.padded}
    if len(masks) != 1:
        return None
    ((mask, sizes),) = masks.items()
    place, _ = atoms.padded[mask.family]
    step, rows = mask.refs[place], (*mask.refs[:place], *mask.refs[place + 1 :])
    own = (step.kind, step.number) == ("loop", _ANY) and rows == tuple(Ref("axis", n) for n in range(len(sizes)))
    return mask if own and all(open_sizes(c) == sizes for c in scan.carries) else None


def _with_mask(scan: Scan, mask: Instance, value: int) -> Scan:
    """The loop with a number in place of a mask."""
    xs = []
    for x in scan.xs:
        blocks, constant = {}, x.constant
        for instance, block in x.blocks.items():
            if instance.family != mask.family:
                blocks[instance] = block
                continue
            factor = np.where(block.atoms >= 0, block.scale, 0.0) if isinstance(block, Picks) else block.sum(axis=1)
            constant = constant + value * factor
        xs.append(Form(x.axes, blocks, constant, x.error))
    return replace(scan, xs=xs)


def _counted_value(reader: StepReader, scan: Scan, mask: Instance) -> int | None:
    """The value of a mask where a step counts, if it keeps all carries at the other; None where that is not shown."""
    atoms = reader.atoms
    families = [atoms.fresh("carry", c.rows, 1 + len(open_numbers(c.parts))) for c in scan.carries]
    state = [atoms_of(c, _ANY, [(f, np.arange(c.rows))]) for f, c in zip(families, scan.carries, strict=True)]
    try:
        either, *of_value = (
            stepped(reader, s, _ANY, state) for s in (scan, _with_mask(scan, mask, 0), _with_mask(scan, mask, 1))
        )
        # A value of the mask that leaves arbitrary carries as they are is the one that does not count. Exactly one
        # value must do so.
        held = [all(equal(c, s) for c, s in zip(carried, state, strict=True)) for carried, _ in of_value]
        if held[0] == held[1]:
            return None
        counted = 1 - held.index(True)
        zero, one = ([*carried, *ys] for carried, ys in of_value)
        sizes = open_sizes(state[0]) if state else []
        for result, no, yes in zip([*either[0], *either[1]], zero, one, strict=True):
            if any(open_sizes(form) != sizes for form in (result, no, yes)):
                return None
            first, second = moves.aligned(result, _chosen(atoms, mask, 1, yes, no))
            if not equal(first, second):
                return None
    except Stopped:
        return None
    own = (Ref("loop", _ANY), *(Ref("axis", n) for n in range(len(sizes))))
    is_own = all(leaf.refs == own for leaf in atoms.leaves(*zero, *one) if leaf.family in families)
    return counted if is_own else None


def _chosen(atoms: Atoms, mask: Instance, counted: int, yes: Form, no: Form) -> Form:
    """`yes` where the mask has the counted value."""
    yes, no = moves.aligned(yes, no)
    flag = _spread(yes, mask)
    return choice(atoms, flag, *((yes, no) if counted else (no, yes)))


def _spread(like: Form, instance: Instance) -> Form:
    """The only atom of an instance in each row."""
    return Form(like.axes, {instance: Picks(np.zeros(like.rows, int), np.ones(like.rows))}, np.zeros(like.rows), 0.0)


def looked_up(atoms: Atoms, form: Form, ref: Ref, last: Instance) -> Form:
    """The form with an index in place of one of its own: the last counted step."""
    if not any((r.kind, r.number) == (ref.kind, ref.number) for i in form.blocks for r in i.refs):
        return form
    return atoms.function("lookup", [form.with_refs({ref: _BOUND}), _spread(form, last)])


def _count(atoms: Atoms, mask: int, counts: bool) -> int:
    """The family of how many steps of a mask count."""
    return atoms.named(("count", mask, counts), 1, atoms.families[mask].arity - 1)


def _last(atoms: Atoms, mask: int, counts: bool) -> int:
    """The family of the last step that counts, the first one where none does."""
    return atoms.named(("last", mask, counts), 1, atoms.families[mask].arity - 1)


def counted(atoms: Atoms, form: Form, axes: Sequence[int]) -> Form | None:
    """The sum of a mask, or of its negation, along the steps; else None."""
    if len(axes) != 1 or form.rows != 1 or len(form.blocks) != 1 or form.error or len(form.axes[axes[0]]) != 1:
        return None
    ((mask, block),) = form.blocks.items()
    if mask.family not in atoms.padded or not isinstance(block, Picks) or not form.is_open(axes[0]):
        return None
    number = open_numbers(form.parts)[sum(len(a) for a in form.axes[: axes[0]])]
    place, _ = atoms.padded[mask.family]
    rows = (*mask.refs[:place], *mask.refs[place + 1 :])
    is_along = [(r.kind, r.number) == ("axis", number) for r in mask.refs]
    factors = (float(form.constant[0]), float(block.scale[0]))
    if sum(is_along) != 1 or not is_along[place] or factors not in {(0.0, 1.0), (1.0, -1.0)}:
        return None
    count = Instance(_count(atoms, mask.family, factors[1] > 0), rows)
    one = Form(form.axes, {count: block.take(np.zeros(1, int))}, np.zeros(1), 0.0).scale(factors[1])
    return moves.dropped_axis(one, axes[0])


def last_counted(atoms: Atoms, form: Form, least: Form) -> Form | None:
    """max(count - 1, 0), the last step that counts; else None."""
    if not least.is_constant or least.error or least.constant.any() or len(form.blocks) != 1 or form.constant.any():
        return None
    ((instance, block),) = form.blocks.items()
    family = atoms.of(instance)
    if not isinstance(block, Picks) or block.scale.tolist() != [1.0] or not family.operands or form.rows != 1:
        return None
    if not isinstance(family.op, tuple) or family.op[0] != "sub":
        return None
    total, one = (atoms.rows_of(instance, block.atoms, k) for k in range(2))
    if not one.is_constant or one.error or one.constant.tolist() != [1.0] or len(total.blocks) != 1:
        return None
    ((count, entries),) = total.blocks.items()
    op = atoms.of(count).op
    if not isinstance(op, tuple) or op[0] != "count" or not isinstance(entries, Picks):
        return None
    if total.constant.any() or total.error or entries.scale.tolist() != [1.0]:
        return None
    _, mask, counts = op
    return _spread(form, Instance(_last(atoms, mask, counts), count.refs))


def gathered(atoms: Atoms, form: Form, index: Form, numbers: Any, sizes: Sequence[object]) -> Form | None:
    """x[b, last counted step of b, ...] of x[b, t, ...]; else None."""
    dims = (numbers.collapsed_slice_dims, numbers.start_index_map)
    if dims != ((0, 1), (0, 1)) or numbers.operand_batching_dims or index.rows != 2 or index.error:
        return None
    rank = len(index.axes) - 1
    if tuple(numbers.offset_dims) != tuple(range(rank, rank + len(form.axes) - 2)):
        return None
    whole = all(same(a, b) is True for a, b in zip(sizes[2:], form.shape[2:], strict=True))
    if not whole or index.constant.any() or len(form.axes[1]) != 1 or not form.is_open(1) or len(form.axes[0]) > 1:
        return None
    row, last = (_only_atom(index, k) for k in range(2))
    if last is None or _kind(atoms, last) != "last":
        return None
    if form.axes[0]:
        batch = form.axes[0][0]
        own = row is not None and _kind(atoms, row) == "iota" and row.refs == (Ref("axis", 0),)
        if not own or not batch[1] or [p for p in index.parts if p[1]] != [batch] or last.refs != (Ref("axis", 0),):
            return None
    elif row is not None or last.refs or any(is_open for _, is_open in index.parts):
        return None
    return looked_up(atoms, moves.at(form, 1, _BOUND), _BOUND, last)


def is_ramp(atoms: Atoms, form: Form) -> bool:
    """Whether it counts from 0 along a known axis: each number is less than 2^31."""
    ops = [atoms.of(i).op for i in form.blocks]
    alone = len(ops) == 1 and not form.constant.any() and all(isinstance(b, Picks) for b in form.blocks.values())
    is_unit = alone and all((b.scale == 1.0).all() for b in form.blocks.values() if isinstance(b, Picks))
    return is_unit and ops[0] in {("iota", str(size), kind) for size in atoms.ramps for kind in ("int32", "int64")}


def _only_atom(form: Form, row: int) -> Instance | None:
    atoms = [(i, b) for i, b in form.blocks.items() if not isinstance(b, Picks) or b.atoms[row] >= 0]
    if len(atoms) != 1 or not isinstance(atoms[0][1], Picks) or atoms[0][1].scale[row] != 1.0:
        return None
    return atoms[0][0]


def _kind(atoms: Atoms, instance: Instance) -> object:
    op = atoms.of(instance).op
    return op[0] if isinstance(op, tuple) else op
