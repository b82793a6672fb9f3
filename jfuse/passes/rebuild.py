"""Recording a graph anew while some of its equations are replaced; types and known values are derived again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.trace import active_trace, at_source, is_tracing, recording

Replace = Callable[[Eqn, Sequence[Any]], Sequence[Any] | None]
"""Called with an equation and its new operands (Vars, arrays, None); its results, or None to keep the equation."""


def rebuild(graph: Graph, replace: Replace) -> Graph:
    """The graph with `replace` applied to each equation in order. Names, inputs, results and their order stay."""
    with recording(nested=is_tracing()) as trace:
        env: dict[Var, Any] = {v: Var(v.type, v.name, v.value) for v in graph.inputs}
        inputs = [env[v] for v in graph.inputs]

        def read(atom: Any) -> Any:
            return env[atom] if isinstance(atom, Var) else None if atom is None else atom.array

        for eqn in graph.eqns:
            operands = [read(a) for a in eqn.inputs]
            with at_source(eqn.source):
                results = replace(eqn, operands)
                if results is None:
                    results = keep(eqn, operands)
            env.update(zip(eqn.outputs, results, strict=True))
        return trace.finish(graph.name, inputs, [read(a) for a in graph.outputs])


def keep(eqn: Eqn, operands: Sequence[Any]) -> Sequence[Any]:
    """The equation recorded as it is, on other operands; computed where all of them are constants."""
    trace = active_trace()
    before = len(trace.eqns)
    results = eqn.op.run(operands, eqn.params, eqn.bodies)
    if len(trace.eqns) == before + 1 and eqn.effects:
        trace.eqns[-1] = Eqn(
            eqn.op, trace.eqns[-1].inputs, trace.eqns[-1].outputs, eqn.params, eqn.source, eqn.bodies, eqn.effects
        )
    return results
