"""Finds the equation of a graph that is to blame where two runs of it differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from jfuse.base.measure import relative_error
from jfuse.ir.evaluate import sizes_of
from jfuse.ir.graph import Graph, Var
from jfuse.ir.walk import producers
from jfuse.kernels.control import scan_parts
from jfuse.verification.locate.local_errors import LocalStep, Walk, is_same, value_of
from jfuse.verification.locate.rounding import rounding_of


@dataclass(frozen=True)
class Culprit:
    """An equation with an error of its own.

    path: its place, as `EquationError` has it. steps: the step of each loop around it, outermost first, from 0.
    first: the first of several equations, of which this is the last, if any of them may err.
    """

    walk: Walk
    step: LocalStep
    path: tuple[int, ...]
    steps: tuple[int, ...] = ()
    first: int | None = None


_SHAPES_ALONE = frozenset({"reshape", "squeeze", "expand_dims"})
_TURNS = 1000  # of one loop that are looked into


def blamed(walk: Walk) -> Culprit | None:
    """The first equation on the way to a result that differs, which makes an error of its own beyond rounding."""
    leading = _leading(walk)
    relevant = [_relevant(step, leading) for step in walk.steps]
    suspects = frozenset[int]().union(*(step.since for step in relevant if step.exceeds))
    for position, (whole, step) in enumerate(zip(walk.steps, relevant, strict=True)):
        inside = _inside(walk, whole) if step.eqn.bodies and step.number in suspects else None
        if isinstance(inside, Culprit):
            return replace(inside, path=(step.number, *inside.path))
        if inside is _CLEARED or not step.exceeds or walk.is_rounding(step):
            continue
        last, since = step, step.since
        if not _is_sure(walk, step):
            last = _confirming(walk, position, leading)
            since |= last.since
        elif not walk.known.certain:
            last, since = narrowed(walk, step)
        last, first = _without_moves(walk, last, since)
        return Culprit(walk, last, (last.number,), (), first)
    return None


def _without_moves(walk: Walk, last: LocalStep, since: frozenset[int]) -> tuple[LocalStep, int | None]:
    """The last and the first equation of several that may err: those that only name a shape anew do not."""
    left = sorted(n for n in since if walk.graph.eqns[n].op.name not in _SHAPES_ALONE) or [last.number]
    if left[-1] != last.number:
        step, (wanted,) = walk.steps[left[-1]], last.wanted
        found = step.found[0]
        if found is not None and wanted is not None and len(step.found) == 1 and found.size == wanted.size:
            step = replace(step, wanted=(wanted.reshape(found.shape),))
        last = replace(step, own=last.own)
    return last, left[0] if len(left) > 1 else None


def _leading(walk: Walk) -> set[Var]:
    """The values that differ, and that lead to a result through values that do."""
    made = producers(walk.graph)
    reached = {a for a in walk.graph.outputs if isinstance(a, Var) and differs(walk, a)}
    left = list(reached)
    while left:
        eqn = made.get(left.pop())
        before = () if eqn is None else eqn.inputs
        fresh = {a for a in before if isinstance(a, Var) and a not in reached and differs(walk, a)}
        reached |= fresh
        left += fresh
    return reached


def _relevant(step: LocalStep, leading: set[Var]) -> LocalStep:
    """The step with those results alone that lead to a result which differs."""
    leading_results = tuple(w if v in leading else None for v, w in zip(step.eqn.outputs, step.wanted, strict=True))
    relevant = replace(step, wanted=leading_results)
    return replace(relevant, own=relevant.largest)


def differs(walk: Walk, atom: Var) -> bool:
    """Whether a value is not the same on both sides, or not known on one."""
    mine = walk.straight.get(atom)
    return mine is None or not walk.is_known(atom) or not is_same(mine, walk.other.get(atom))


def _is_sure(walk: Walk, step: LocalStep) -> bool:
    return walk.known.certain or step.confirmed or any(var in walk.graph.outputs for var in step.eqn.outputs)


def _confirming(walk: Walk, position: int, leading: set[Var]) -> LocalStep:
    """The last of the equations from a step on that may be the culprit: the next one whose known value is sure."""
    tainted = set(walk.steps[position].eqn.outputs)
    last = walk.steps[position]
    for step in (_relevant(s, leading) for s in walk.steps[position + 1 :]):
        if not tainted & {a for a in step.eqn.inputs if a is not None}:
            continue
        tainted.update(step.eqn.outputs)
        if step.exceeds:
            last = step
            if _is_sure(walk, step):
                break
    return last


class _CleanBodies:
    """Bodies that together reproduce the other side's result of the equation, and none of which errs."""


