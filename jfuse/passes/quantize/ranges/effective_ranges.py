"""Clips ranges to what consumers can distinguish (saturating ops, softmax): integers need no steps beyond.

Logits that a mask pushes far down: where -1e9 is added to what is masked, or chosen instead of it, the range of the sum
leaves nothing of the logits. The mask does the same a little below the least logit, so its range, and that of the
result, end there.

Values that only kernels read whose results do not change any more far from 0: a LOGISTIC of 16 bits answers 1 from 10.7
on. Integers that reach to 1,000, as gates of a recurrence do whose inputs have outliers, would leave a hundredth of the
steps for the rest. What is beyond the end saturates, which is the same. So it is before what cuts numbers off at a
constant, as MINIMUM and RELU6 do: the range of their result is enough. Logits of a softmax that are far apart, as those
of a trained classifier, need no range beyond those seen: the largest are those of calls in which all others are 0.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import producers, users
from jfuse.kernels import ops
from jfuse.kernels.nn.activation import LIMITS
from jfuse.passes.quantize.forms import facts, is_float, operands_of
from jfuse.quantization.recipe import QuantizeRule

Range = tuple[float, float]
_FAR = 1e3
"""Logits do not reach so far down; and what is so many times wider than the logits is no logit."""
_WIDER = 100.0
EVERYWHERE: Range = (-np.inf, np.inf)
_CHOOSE = (ops.maximum, ops.minimum, ops.max_pool_2d, ops.reduce_max, ops.reduce_min)
"""It is the same whether numbers are cut off before or after these."""
_MOST = 1000.0
"""How many times narrower a range may get: the sums of a product in 16 bits become steps of the result by a multiplier
of less than 2^7, which is 1/127 for the widest range (MultiplyByQuantizedMultiplier of int64_t)."""


def faded_ranges(graph: Graph, integers: Collection[Eqn], range_of: Callable[[Atom], Range]) -> Mapping[Atom, Range]:
    """New ranges for masks of attention, and for masked logits, to replace the ranges that calibration saw.

    integers: the equations that compute in integers. range_of: what was seen of their operands.
    """
    readers = users(graph)
    made_by = producers(graph)
    masked: dict[Atom, Range] = {}
    for eqn in graph.eqns:
        fades = _fades(eqn) if eqn in integers else 0.0
        for var in _logits(eqn.inputs[0], made_by, readers) if fades else ():
            if made_by[var] in integers:
                masked.update(_masked(made_by[var], fades, range_of))
    return masked


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


def narrowed(low: float, high: float, ends: Range) -> Range:
    """A range without what lies beyond ends, or a little farther."""
    least = max(-low, high) / _MOST
    first, last = min(ends[0], 0.0), max(ends[1], 0.0)
    if last - first < least:
        first, last = (first, least) if last >= -first else (-least, last)
    return max(low, first), min(high, last)


def saturated_ends(
    graph: Graph, integers: Mapping[Eqn, QuantizeRule], range_of: Callable[[Atom], Range]
) -> Mapping[Var, Range]:
    """Between which ends values matter to kernels of integers, if nothing else reads them, where there is an end.

    integers: the equations that compute in integers. range_of: what was seen of an operand.
    """
    ends: dict[Var, Range] = {a: EVERYWHERE for a in graph.outputs if isinstance(a, Var)}
    for eqn in reversed(graph.eqns):
        results = _union([ends[var] for var in eqn.outputs if var in ends])
        ends_of_operands = dict(_told(eqn, integers[eqn], results, range_of)) if eqn in integers else {}
        for i, atom in enumerate(eqn.inputs):
            if isinstance(atom, Var) and not eqn.op.operand_at(i).shape_only:
                ends_of_reader = ends_of_operands.get(i, EVERYWHERE)
                ends[atom] = _union([ends_of_reader, ends.get(atom, ends_of_reader)])
    return {var: both for var, both in ends.items() if both != EVERYWHERE}


def _union(ranges: Sequence[Range]) -> Range:
    return (min(low for low, _ in ranges), max(high for _, high in ranges)) if ranges else EVERYWHERE


def _told(eqn: Eqn, rule: QuantizeRule, ends: Range, range_of: Callable[[Atom], Range]) -> Iterator[tuple[int, Range]]:
    """Between which ends operands matter.   ends: those of the results"""
    row, read = facts(eqn).integers, operands_of(eqn).activations
    if row is None:
        return
    if rule.activations in row.saturates:
        yield from ((i, (-row.saturates[rule.activations], row.saturates[rule.activations])) for i in read)
    elif row.fades:
        yield from ((i, seen) for i in read if _is_sure(eqn, seen := range_of(_operand(eqn, i))))
    elif (clip := limits(eqn)) is not None or eqn.op in _CHOOSE:
        low, high = (float(np.clip(end, *clip)) for end in ends) if clip is not None else ends
        yield from ((i, (low, high)) for i in read if isinstance(eqn.inputs[i], Var))
    elif row.result == "same" and eqn.op.moves is not None:
        yield from ((i, ends) for i in read)
    elif eqn.op.elementwise and eqn.op.linear == "joint" and len(read) == 2:
        for i, j in (read, read[::-1]):
            end = max(-ends[0], ends[1]) + max(map(abs, range_of(_operand(eqn, j))))
            yield i, (-end, end)


def _operand(eqn: Eqn, place: int) -> Atom:
    atom = eqn.inputs[place]
    assert atom is not None, "an operand"
    return atom


def _is_sure(eqn: Eqn, logits: Range) -> bool:
    """Whether logits of a softmax are so far apart that where they end one of them alone counts, however large."""
    return float(eqn.params["beta"]) * (logits[1] - logits[0]) > 2 * _fades(eqn)


def limits(eqn: Eqn) -> Range | None:
    """The range that an activation, or MAXIMUM or MINIMUM with a constant, lets through; None for other equations."""
    if (range_ := LIMITS.get(str(eqn.op.builtin))) is not None:
        return range_
    consts = [a for a in eqn.inputs if isinstance(a, Const)]
    if eqn.op not in (ops.maximum, ops.minimum) or not consts or not consts[0].array.size:
        return None
    array = consts[0].array
    return (float(array.min()), np.inf) if eqn.op is ops.maximum else (-np.inf, float(array.max()))
