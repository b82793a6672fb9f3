"""Values of a program to watch."""

from __future__ import annotations

from jfuse.ir.graph import Program
from jfuse.ir.walk import all_graphs
from jfuse.quantization.statistics import Observed


def every_value(program: Program) -> list[Observed]:
    """All float values of all graphs, those of bodies included, and the parts of fused ops."""
    graphs = [inner for graph in program.graphs() for inner in all_graphs(graph)]
    variables = (v for g in graphs for v in (*g.inputs, *(out for eqn in g.eqns for out in eqn.outputs)))
    values = [Observed(var) for var in dict.fromkeys(variables) if var.type.dtype.is_float]
    return values + [Observed(e.outputs[0], part) for g in graphs for e in g.eqns for part in e.op.parts]


def result(program: Program, builtin: str, index: int = 0, part: str = "") -> Observed:
    """A result of the last equation of a builtin in the first graph."""
    eqn = [e for g in all_graphs(program.graphs()[0]) for e in g.eqns if e.op.builtin == builtin][-1]
    return Observed(eqn.outputs[index], part)
