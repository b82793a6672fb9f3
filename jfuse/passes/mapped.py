"""`Graph.map`: equations replaced by what a function makes of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jfuse.ir.graph import Eqn, Graph, body_of
from jfuse.ir.walk import with_bodies
from jfuse.passes.rewrite import rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code


@body_of("Graph.map")
def mapped(graph: Graph, change: Callable[[Eqn], Any]) -> Graph:
    """The graph with each equation kept or replaced, bodies first; the same object where none is replaced."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        results = change(eqn)
        return results if results is None or isinstance(results, tuple) else (results,)

    inner = with_bodies(graph, lambda body: mapped(body, change))
    changed = rewrite(inner, visit)
    return changed if changed is inner else eliminate_dead_code(changed)
