"""Fused recurrences that may not stand in the file, step by step: in the cell that the target has, or in plain ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import recording
from jfuse.ir.walk import all_eqns, with_bodies
from jfuse.lowering.spellings import respelled, spellings_of
from jfuse.lowering.spellings.recurrences import in_plain_steps
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite
from jfuse.tflite.names import equation_name

_IN_FLOATS = frozenset({"float", "float16"})
"""Modes in which the weights of a cell stay floats, whole ones or halves: the basic kernel takes no others."""

_ROUNDS = 3  # both directions, then each of them, then what is left of a single step


def step_by_step(graph: Graph, ctx: Context) -> Graph:
    """Promise that no fused recurrence is left that the target lacks and that has another form, in bodies too.

    `fuse` makes none; files, and rules of users, hold some.
    """
    graph = with_bodies(graph, lambda body: step_by_step(body, ctx))

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        is_lacking = keeps_state(eqn) and why_no_state_tensor(eqn, ctx) is not None
        return in_plain_steps(eqn) if is_lacking else None

    for _ in range(_ROUNDS):
        changed = rewrite(in_cells_of_target(graph, ctx), visit)
        if changed is graph:
            break
        graph = ctx.sub.last_steps(changed)
    return graph


def in_cells_of_target(graph: Graph, ctx: Context) -> Graph:
    """The graph with each fused recurrence that may not stand there in basic cells, where the target has these."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        is_lacking = keeps_state(eqn) and why_no_state_tensor(eqn, ctx) is not None
        return respelled(eqn, "cells") if is_lacking and _has_cells(eqn, ctx) else None

    changed = rewrite(graph, visit)
    return graph if changed is graph else ctx.sub.last_steps(changed)


def why_no_state_tensor(eqn: Eqn, ctx: Context) -> str | None:
    """Explain why an op with states cannot be in the file; None where it can, or another spelling keeps its states."""
    if ctx.forms.mode == "io":
        return f"{eqn.op.builtin}, whose states are in variable tensors"
    is_spelled = not ctx.target.compiled_model and spellings_of(eqn.op, "target")
    return None if is_spelled else ctx.target.why_another_form(eqn)


def _has_cells(eqn: Eqn, ctx: Context) -> bool:
    """Whether an equation can be basic cells that the target takes, in the numbers that the recipe wants.

    Where the input gate is 1 minus the forget gate a basic cell multiplies once more for it: a third more than plain
    operators, so such an LSTM is in cells on a GPU alone, where a cell is one operation.
    """
    if ctx.recipe is not None and ctx.recipe.rule_for(equation_name(eqn), str(eqn.op.builtin)).mode not in _IN_FLOATS:
        return False
    with recording() as trace:
        if respelled(eqn, "cells") is None:
            return False
    cells = [e for e in all_eqns(Graph("cells", (), tuple(trace.eqns), ())) if e.op.overwrites]
    on_gpu = ctx.target.accelerator is not None and all(ctx.target.why_on_cpu(e) is None for e in cells)
    return (on_gpu or not _is_coupled(eqn)) and all(ctx.target.why_not(e) is None for e in cells)


def _is_coupled(eqn: Eqn) -> bool:
    """Whether an LSTM has no weights for its input gate, which is 1 minus the forget gate."""
    return eqn.op.operand_at(1).name == "input_to_input_weights" and eqn.inputs[1] is None
