"""Which equations of two graphs are counterparts, in linear time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from jfuse.ir.graph import Eqn

Pairs = list[tuple[Eqn, Eqn]]


def matched(a: Sequence[Eqn], b: Sequence[Eqn]) -> tuple[Pairs, list[Eqn], list[Eqn]]:
    """The pairs in the order of A, then the unmatched equations of each.

    Two equations of one op are counterparts where they have the same source and name; of those that are left, where
    types and options are the same; of those again, in their order. With several of one kind the first goes with the
    first. Equations of different ops are never counterparts.
    """
    partner: dict[int, Eqn] = {}
    left_a, left_b = list(a), list(b)
    for key in (_by_name, _by_form, _by_op):
        left_a, left_b = _round(left_a, left_b, key, partner)
    return [(eqn, partner[id(eqn)]) for eqn in a if id(eqn) in partner], left_a, left_b


def _round(
    a: Sequence[Eqn], b: Sequence[Eqn], key: Callable[[Eqn], Hashable], partner: dict[int, Eqn]
) -> tuple[list[Eqn], list[Eqn]]:
    waiting: dict[Hashable, list[Eqn]] = defaultdict(list)
    for eqn in reversed(b):
        waiting[key(eqn)].append(eqn)
    taken = set()
    for eqn in a:
        if others := waiting.get(key(eqn)):
            partner[id(eqn)] = other = others.pop()
            taken.add(id(other))
    return [eqn for eqn in a if id(eqn) not in partner], [eqn for eqn in b if id(eqn) not in taken]


def _by_name(eqn: Eqn) -> Hashable:
    source = "/".join((*eqn.source.stack, eqn.source.node))
    return eqn.op.name, source, tuple(v.name for v in eqn.outputs)


def _by_form(eqn: Eqn) -> Hashable:
    types = [*(None if atom is None else str(atom.type) for atom in eqn.inputs), *(str(v.type) for v in eqn.outputs)]
    return eqn.op.name, tuple(types), str(sorted((k, str(v)) for k, v in eqn.params.items()))


def _by_op(eqn: Eqn) -> Hashable:
    return eqn.op.name
