"""Which regions of a graph a pass has changed, each as a pair of graphs that can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import live_eqns


def changed_regions(before: Graph, after: Graph) -> Iterator[tuple[Graph, Graph]]:
    """For each region that differs, what it was and what it is, as graphs of the same inputs with the same results.

    An equation is as it was where op, parameters, operands, results and bodies are the same objects. What equations
    that stayed give is an input of a region: equal for any such input is more than equal, so that nothing is missed.
    """
    old, new = _without(before, after), _without(after, before)
    made_old, made_new = ({v for e in eqns for v in e.outputs} for eqns in (old, new))
    read = {a for e in after.eqns if not any(e is other for other in new) for a in e.inputs}
    pairs: list[tuple[Atom, Atom]] = [(v, v) for v in made_old & made_new if v in read]
    pairs += [
        (a, b)
        for a, b in zip(before.outputs, after.outputs, strict=True)
        if not _is_same(a, b) or a in made_old or b in made_new
    ]
    for group in _connected(pairs, old, new):
        one, other = ([pair[side] for pair in group] for side in (0, 1))
        sides = [(live_eqns(_graph(before, old), one), one), (live_eqns(_graph(before, new), other), other)]
        inputs = tuple(dict.fromkeys(v for eqns, results in sides for v in _free(eqns, results)))
        a, b = (Graph(before.name, inputs, eqns, tuple(results)) for eqns, results in sides)
        yield a, b


def _graph(like: Graph, eqns: Sequence[Eqn]) -> Graph:
    return Graph(like.name, (), tuple(eqns), ())


def _without(graph: Graph, other: Graph) -> list[Eqn]:
    """The equations of a graph that another one does not have."""
    theirs = {_key(eqn) for eqn in other.eqns}
    return [eqn for eqn in graph.eqns if _key(eqn) not in theirs]


def _key(eqn: Eqn) -> Any:
    parts = (*eqn.inputs, "|", *eqn.outputs, "|", *eqn.bodies)
    params = sorted((k, v.tobytes() if isinstance(v, np.ndarray) else repr(v)) for k, v in eqn.params.items())
    return id(eqn.op), tuple(map(id, parts)), tuple(params), eqn.effects


def _is_same(a: Atom, b: Atom) -> bool:
    return a is b or (isinstance(a, Const) and isinstance(b, Const) and a.array is b.array)


def _free(eqns: Sequence[Eqn], results: Sequence[Atom]) -> list[Var]:
    """List variables that equations read, or return as results, without making them."""
    made = {v for e in eqns for v in e.outputs}
    return [a for a in (*(a for e in eqns for a in e.inputs), *results) if isinstance(a, Var) and a not in made]


def _connected(
    pairs: Sequence[tuple[Atom, Atom]], old: Sequence[Eqn], new: Sequence[Eqn]
) -> list[list[tuple[Atom, Atom]]]:
    """The pairs in groups that share no equation, so that each is compared by itself."""
    group: dict[int, int] = {}

    def root(item: int) -> int:
        while group.setdefault(item, item) != item:
            item = group[item]
        return item

    made = {id(v) for e in (*old, *new) for v in e.outputs}
    for eqn in (*old, *new):
        for atom in (*eqn.inputs, *eqn.outputs):
            if id(atom) in made:
                group[root(id(atom))] = root(id(eqn.outputs[0])) if eqn.outputs else root(id(atom))
    for a, b in pairs:
        group[root(id(a))] = root(id(b))
    groups: dict[int, list[tuple[Atom, Atom]]] = {}
    for pair in pairs:
        groups.setdefault(root(id(pair[0])), []).append(pair)
    return list(groups.values())
