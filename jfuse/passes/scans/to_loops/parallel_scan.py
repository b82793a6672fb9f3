"""A linear recurrence h' = A h + b without a loop: level by level over blocks of steps, or as running sums.

The algorithm is Blelloch's scan (Prefix sums and their applications, 1990) with blocks of `radix` steps in place of
pairs. Steps of all blocks stand side by side. Within a block two steps (A, b) and (A', b') are one: (A' A, A' b + b').
The blocks as steps of their own are the next level. Its results are the states that blocks begin with, from which all
other steps follow. So there are about radix * log(steps) operators on whole sequences, and 5 products and sums a step.
Products of A become 0 where they are too small, which is right, and nothing is divided by them; `is_bounded` says that
none is too large.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.trace import active_trace, as_atom, recording
from jfuse.kernels import ops
from jfuse.lowering.recover.algebra.linear import Factor, LinearRow
from jfuse.lowering.recover.algebra.reshaped import reshaped
from jfuse.lowering.rule_tools.broadcast_constants import constant_behind
from jfuse.lowering.rule_tools.query import type_of
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.passes.scans.to_loops.known_bounds import bounds
from jfuse.passes.scans.to_loops.linear_step import LinearLoop, StepValues
from jfuse.passes.scans.to_loops.loop_cost import FORMS, LoopSpelling
from jfuse.passes.scans.to_loops.loop_forms import Loop

_LARGEST = 1e18
"""Of a product of factors: the square is a number in f32, and so is its product with 0."""


def parallel_sizes(loop: Loop, linear: LinearLoop, producer: Callable[[Any], Eqn | None]) -> dict[str, tuple[int, int]]:
    """Operators, and numbers that they compute, of each form without a loop that a linear recurrence can have."""
    sizes = {}
    for form in FORMS:
        if _can_have(loop, linear, form, producer):
            with recording(nested=True) as trace:
                written_in_parallel(loop, linear, form)
                numbers = sum(_count(out.type.shape) for eqn in trace.eqns for out in eqn.outputs)
                sizes[form.short] = len(trace.eqns), numbers
    return sizes


def _can_have(loop: Loop, linear: LinearLoop, form: LoopSpelling, producer: Callable[[Any], Eqn | None]) -> bool:
    if form.sums:
        return linear.is_sum and _is_whole(loop, linear.states[0].rest)
    steps = loop.length
    return bool(form.radix) and is_known(steps) and steps >= 2 * form.radix and is_bounded(linear, int(steps), producer)


def _is_whole(loop: Loop, rest: Any) -> bool:
    """Whether what is added has the shape of the state."""
    shape = loop.carries[0].type.shape
    return all(same(d, e) is True for d, e in zip(type_of(_bare(rest)).shape[1:], shape, strict=True))


def _count(shape: Sequence[Any]) -> int:
    return int(np.prod([int(d) if is_known(d) else 1 for d in shape]))


def is_bounded(linear: LinearLoop, steps: int, producer: Callable[[Any], Eqn | None]) -> bool:
    """Whether no product of the factors of so many steps is too large for f32, whatever the input is."""
    rows = [row.factors for row in linear.states]
    values = [[f.value.array if isinstance(f.value, Const) else f.value for f in row.values()] for row in rows]
    if all(isinstance(v, np.ndarray) for row in values for v in row):
        return _powers_bounded(rows, steps)
    largest = max(sum(_largest(f, producer) for f in row.values()) for row in rows)
    return largest <= 1 or largest**steps <= _LARGEST


def _largest(factor: Factor, producer: Callable[[Any], Eqn | None]) -> float:
    value = factor.value.value if isinstance(factor.value, StepValues) else factor.value
    return max(map(abs, bounds(as_atom(value), producer)))


def _powers_bounded(rows: Sequence[Mapping[int, Factor]], steps: int) -> bool:
    """The same of factors that are constants: by their powers."""
    shape = np.broadcast_shapes(*(_signed(f).shape for row in rows for f in row.values()), ())
    matrix = np.zeros((*shape, len(rows), len(rows)))
    for i, row in enumerate(rows):
        for j, factor in row.items():
            matrix[..., i, j] = _signed(factor)
    with np.errstate(all="ignore"):
        for _ in range(max(1, steps.bit_length())):
            if not (np.abs(matrix) <= _LARGEST).all():
                return False
            matrix = matrix @ matrix
    return True


def _signed(factor: Factor) -> np.ndarray:
    array = np.asarray(factor.value.array if isinstance(factor.value, Const) else factor.value, np.float64)
    return -array if factor.negative else array


def written_in_parallel(loop: Loop, linear: LinearLoop, form: LoopSpelling) -> list[Atom]:
    """The results of a linear recurrence, recorded in the active trace without a loop."""
    states = (
        [_summed(loop, linear)]
        if form.sums
        else _Scan(form.radix, loop.reverse).level(linear.states, loop.carries, int(loop.length))
    )
    pairs = zip(states, loop.carries, strict=True)
    before = None if all(isinstance(row, int) for row in linear.collected) else [_before(s, h, loop) for s, h in pairs]
    collected = [states[row] if isinstance(row, int) else _total(row, before or ()) for row in linear.collected]
    finals = [_last(s.value, loop.reverse) for s in states]
    return [as_atom(v) for v in (*finals, *(_bare(c) for c in collected))]


def _summed(loop: Loop, linear: LinearLoop) -> StepValues:
    """The states of a recurrence that only adds."""
    sums = ops.cumsum(_bare(linear.states[0].rest), np.int32(0), reverse=loop.reverse)
    start = loop.carries[0]
    constant = start.array if isinstance(start, Const) else constant_behind(start, active_trace().producer)
    return StepValues(sums if constant is not None and not constant.any() else ops.add(sums, start))


_States: TypeAlias = Sequence[Any]


@dataclass(frozen=True)
class _Scan:
    """The scan at work.   reverse: whether the last step comes first"""

    radix: int
    reverse: bool

    def level(self, rows: Sequence[LinearRow], starts: _States, count: int) -> list[StepValues]:
        """The states after each of `count` steps from some states."""
        if count < 2 * self.radix:
            return self._one_by_one(rows, starts, count)
        blocks, left = divmod(count, self.radix)
        main = _sliced(rows, left, None) if self.reverse else _sliced(rows, None, count - left)
        steps = _in_blocks(main if left else rows, blocks, self.radix)
        order = self._order(self.radix)
        whole = steps[order[0]]
        for i in order[1:]:
            whole = _composed(whole, steps[i])
        ends = self.level(whole, starts, blocks)
        states: list[Any] = [_before(e, h, self) for e, h in zip(ends, starts, strict=True)]
        by_place = {order[-1]: ends}
        for i in order[:-1]:
            states = by_place[i] = [_total(row, states) for row in steps[i]]
        found = [_joined([by_place[i][s] for i in range(self.radix)], blocks) for s in range(len(rows))]
        if not left:
            return found
        rest = _sliced(rows, None, left) if self.reverse else _sliced(rows, count - left, None)
        others = self._one_by_one(rest, [_last(e.value, self.reverse) for e in ends], left)
        pairs = [(o, f) if self.reverse else (f, o) for f, o in zip(found, others, strict=True)]
        return [StepValues(ops.concatenation(a.value, b.value, axis=0)) for a, b in pairs]

    def _one_by_one(self, rows: Sequence[LinearRow], states: _States, count: int) -> list[StepValues]:
        """The same, one step after the other."""
        steps = _mapped_steps(rows, lambda x: _unpacked(x, count), count)
        by_place: dict[int, _States] = {}
        for i in self._order(count):
            states = by_place[i] = [_total(row, states) for row in steps[i]]
        columns = [[by_place[i][s] for i in range(count)] for s in range(len(rows))]
        return [StepValues(ops.expand_dims(c[0], 0) if count == 1 else ops.pack(*c, axis=0)) for c in columns]

    def _order(self, count: int) -> Sequence[int]:
        return range(count)[::-1] if self.reverse else range(count)


def _composed(first: Sequence[LinearRow], second: Sequence[LinearRow]) -> list[LinearRow]:
    """Two steps as one. The parts of a complex number stay two values: equal sums of products are computed once."""
    known: dict[Any, Any] = {}
    composed = []
    for row in second:
        terms: dict[int, list[tuple[bool, Any, Any]]] = {}
        for k, f in row.factors.items():
            for j, g in first[k].factors.items():
                terms.setdefault(j, []).append((f.negative != g.negative, f.value, g.value))
        factors = {j: _products(of_state, known) for j, of_state in terms.items()}
        composed.append(LinearRow(factors, _total(row, [r.rest for r in first])))
    return composed


def _products(terms: Sequence[tuple[bool, Any, Any]], known: dict[Any, Any]) -> Factor:
    """A sum of signed products; `known` has those that were computed, by their operands, whose first has no sign."""
    ordered = sorted(terms, key=lambda term: (_key(term[1]), _key(term[2])))
    sign = ordered[0][0]
    key = tuple((negative != sign, _key(a), _key(b)) for negative, a, b in ordered)
    if key not in known:
        total = None
        for negative, a, b in ordered:
            product = _applied(ops.mul, a, b)
            total = product if total is None else _applied(ops.sub if negative != sign else ops.add, total, product)
        known[key] = total
    return Factor(known[key], sign)


def _key(value: Any) -> int:
    return id(_bare(value))


def _total(row: LinearRow, states: _States) -> Any:
    """A row applied to states; None is a state of 0."""
    total = row.rest
    for i, factor in row.factors.items():
        if states[i] is not None:
            term = _applied(ops.mul, factor.value, states[i])
            if total is None:
                total = _applied(ops.neg, term) if factor.negative else term
            else:
                total = _applied(ops.sub if factor.negative else ops.add, total, term)
    return total


def _applied(op: Any, *values: Any) -> Any:
    """An op on values. If some hold all steps, so does the result."""
    result = op(*map(_bare, values))
    return StepValues(result) if any(isinstance(v, StepValues) for v in values) else result


def _bare(value: Any) -> Any:
    return value.value if isinstance(value, StepValues) else value.array if isinstance(value, Const) else value


# Steps of sequences


def _mapped_steps(
    rows: Sequence[LinearRow], split: Callable[[Any], Sequence[Any]], count: int
) -> list[list[LinearRow]]:
    """The rows of each of `count` parts of the sequences in rows; each sequence is split once."""
    known: dict[int, Sequence[Any]] = {}

    def part(value: Any, i: int) -> Any:
        if not isinstance(value, StepValues):
            return value
        if id(value.value) not in known:
            known[id(value.value)] = split(value.value)
        return known[id(value.value)][i]

    return [[_with_values(row, partial(part, i=i)) for row in rows] for i in range(count)]


def _with_values(row: LinearRow, function: Callable[[Any], Any]) -> LinearRow:
    factors = {j: Factor(function(f.value), f.negative) for j, f in row.factors.items()}
    return LinearRow(factors, None if row.rest is None else function(row.rest))


def _in_blocks(rows: Sequence[LinearRow], blocks: int, radix: int) -> list[list[LinearRow]]:
    """The first steps of all blocks, the second ones, and so on."""

    def split(x: Any) -> Sequence[Any]:
        parts = unpacked(reshaped(x, (blocks, radix, *type_of(x).shape[1:])), axis=1)
        return list(map(StepValues, parts))

    return _mapped_steps(rows, split, radix)


def _sliced(rows: Sequence[LinearRow], begin: int | None, end: int | None) -> list[LinearRow]:
    (found,) = _mapped_steps(rows, lambda x: [StepValues(_slice(x, begin, end))], 1)
    return found


def _slice(x: Any, begin: int | None, end: int | None) -> Any:
    first, last = (np.array([b or 0], np.int32) for b in (begin, end))
    masks = {"begin_mask": int(begin is None), "end_mask": int(end is None)}
    return ops.strided_slice(x, first, last, np.ones(1, np.int32), **masks)


def _unpacked(x: Any, count: int) -> Sequence[Any]:
    return unpacked(x) if count > 1 else [ops.squeeze(x, squeeze_dims=(0,))]


def _joined(steps: Sequence[StepValues], blocks: int) -> StepValues:
    """A sequence of the first steps of all blocks, the second ones, and so on."""
    packed = ops.pack(*(s.value for s in steps), axis=1)
    return StepValues(reshaped(packed, (blocks * len(steps), *type_of(packed).shape[2:])))


def _before(states: StepValues, start: Any, order: Loop | _Scan) -> StepValues:
    """The states with which steps begin, of those with which they end."""
    first = ops.expand_dims(start, 0)
    if order.reverse:
        return StepValues(ops.concatenation(_slice(states.value, 1, None), first, axis=0))
    return StepValues(ops.concatenation(first, _slice(states.value, None, -1), axis=0))


def _last(sequence: Any, reverse: bool) -> Any:
    place = np.array([0 if reverse else -1], np.int32)
    return ops.strided_slice(sequence, place, place + 1, np.ones(1, np.int32), shrink_axis_mask=1)
