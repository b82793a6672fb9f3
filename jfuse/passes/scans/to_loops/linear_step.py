"""Reads a step of a loop as h' = A h + b, where neither A nor b depends on the states: a linear recurrence.

A has an entry for each pair of states, and works element by element: one state with a decay, or the two parts of a
complex one. Entries and b are computed for all steps at once, before the loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import Shape
from jfuse.ir.graph import Const, Graph, Var
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import has_effects
from jfuse.kernels.core.op import draws
from jfuse.lowering.recover.algebra.linear import Factor, LinearRow, is_alike, linear_rows
from jfuse.lowering.recover.algebra.reshaped import reshaped
from jfuse.lowering.rule_tools.query import type_of
from jfuse.passes.rewrite import inline
from jfuse.passes.scans.fission.step_operands import LoopSteps
from jfuse.passes.scans.fission.vectorize import data_operands, vectorized
from jfuse.passes.scans.to_loops.loop_forms import Loop

_MOST_STATES = 4  # that need each other: the entries of A grow with their square, its products with their cube


@dataclass(frozen=True)
class StepValues:
    """A value of all steps, along axis 0."""

    value: Any


@dataclass(frozen=True)
class LinearLoop:
    """A loop that is a linear recurrence: a row for each state, and for each collected result a row or a new state.

    A value in them is `StepValues`, or the same in all steps. States are named by number.
    """

    states: Sequence[LinearRow]
    collected: Sequence[LinearRow | int]

    @property
    def is_sum(self) -> bool:
        """Whether each step only adds to one state."""
        if len(self.states) != 1:
            return False
        factors = self.states[0].factors
        return set(factors) == {0} and _is_one(factors[0]) and isinstance(self.states[0].rest, StepValues)


def linear_loop(loop: Loop) -> LinearLoop | None:
    """The loop as a linear recurrence, its factors recorded in the active trace for all steps; None where it is none.

    Nothing is recorded then, but for equations that nobody reads.
    """
    shape = loop.carries[0].type.shape if loop.carries else ()
    plain = all(c.type.dtype is DType.f32 and is_alike(c.type.shape, shape) for c in loop.carries)
    if not plain or not 0 < len(loop.carries) <= _MOST_STATES:
        return None
    if any(has_effects(b) for b in loop.eqn.bodies) or draws(loop.eqn):
        return None
    rows: list[LinearRow] = []
    body, inputs = loop.body, loop.body.inputs
    first, last = len(loop.consts), len(loop.consts) + len(loop.carries)
    free = (*inputs[:first], *inputs[last:])

    constants = {v: a.array for v, a in zip(inputs, loop.consts, strict=False) if isinstance(a, Const)}

    def factors(*args: Any) -> list[Any]:
        found = linear_rows(body.outputs, body, inputs[first:last], {**dict(zip(free, args, strict=True)), **constants})
        if found is None:
            raise _NotLinear
        rows[:] = found
        wide = {id(v): reshaped(v, _wide(v, len(shape))) for v in _values(found)}  # a value that is read twice is one
        return [wide[id(v)] for v in _values(found)]

    try:
        graph = trace_graph(factors, [Var(v.type, value=v.value) for v in free], "factors")
        values = iter(_of_all_steps(graph, loop))
    except (JfuseError, _NotLinear):
        return None
    linear = [
        LinearRow(
            {i: Factor(next(values), f.negative) for i, f in row.factors.items()},
            None if row.rest is None else next(values),
        )
        for row in rows
    ]
    if not all(row.factors or row.rest is not None for row in linear):
        return None
    outputs, count = body.outputs, len(loop.carries)
    news = [outputs.index(atom) for atom in outputs[count:]]
    return LinearLoop(linear[:count], [i if i < count else linear[i] for i in news])


class _NotLinear(Exception):
    """Ends the reading of a step that is not linear."""


def _wide(value: Any, rank: int) -> Shape:
    shape = tuple(type_of(value).shape)
    return (1,) * (rank - len(shape)) + shape


def _values(rows: Sequence[LinearRow]) -> list[Any]:
    """The values of rows in their order."""
    return [v for row in rows for v in (*(f.value for f in row.factors.values()), row.rest) if v is not None]


def _is_one(factor: Factor) -> bool:
    value = factor.value.array if isinstance(factor.value, Const) else factor.value
    return not factor.negative and isinstance(value, np.ndarray) and bool((value == 1).all())


# All steps at once


def _of_all_steps(graph: Graph, loop: Loop) -> list[Any]:
    """The results of a graph of constants and step inputs, for all steps where these differ from step to step."""
    stepped = dict(zip(graph.inputs[len(loop.consts) :], loop.xs, strict=True))
    known: dict[Var, Any] = {**dict(zip(graph.inputs, loop.consts, strict=False)), **stepped}
    moving = set(stepped)
    steps = LoopSteps(loop.length, tuple(a for a in loop.eqn.inputs if isinstance(a, Var)))
    for eqn in graph.eqns:
        places = frozenset(i for i, atom in data_operands(eqn).items() if atom in moving)
        if not places:
            read = tuple(v for v in dict.fromkeys(eqn.inputs) if isinstance(v, Var))
            results: Any = inline(Graph("one", read, (eqn,), eqn.outputs), [as_atom(known[v]) for v in read])
        else:
            results = vectorized(eqn, [known[a] if isinstance(a, Var) else a for a in eqn.inputs], places, steps)
            moving.update(eqn.outputs)
        if results is None:
            raise _NotLinear
        known.update(zip(eqn.outputs, results, strict=True))
    return [StepValues(known[a]) if a in moving else known[a] if isinstance(a, Var) else a for a in graph.outputs]
