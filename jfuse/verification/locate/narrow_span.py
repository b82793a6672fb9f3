"""Finds which of several equations errs where the other side gives only the value after the last of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfuse.base.measure import relative_error
from jfuse.ir.graph import Graph, Var
from jfuse.verification.locate.local_errors import LocalStep, Walk
from jfuse.verification.locate.rounding import rounding_of

_TRIED = 400  # values put in place of results within one run of equations


def narrowed(walk: Walk, step: LocalStep) -> tuple[LocalStep, frozenset[int]]:
    """The fewest of the equations that a step's results follow from that err: the last one, and the numbers of all.

    A value of the other side is a result within the span if the equations after it compute from it what the step should
    give.
    """
    since = set(step.since)
    tried = 0
    for number in sorted(since - {step.number}, reverse=True):
        for position, var in enumerate(walk.graph.eqns[number].outputs):
            after = frozenset(_between(walk.graph, since, var))
            now = walk.other.get(var)
            if now is None or step.number not in after:
                continue
            for value in walk.known.candidates(walk.graph.eqns[number], now.shape, now.dtype):
                tried += 1
                if tried > _TRIED:
                    return step, step.since
                if not _gives(walk, step, after, var, value):
                    continue
                if relative_error(now, value) <= rounding_of(value.dtype):
                    return step, after  # right up to here: the error comes after
                before = frozenset(since & _leading_to(walk.graph, since, number))
                return narrowed(walk, _known(walk.steps[number], position, value, before))
    return step, step.since


def _known(step: LocalStep, position: int, value: np.ndarray, since: frozenset[int]) -> LocalStep:
    """The step with a result that is known after all."""
    results = tuple(value if i == position else None for i in range(len(step.wanted)))
    narrowed_step = replace(step, wanted=results, since=since, confirmed=True)
    return replace(narrowed_step, own=narrowed_step.largest)


def _gives(walk: Walk, step: LocalStep, after: frozenset[int], var: Var, value: np.ndarray) -> bool:
    results = walk.again(after, {var: value})
    pairs = [(results[v], w) for v, w in zip(step.eqn.outputs, step.wanted, strict=True) if w is not None]
    return all(r is not None and relative_error(r, w) <= 4 * rounding_of(w.dtype) for r, w in pairs)


def _between(graph: Graph, since: set[int], var: Var) -> set[int]:
    """The equations of a span that depend on a value."""
    tainted, numbers = {var}, set()
    for number in sorted(since):
        eqn = graph.eqns[number]
        if any(isinstance(a, Var) and a in tainted for a in eqn.inputs):
            numbers.add(number)
            tainted.update(eqn.outputs)
    return numbers


def _leading_to(graph: Graph, since: set[int], last: int) -> set[int]:
    """The equations of a span that one of them depends on, itself included."""
    needed = {a for a in graph.eqns[last].inputs if isinstance(a, Var)}
    numbers = {last}
    for number in sorted((n for n in since if n < last), reverse=True):
        eqn = graph.eqns[number]
        if needed.intersection(eqn.outputs):
            numbers.add(number)
            needed.update(a for a in eqn.inputs if isinstance(a, Var))
    return numbers
