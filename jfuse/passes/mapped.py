"""`Graph.map`, and passes of patterns: equations replaced by what a function makes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jfuse.ir.graph import Eqn, Graph, body_of
from jfuse.ir.walk import with_bodies
from jfuse.lowering.peephole.view import GraphView
from jfuse.passes.rewrite import Rewriting
from jfuse.passes.simplify.dce import eliminate_dead_code


@body_of("Graph.map")
def mapped(graph: Graph, change: Callable[[Eqn], Any]) -> Graph:
    """The graph with each equation kept or replaced, bodies first; the same object where none is replaced."""
    return each_equation(graph, lambda eqn, view: change(eqn))


def each_equation(graph: Graph, change: Callable[[Eqn, GraphView], Any]) -> Graph:
    """As `mapped`, for a function that is also given the graph around the equation."""
    inner = with_bodies(graph, lambda body: each_equation(body, change))
    around = Rewriting(inner)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        results = change(eqn, around)
        return results if results is None or isinstance(results, tuple) else (results,)

    changed = around.run(visit)
    return changed if changed is inner else eliminate_dead_code(changed)
