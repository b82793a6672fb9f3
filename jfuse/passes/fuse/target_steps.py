"""Fused recurrences that a target lacks, step by step in the cell that it has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import recording
from jfuse.ir.walk import all_eqns
from jfuse.lowering.instead import spellings_of
from jfuse.lowering.instead.basic_cells import in_basic_cells
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.from_while.last_steps import last_steps
from jfuse.tflite.names import equation_name

_IN_FLOATS = frozenset({"float", "float16"})
"""Modes in which the weights of a cell stay floats, whole ones or halves: the basic kernel takes no others."""


def stepped_for_target(graph: Graph, ctx: Context) -> Graph:
    """The graph with each fused recurrence that the target lacks in basic cells, where it has these."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        is_lacking = keeps_state(eqn) and why_not_on_target(eqn, ctx) is not None
        return in_basic_cells(eqn) if is_lacking and _has_cells(eqn, ctx) else None

    changed = rewrite(graph, visit)
    return graph if changed is graph else last_steps(changed)


def why_not_on_target(eqn: Eqn, ctx: Context) -> str | None:
    """What keeps a fused op from the target, where it has no spelling in others."""
    return None if spellings_of(eqn.op.builtin) else ctx.target.why_another_form(eqn)


def _has_cells(eqn: Eqn, ctx: Context) -> bool:
    """Whether an equation can be basic cells that the target takes, in the numbers that the recipe wants."""
    if ctx.recipe is not None and ctx.recipe.rule_for(equation_name(eqn), str(eqn.op.builtin)).mode not in _IN_FLOATS:
        return False
    with recording() as trace:
        if in_basic_cells(eqn) is None:
            return False
    cells = [e for e in all_eqns(Graph("cells", (), tuple(trace.eqns), ())) if e.op.overwrites]
    return all(ctx.target.why_not(e) is None for e in cells)
