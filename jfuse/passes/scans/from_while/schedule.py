"""Moves decisions of the steps that read no state before the loop, where they are computed for all steps at once.

A mask that compares the number of the step with lengths is a sequence of bools then, like any other mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns, substitute_graph
from jfuse.kernels.core.op import draws
from jfuse.passes.scans.fission.step_operands import LoopSteps
from jfuse.passes.scans.fission.vectorize import vectorized

_SMALL = 16  # elements of a constant that is compared by value


@dataclass(frozen=True)
class Scheduled:
    """The body without the decisions that were made before the loop, and the sequences that it steps through instead.

    sequences: by the Var that holds the step, what it is at all steps. needed: the Vars that the body still reads.
    """

    body: Graph
    sequences: Mapping[Var, Any]
    needed: frozenset[Atom]


def scheduled(
    body: Graph,
    wanted: Sequence[Atom],
    counted: Mapping[Var, Any],
    rows: Mapping[Var, Any],
    known: Mapping[Var, Any],
    length: Dim,
) -> Scheduled:
    """Take out of a body the decisions that need no state.

    These are bools that follow from counters and loop-invariant values. Bools with one value for each row of the batch
    may follow from the steps of sequences as well. counted, rows: counters and rows of sequences with their
    values at all steps. known: the loop-invariant inputs with their values outside. Records in the active trace.
    """
    eqns = live_eqns(body, wanted)
    steps = LoopSteps(length, tuple(v for v in (*known.values(), *rows.values()) if isinstance(v, Var)))
    outside = _Outside(steps, dict(known), {**counted, **rows})
    outside.take_all(_decisive(eqns, {*known, *counted}, set(rows)))
    inside = [eqn for eqn in eqns if not any(out in outside.stepped or out in outside.same for out in eqn.outputs)]
    read = _read(inside, wanted)
    decisions: dict[int, Var] = {}  # by the sequence, so that a mask that is made twice is one
    aliases: dict[Var, Atom] = {}
    for var, sequence in outside.stepped.items():
        if var in read and var.type.dtype is DType.bool and var not in counted and var not in rows:
            aliases[var] = decisions.setdefault(id(sequence), var)
    undecided = tuple(e for e in eqns if not any(out in aliases for out in e.outputs))
    body = substitute_graph(replace(body, eqns=undecided), aliases)
    wanted = [aliases.get(a, a) if isinstance(a, Var) else a for a in wanted]
    needed = _read(live_eqns(body, wanted), wanted)
    kept_steps = [*(v for v in (*rows, *counted) if v in needed), *decisions.values()]
    return Scheduled(body, {v: outside.stepped[v] for v in kept_steps}, needed)


def _decisive(eqns: Sequence[Eqn], fixed: set[Var], rows: set[Var]) -> Sequence[Eqn]:
    """The equations that make decisions which follow from `fixed`, and one for each row of the batch from `rows`."""
    free: dict[Var, bool] = {**dict.fromkeys(fixed, False), **dict.fromkeys(rows, True)}
    decisions = []
    for eqn in eqns:
        reads = [a for a in eqn.inputs if isinstance(a, Var)]
        if eqn.bodies or eqn.effects or draws(eqn) or not all(a in free for a in reads):
            continue
        by_row = any(free[a] for a in reads)
        free.update(dict.fromkeys(eqn.outputs, by_row))
        decisions += [v for v in eqn.outputs if v.type.dtype is DType.bool and (not by_row or _is_column(v))]
    return live_eqns(Graph("decisions", (), tuple(eqns), tuple(decisions)), decisions)


def _is_column(var: Var) -> bool:
    return 1 <= var.type.rank <= 2 and all(same(d, 1) is True for d in var.type.shape[1:])


def _read(eqns: Sequence[Eqn], wanted: Sequence[Atom]) -> frozenset[Atom]:
    return frozenset(a for eqn in eqns for a in eqn.inputs if a is not None) | frozenset(wanted)


@dataclass
class _Outside:
    """Values of the steps that are computed before the loop: the same for all steps, or one for each."""

    steps: LoopSteps
    same: dict[Var, Any]
    stepped: dict[Var, Any]
    _done: dict[object, tuple[Any, ...]] = field(default_factory=dict)

    def take_all(self, eqns: Sequence[Eqn]) -> None:
        """Compute equations for all steps, as far as they can be had at once."""
        for eqn in eqns:
            if all(a in self.same or a in self.stepped for a in eqn.inputs if isinstance(a, Var)):
                self._take(eqn)

    def _take(self, eqn: Eqn) -> None:
        operands = [self._value(a) for a in eqn.inputs]
        key = (eqn.op, tuple(map(_identity, operands)), tuple(eqn.params.items()))
        results = self._done.get(key) or self._computed(eqn, operands)
        if results is not None:
            self._done[key] = results
            target = self.stepped if self._places(eqn) else self.same
            target.update(zip(eqn.outputs, results, strict=True))

    def _places(self, eqn: Eqn) -> frozenset[int]:
        return frozenset(i for i, a in enumerate(eqn.inputs) if isinstance(a, Var) and a in self.stepped)

    def _computed(self, eqn: Eqn, operands: Sequence[Any]) -> tuple[Any, ...] | None:
        places = self._places(eqn)
        if places:
            return vectorized(eqn, operands, places, self.steps)
        return tuple(eqn.op.run(operands, eqn.params, ()))

    def _value(self, atom: Atom | None) -> Any:
        if not isinstance(atom, Var):
            return atom
        return self.stepped[atom] if atom in self.stepped else self.same[atom]


def _identity(operand: Any) -> object:
    """The same for equal small constants, and for one and the same value."""
    array = operand.array if isinstance(operand, Const) else operand
    if isinstance(array, np.ndarray) and array.size <= _SMALL and array.dtype != object:
        return (array.dtype, array.shape, array.tobytes())
    return id(array)
