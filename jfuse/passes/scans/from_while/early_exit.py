"""Loops that stop early on data, although more steps would change nothing: they can run all steps.

`dynamic_rnn` turns until the longest sequence of the batch ends; rows that ended before keep their states and collect
zeros, and after that all rows do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import Producer
from jfuse.ir.types import DType
from jfuse.ir.walk import producers
from jfuse.kernels import ops
from jfuse.kernels.array.lists import reserve
from jfuse.kernels.core.op import static_value
from jfuse.passes.scans.from_while.frame import WhileFrame
from jfuse.passes.scans.from_while.step_index import ORDERINGS, Counting, Index, is_at_least

_LAYOUT = frozenset({"renames", "repeats"})
"""Moves that leave one value one value: where all elements of the operand are it, those of the result are."""


def is_idle_beyond(frame: WhileFrame, eqn: Eqn, producer: Producer) -> bool:
    """Whether every step at which an open limit is reached leaves all carried values as they are.

    producer: the equation that makes a Var around the loop.
    """
    counting = Counting(eqn.bodies[1], frame.counters, frame.length)
    limits = [_Limit(eqn, frame, counting, producer, counter, eqn.inputs[i]) for counter, i in frame.limits.open_]
    return all(limit.is_never_reached() or (limit.ends_all() and not frame.copies) for limit in limits)


@dataclass(frozen=True)
class _Limit:
    """An open limit of a loop: `counter` stays below `limit`."""

    eqn: Eqn
    frame: WhileFrame
    counting: Counting
    producer: Producer
    counter: Index
    limit: Atom | None

    def is_never_reached(self) -> bool:
        """Whether the number of steps ends the loop first."""
        return self._is_beyond(self.limit)

    def ends_all(self) -> bool:
        """Whether from there on states stay, and lists get the zeros that they hold already."""
        body, made = self.frame.body, producers(self.frame.body)
        stay = all(self._result(body.outputs[i], body, made) is body.inputs[i] for i in self.frame.carries)
        return stay and all(
            self._is_zero(self._result(w.row, body, made), body) and self._is_zero(body.inputs[w.position], body)
            for w in self.frame.writes
        )

    def _result(self, atom: Atom | None, body: Graph, made: dict[Var, Eqn]) -> Atom | None:
        """Return a value of the step as it is beyond the limit: its arm of the select."""
        eqn = made.get(atom) if isinstance(atom, Var) else None
        while eqn is not None and eqn.op.moves in _LAYOUT:
            atom = eqn.inputs[0]
            eqn = made.get(atom) if isinstance(atom, Var) else None
        if eqn is None or not eqn.op.selects:
            return atom
        condition, true, false = eqn.inputs
        value = self._condition(condition, body, made)
        return atom if value is None else true if value else false

    def _condition(self, atom: Atom | None, body: Graph, made: dict[Var, Eqn]) -> bool | None:
        """The value of a condition beyond the limit, where the limit covers every length that it looks at."""
        eqn = made.get(atom) if isinstance(atom, Var) else None
        if eqn is None:
            return None
        if eqn.op.moves in _LAYOUT or eqn.op is ops.logical_not:
            value = self._condition(eqn.inputs[0], body, made)
            return value if value is None or eqn.op.moves in _LAYOUT else not value
        if eqn.op.compares not in ORDERINGS:
            return None
        over = "=" in eqn.op.compares  # the result once the counter has reached the length
        counter, length = eqn.op.ordered[::-1] if over else eqn.op.ordered
        root = _root(eqn.inputs[length], made.get)
        known = self.counting.index(eqn.inputs[counter]) == self.counter and root in body.inputs
        return over if known and isinstance(root, Var) and self._covers(self.limit, self._outside(root, body)) else None

    def _outside(self, var: Var, body: Graph) -> Atom | None:
        return _root(self.eqn.inputs[body.inputs.index(var)], self.producer)

    def _covers(self, limit: Atom | None, lengths: Atom | None) -> bool:
        """Whether a counter that reached `limit`, but not the number of steps, reached all `lengths`."""
        limit = _root(limit, self.producer)
        eqn = self.producer(limit)
        if limit is lengths:
            return True
        if eqn is None:
            return False
        if eqn.op is ops.reduce_max:
            return eqn.outputs[0].type.rank == 0 and _root(eqn.inputs[0], self.producer) is lengths
        if eqn.op is ops.maximum:
            return any(self._covers(a, lengths) for a in eqn.inputs)
        if eqn.op is ops.minimum:
            return all(self._covers(a, lengths) or self._is_beyond(a) for a in eqn.inputs)
        return False

    def _is_beyond(self, atom: Atom | None) -> bool:
        """Whether the counter stays below a value through all steps."""
        value = None if atom is None else static_value(atom)
        if value is not None and not isinstance(value, tuple):
            return is_at_least(value, self.counter.at(self.frame.length))
        eqn = self.producer(_root(atom, self.producer))
        if eqn is None or eqn.op not in (ops.maximum, ops.minimum):
            return False
        beyond = [self._is_beyond(a) for a in eqn.inputs]
        return any(beyond) if eqn.op is ops.maximum else all(beyond)

    def _is_zero(self, atom: Atom | None, body: Graph) -> bool:
        if isinstance(atom, Var) and atom in body.inputs:
            atom = self.eqn.inputs[body.inputs.index(atom)]
        if isinstance(atom, Const):
            return atom.type.dtype is not DType.string and not atom.array.any()
        eqn = self.producer(atom)
        if eqn is None:
            return False
        if eqn.op is ops.fill:
            return self._is_zero(eqn.inputs[1], body)
        return eqn.op in (reserve, ops.zeros_like) or (eqn.op.moves in _LAYOUT and self._is_zero(eqn.inputs[0], body))


def _root(atom: Atom | None, producer: Callable[[Var], Eqn | None]) -> Atom | None:
    """Skip layout ops and casts between wide integers before a value."""
    while isinstance(atom, Var):
        eqn = producer(atom)
        if eqn is None or not (eqn.op.moves in _LAYOUT or _is_wide_cast(eqn)):
            return atom
        atom = eqn.inputs[0]
    return atom


def _is_wide_cast(eqn: Eqn) -> bool:
    wide = (DType.i32, DType.i64)
    (result,) = eqn.outputs[:1]
    source = eqn.inputs[0] if eqn.inputs else None
    return eqn.op is ops.cast and source is not None and source.type.dtype in wide and result.type.dtype in wide
