"""The names of a file's results, which passes that make new operators forget."""

from __future__ import annotations

from dataclasses import replace

from jfuse.ir.graph import Graph, Program, Var
from jfuse.ir.states import distinct
from jfuse.ir.walk import substitute_graph


def with_result_names(program: Program, before: Program) -> Program:
    """The program in which the results of each signature are called as they were before."""
    graphs = {s.key: s.graph for s in before.signatures}
    names = {id(s.graph): graphs[s.key] for s in distinct(program) if s.key in graphs}
    return program.with_graphs(lambda graph: _renamed(graph, names[id(graph)]) if id(graph) in names else graph)


def _renamed(graph: Graph, before: Graph) -> Graph:
    """The graph with its results named as those of the other, where operators make them."""
    made = {v for eqn in graph.eqns for v in eqn.outputs}
    new_names = {
        new: replace(new, name=old.name)
        for old, new in zip(before.outputs, graph.outputs, strict=False)
        if isinstance(old, Var) and isinstance(new, Var) and new in made and old.name and new.name != old.name
    }
    if not new_names:
        return graph
    renamed = substitute_graph(graph, new_names)
    eqns = tuple(replace(eqn, outputs=tuple(new_names.get(v, v) for v in eqn.outputs)) for eqn in renamed.eqns)
    return replace(renamed, eqns=eqns)