_CLEARED = _CleanBodies()


def _inside(walk: Walk, step: LocalStep) -> Culprit | _CleanBodies | None:
    """Search the bodies of an equation, run on the other side's operands; None if no value inside is known."""
    operands = [v for v in step.operands if v is not None]
    if len(operands) < len(step.operands) or step.eqn.op.name not in _ENTER:
        return None
    with sizes_of(walk.other):
        return next(_ENTER[step.eqn.op.name](walk, step, operands), None)


def _loop(walk: Walk, step: LocalStep, carried: Sequence[np.ndarray]) -> Iterator[Culprit | _CleanBodies]:
    for turn in range(_TURNS):
        condition = _enter(walk, step, 0, turn, carried)
        if condition is None:
            return
        yield from _found(condition, 0, (turn,))
        flag = value_of(condition.graph.outputs[0], condition.other)
        if flag is None or not flag.reshape(()):
            yield from _cleared(walk, step, carried)
            return
        body = _enter(walk, step, 1, turn, carried)
        if body is None:
            return
        yield from _found(body, 1, (turn,))
        results = _results(body)
        if results is None:
            return
        carried = results


def _scan(walk: Walk, step: LocalStep, operands: Sequence[np.ndarray]) -> Iterator[Culprit | _CleanBodies]:
    consts, carried, xs = scan_parts(operands, step.eqn.params)
    count = len(xs[0]) if xs else 0
    for turn in range(min(count, _TURNS)):
        at = count - 1 - turn if step.eqn.params["reverse"] else turn
        body = _enter(walk, step, 0, turn, [*consts, *carried, *(x[at] for x in xs)])
        if body is None:
            return
        yield from _found(body, 0, (turn,))
        results = _results(body)
        if results is None:
            return
        carried = results[: len(carried)]


def _branch(walk: Walk, step: LocalStep, operands: Sequence[np.ndarray]) -> Iterator[Culprit | _CleanBodies]:
    flag, *values = operands
    yield from _once(walk, step, 0 if flag.reshape(()) else 1, values)


def _function(walk: Walk, step: LocalStep, operands: Sequence[np.ndarray]) -> Iterator[Culprit | _CleanBodies]:
    yield from _once(walk, step, 0, operands)


def _once(walk: Walk, step: LocalStep, number: int, operands: Sequence[np.ndarray]) -> Iterator[Culprit | _CleanBodies]:
    body = _enter(walk, step, number, 0, operands)
    if body is not None:
        yield from _found(body, number)
        yield from _cleared(walk, step, _results(body) or ())


def _cleared(walk: Walk, step: LocalStep, results: Sequence[np.ndarray]) -> Iterator[_CleanBodies]:
    same = len(results) == len(step.wanted) and all(map(is_same, results, step.wanted))
    if walk.known.certain and same:
        yield _CLEARED


_ENTER = {"while": _loop, "scan": _scan, "if": _branch, "composite": _function}


def _enter(walk: Walk, step: LocalStep, body: int, turn: int, operands: Sequence[np.ndarray]) -> Walk | None:
    inner_values = walk.known.enter(walk, step, body, turn, operands)
    return None if inner_values is None else Walk(step.eqn.bodies[body], operands, operands, inner_values).run()


def _found(inner: Walk, body: int, steps: tuple[int, ...] = ()) -> Iterator[Culprit]:
    culprit = blamed(inner)
    if culprit is not None:
        yield replace(culprit, path=(body, *culprit.path), steps=(*steps, *culprit.steps))


def _results(inner: Walk) -> list[np.ndarray] | None:
    """The other side's results, if it has them."""
    results = [value_of(atom, inner.other) for atom in inner.graph.outputs]
    arrays = [r for r in results if r is not None]
    return arrays if len(arrays) == len(results) else None


# Finds which of several equations errs where the other side gives only the value after the last of them.

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
