"""Recurrences that rules build: one step as a graph, over the rows of sequences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from jfuse.ir.graph import Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import type_of

Step = Callable[[Sequence[Any], Sequence[Array], Sequence[Array]], Sequence[Array]]


def scanned(
    step: Step, weights: Sequence[Any], states: Sequence[Array], rows: Sequence[Array], *, reverse: bool = False
) -> tuple[Any, ...]:
    """The states after the last step, and what the steps give, stacked.

    step: (weights, the states before, a row of each sequence) -> the states after, then what the step gives. Weights
    that are computed are constants of the scan; the others, None among them, are known in the step.
    rows: n[t, ...] each.
    """
    computed = [i for i, w in enumerate(weights) if isinstance(w, Var)]

    def body(*variables: Array) -> tuple[Array, ...]:
        held = list(weights)
        for place, variable in zip(computed, variables, strict=False):
            held[place] = variable
        step_args = variables[len(computed) :]
        return tuple(step(held, step_args[: len(states)], step_args[len(states) :]))

    consts = [weights[i] for i in computed]
    types = [*map(type_of, [*consts, *states]), *(TensorType(type_of(r).shape[1:], type_of(r).dtype) for r in rows)]
    graph = trace_graph(body, types, name="step")
    operands = [*consts, *states, *rows]
    return tuple(
        scan(operands, (graph,), consts=len(consts), carries=len(states), length=rows[0].shape[0], reverse=reverse)
    )
