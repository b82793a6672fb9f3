"""`without_infinities`: the official converter's constants, where the largest float stands for an infinity."""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Graph, Program
from jfuse.ir.states import with_signatures
from jfuse.ir.walk import with_bodies


def without_infinities(program: Program) -> Program:
    """The program with the largest finite numbers in place of infinities in its constants, those of bodies too."""
    known: dict[Const, Const] = {}
    return with_signatures(program, lambda s: replace(s, graph=_bounded_graph(s.graph, known)))


def _bounded_graph(graph: Graph, known: MutableMapping[Const, Const]) -> Graph:
    graph = with_bodies(graph, lambda body: _bounded_graph(body, known))
    atoms: dict[Atom | None, Atom | None] = {
        a: _bounded(a, known)
        for a in (*(a for e in graph.eqns for a in e.inputs), *graph.outputs)
        if isinstance(a, Const) and a.array.dtype.kind == "f"
    }
    if all(a is b for a, b in atoms.items()):
        return graph
    eqns = tuple(replace(e, inputs=tuple(atoms.get(a, a) for a in e.inputs)) for e in graph.eqns)
    return replace(
        graph, eqns=eqns, outputs=tuple(known.get(a, a) if isinstance(a, Const) else a for a in graph.outputs)
    )


def _bounded(const: Const, known: MutableMapping[Const, Const]) -> Const:
    if const not in known:
        infinite = np.isinf(const.array)
        limit = np.finfo(const.array.dtype).max
        known[const] = replace(const, array=np.clip(const.array, -limit, limit)) if infinite.any() else const
    return known[const]
