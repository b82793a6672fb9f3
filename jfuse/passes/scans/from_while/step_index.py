"""Counters of a loop: scalars of its bodies as `scale * t + offset`, where t is the number of the step from 0."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.ir.dims import Dim, is_known, same, substitute_dim, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import producers
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.lowering.rules import need

ORDERINGS = ("<", "<=", ">", ">=")
_SIZES = (0, 1, 2, 1 << 20)  # at which a number of steps is looked at
_HUGE = np.iinfo(np.int32).max  # what "no limit" is written as


@dataclass(frozen=True)
class Index:
    """The integer scale * t + offset at step t."""

    scale: int
    offset: Dim

    def at(self, step: Dim) -> Dim:
        """The value at a step: scale * step + offset."""
        return self.scale * step + self.offset

    def lowest(self, length: Dim) -> Dim:
        """The least of the values at so many steps; scale is 1 or -1."""
        return self.at(0) if self.scale == 1 else self.at(length - 1)


class Counting:
    """Scalars of one body of a loop, by what its counters tell about them.

    counters: by position among the carried values. length: the number of steps, where that is known already.
    """

    def __init__(self, body: Graph, counters: Mapping[int, Index], length: Dim | None = None) -> None:
        self._counters = counters
        self._length = length
        self._made = producers(body)
        self._positions = {var: i for i, var in enumerate(body.inputs)}

    def index(self, atom: Atom | None) -> Index | None:
        """A scalar, or a tensor of one element, as an index; None for what is none."""
        value = _number(atom)
        if value is not None:
            return Index(0, value)
        if not isinstance(atom, Var):
            return None
        if atom in self._positions:
            return None if _is_vector(atom) else self._counters.get(self._positions[atom])
        eqn = self._made[atom]
        if eqn.op in (ops.add, ops.sub):
            return self._sum(eqn)
        if eqn.op is ops.mul:
            return self._multiple(eqn)
        if eqn.op is ops.pack and len(eqn.inputs) == 1:
            return self.index(eqn.inputs[0])
        wide = atom.type.dtype in (DType.i32, DType.i64)  # a cast to anything smaller may wrap
        if eqn.op.moves == "renames" or (eqn.op is ops.cast and wide):
            source = eqn.inputs[0]
            is_integer = source is not None and source.type.dtype.is_integer
            return self.index(source) if is_integer else None
        return self._kept_in_range(eqn)

    def first(self, atom: Atom | None) -> Index | None:
        """The first number of a vector that counts and whose other numbers are 0; None for any other value."""
        position = self._positions.get(atom) if isinstance(atom, Var) and _is_vector(atom) else None
        return None if position is None else self._counters.get(position)

    def _kept_in_range(self, eqn: Eqn) -> Index | None:
        """The index that an equation clamps or wraps, if all its values are in range, so that nothing changes."""
        if eqn.op is ops.floor_mod:
            return self._wrapped(eqn)
        if eqn.op in (ops.maximum, ops.minimum):
            return self._clamped(eqn)
        return self._chosen(eqn) if eqn.op.selects else None

    def _sum(self, eqn: Eqn) -> Index | None:
        x, y = map(self.index, eqn.inputs)
        if x is None or y is None:
            return None
        sign = 1 if eqn.op is ops.add else -1
        return Index(x.scale + sign * y.scale, x.offset + sign * y.offset)

    def _multiple(self, eqn: Eqn) -> Index | None:
        for atom, other in (eqn.inputs, eqn.inputs[::-1]):
            index, factor = self.index(atom), _number(other)
            if index is not None and isinstance(factor, int):
                return Index(factor * index.scale, factor * index.offset)
        return None

    def _range(self, index: Index | None) -> tuple[Dim, Dim] | None:
        """The least value and the greatest over all steps; None where they are not known."""
        if index is None or self._length is None or abs(index.scale) != 1:
            return None
        low = index.lowest(self._length)
        return low, low + self._length - 1

    def _clamped(self, eqn: Eqn) -> Index | None:
        """MAXIMUM and MINIMUM with a limit that an index never reaches."""
        for atom, other in (eqn.inputs, eqn.inputs[::-1]):
            index, limit = self.index(atom), _number(other)
            ends = self._range(index)
            if ends is not None and limit is not None:
                low, high = ends
                inside = is_at_least(low, limit) if eqn.op is ops.maximum else is_at_least(limit, high)
                return index if inside else None
        return None

    def _chosen(self, eqn: Eqn) -> Index | None:
        """x[i] in jax counts from the end where i < 0, which an index that starts from 0 never is."""
        if isinstance(chooses := eqn.inputs[0], Const) and not chooses.type.rank:
            return self.index(eqn.inputs[1 if chooses.array else 2])
        condition = self._made.get(chooses) if isinstance(chooses, Var) else None
        if condition is None or condition.op is not ops.less:
            return None
        ends, limit = self._range(self.index(condition.inputs[0])), _number(condition.inputs[1])
        never = ends is not None and limit is not None and is_at_least(ends[0], limit)
        return self.index(eqn.inputs[2]) if never else None

    def _wrapped(self, eqn: Eqn) -> Index | None:
        """x[i] in TensorFlow wraps i; an index that is in range already stays as it is."""
        index, size = self.index(eqn.inputs[0]), _number(eqn.inputs[1])
        if index is None or size is None or self._length is None or abs(index.scale) != 1:
            return None
        low = index.lowest(self._length)
        return index if is_at_least(low, 0) and is_at_least(size, low + self._length) else None


@dataclass(frozen=True)
class TurnCount:
    """How often a loop turns: `length`, or less where a counter reaches one of the `open_` limits before.

    open_: a counter, and the carried value that it must stay below, which no step changes.
    """

    length: Dim
    open_: tuple[tuple[Index, int], ...]


def counters_of(eqn: Eqn) -> dict[int, Index]:
    """The carried integers that each step changes by 1 or -1, from a start that is known, by position.

    Also vectors whose first number is such, and the others 0: where a row begins in a list of several axes.
    """
    body = eqn.bodies[1]
    made = producers(body)
    counters = {}
    for i, (var, out, start) in enumerate(zip(body.inputs, body.outputs, eqn.inputs, strict=True)):
        producer = made.get(out) if isinstance(out, Var) else None
        number = _first_of_row if _is_vector(var) else _number
        first = number(start)
        if producer is None or first is None or var.type.rank > 1 or not var.type.dtype.is_integer:
            continue
        step = _step(producer, var, number)
        if step in (1, -1):
            counters[i] = Index(step, first)
    return counters


def _is_vector(var: Var) -> bool:
    return var.type.rank == 1 and same(var.type.shape[0], 1) is not True


def _first_of_row(atom: Atom | None) -> Dim | None:
    """The first number of a known vector whose other numbers are 0."""
    value = static_value(atom) if atom is not None and atom.type.dtype.is_integer else None
    is_row = isinstance(value, tuple) and len(value) > 1 and all(same(n, 0) is True for n in value[1:])
    return value[0] if isinstance(value, tuple) and is_row else None


def _step(eqn: Eqn, var: Var, number: Callable[[Atom | None], Dim | None]) -> Any:
    if eqn.op is ops.add:
        others = [a for a in eqn.inputs if a is not var]
        return number(others[0]) if len(others) == 1 else None
    if eqn.op is ops.sub and eqn.inputs[0] is var:
        change = number(eqn.inputs[1])
        return None if change is None else -change
    return None


def limits_of(eqn: Eqn, counters: Mapping[int, Index]) -> TurnCount:
    """How often a while turns, from conditions that must all be comparisons of counters; raises NotFused for others."""
    cond, body = eqn.bodies
    counting = Counting(cond, counters)
    rows = [v.type.shape[0] for v in body.inputs if v.type.rank]
    lengths: list[Dim] = []
    open_: list[tuple[Index, int]] = []
    for condition in _conditions(cond):
        need(condition.op.compares in (*ORDERINGS, "!="), "early_exit", want="counter < limit")
        sides = [counting.index(a) for a in condition.inputs]
        x, y = sides
        if x is not None and y is not None:
            lengths.append(_length(condition, x, y, rows))
        else:
            open_.append(_open_limit(condition, sides, cond, body))
    need(lengths or open_, "early_exit", want="counter < limit")
    need(lengths, "trip_count_unknown", want="a number of steps that follows from shapes")
    return TurnCount(_least(lengths), tuple(open_))


def _conditions(cond: Graph) -> Iterator[Eqn]:
    """The equations whose results must all be true for another turn."""
    made = producers(cond)
    pending: list[Atom | None] = list(cond.outputs)
    while pending:
        atom = pending.pop()
        eqn = made.get(atom) if isinstance(atom, Var) else None
        if eqn is not None and (eqn.op is ops.logical_and or eqn.op.moves == "renames"):
            pending += eqn.inputs[:2] if eqn.op is ops.logical_and else eqn.inputs[:1]
        elif eqn is not None:
            yield eqn
        else:
            need(isinstance(atom, Const) and bool(np.all(atom.array)), "early_exit", want="counter < limit")


def _length(condition: Eqn, x: Index, y: Index, rows: Sequence[Dim]) -> Dim:
    """How many steps from 0 on fulfil a comparison of two indices.   rows: of the tensors that the loop carries"""
    if condition.op is ops.not_equal:
        low, high = (y, x) if x.scale - y.scale == -1 else (x, y)
        inclusive = False
    else:
        low, high = ((x, y)[i] for i in condition.op.ordered)
        inclusive = "=" in condition.op.compares
    need(low.scale - high.scale == 1, "not_from_zero", want="a counter that moves towards its limit by 1")
    length = high.offset - low.offset + inclusive
    # The number of steps must not be less than 0, neither where sizes are 0 nor where they are large (10 - N). A tensor
    # has no fewer rows than that (x[1:] has N - 1).
    least = min(substitute_dim(length, dict.fromkeys(symbols_of(length), size)) for size in _SIZES)
    counts = is_known(length) or least >= 0 or any(same(length, d) for d in rows)
    need(counts, "trip_count_unknown", want="at least 0 steps for any size", got=length)
    unequal_ends = condition.op is ops.not_equal and (not is_at_least(length, 0))
    need(not unequal_ends, "not_from_zero", want="a counter that moves towards its limit by 1")
    return length


def _told(atom: Atom | None) -> str:
    """A side of the condition in words."""
    return "nothing" if atom is None else f"{'a constant' if isinstance(atom, Const) else 'a value'} of {atom.type}"


def _open_limit(condition: Eqn, sides: list[Index | None], cond: Graph, body: Graph) -> tuple[Index, int]:
    need(condition.op in (ops.less, ops.greater), "early_exit", want="counter < limit")
    low, high = condition.op.ordered
    counter, limit = sides[low], condition.inputs[high]
    moves = counter is not None and counter.scale == 1
    need(moves, "early_exit", want="counter < limit", got=f"a condition on {_told(condition.inputs[low])}")
    still = [i for i, var in enumerate(cond.inputs) if var is limit and body.outputs[i] is body.inputs[i]]
    need(still, "trip_count_unknown", want="a number of steps that follows from shapes")
    assert counter is not None
    return counter, still[0]


def _least(lengths: list[Dim]) -> Dim:
    lengths = [n for n in lengths if not (is_known(n) and n >= _HUGE)] or lengths[:1]
    length = next((n for n in lengths if all(is_at_least(other, n) for other in lengths)), None)
    need(length is not None, "trip_count_unknown", want="one limit that is reached first", got=lengths)
    need(not is_known(length) or (length or 0) >= 1, "no_steps", want="at least one step", got=length)
    return length


def is_at_least(d: Dim, e: Dim) -> bool:
    """Whether d >= e for certain, sizes of 0 included."""
    if same(d, e):
        return True
    difference = d - e
    if is_known(difference):
        return int(difference) >= 0
    try:
        at_zero = substitute_dim(difference, dict.fromkeys(symbols_of(difference), 0))
        return bool(difference >= 0) and at_zero >= 0
    except InconclusiveDimensionOperation:
        return False


def _number(atom: Atom | None) -> Dim | None:
    """The known value of an integer scalar, or of a tensor of one element."""
    if atom is None or not atom.type.dtype.is_integer:
        return None
    value = static_value(atom)
    while isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    return None if isinstance(value, tuple) else value
