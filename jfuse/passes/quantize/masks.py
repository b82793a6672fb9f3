"""Ranges of logits that a mask pushes far down: what a softmax does not see needs no steps.

Where -1e9 is added to what is masked, or chosen instead of it, the range of the sum leaves nothing of the logits. The
mask does the same a little below the least logit, so its range, and that of the result, end there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import producers, users
from jfuse.passes.quantize.forms import facts, is_float

Range = tuple[float, float]
_FAR = 1e3
"""Logits do not reach so far down; and what is so many times wider than the logits is no logit."""
_WIDER = 100.0


def faded_ranges(graph: Graph, integers: Collection[Eqn], range_of: Callable[[Atom], Range]) -> Mapping[Atom, Range]:
    """New ranges for masks of attention, and for masked logits, to replace the ranges that calibration saw.

    integers: the equations that compute in integers. range_of: what was seen of their operands.
    """
    readers = users(graph)
    made_by = producers(graph)
    found: dict[Atom, Range] = {}
    for eqn in graph.eqns:
        fades = _fades(eqn) if eqn in integers else 0.0
        for var in _logits(eqn.inputs[0], made_by, readers) if fades else ():
            if made_by[var] in integers:
                found.update(_masked(made_by[var], fades, range_of))
    return found


def _fades(eqn: Eqn) -> float:
    row = facts(eqn).integers
    return 0.0 if row is None else row.fades


def _logits(atom: Atom | None, made_by: Mapping[Var, Eqn], readers: Mapping[Var, list[Eqn]]) -> Iterator[Var]:
    """An operand of a softmax, and what is only moved to become it; as far as nothing else reads it."""
    while isinstance(atom, Var) and atom in made_by and len(readers.get(atom, ())) == 1:
        yield atom
        eqn = made_by[atom]
        atom = eqn.inputs[0] if eqn.op.moves in ("renames", "permutes") else None


def _masked(eqn: Eqn, fades: float, range_of: Callable[[Atom], Range]) -> Iterator[tuple[Atom, Range]]:
    """The ranges of the far operand and the result of an addition, a choice or a minimum."""
    is_sum = eqn.op.elementwise and eqn.op.linear == "joint"
    if not is_sum and not eqn.op.selects:
        return
    ranges = {a: range_of(a) for a in eqn.inputs if a is not None and is_float(a)}
    far = [a for a, (low, _) in ranges.items() if low < -_FAR]
    near = [r for a, r in ranges.items() if a not in far]
    if not far or not near:
        return
    low, high = min(min(r[0] for r in near), 0.0), max(max(r[1] for r in near), 0.0)
    if any(ranges[a][0] > -_WIDER * (high - low) for a in far):
        return
    floor = -(high - low) - fades if is_sum else low - fades
    yield from ((a, (floor, max(min(ranges[a][1], high), 0.0))) for a in far)
    yield eqn.outputs[0], (low + floor if is_sum else floor, high)
