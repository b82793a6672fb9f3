"""Operators without a kernel of integers in others that have one, before ranges are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.walk import with_bodies
from jfuse.lowering.integer_spellings import SPELLINGS
from jfuse.passes.quantize.forms import rule_of, why_not_integer
from jfuse.passes.rewrite import rewrite
from jfuse.quantization.recipe import Recipe
from jfuse.tflite.targets.target import Target


def respell(graph: Graph, recipe: Recipe, target: Target) -> Graph:
    """The graph with what the recipe wants in integers spelled in operators that compute in them, bodies included."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        rule = rule_of(eqn, recipe)
        if rule.mode != "integer" or eqn.op not in SPELLINGS or not why_not_integer(eqn, rule, target):
            return None
        result = SPELLINGS[eqn.op](*(a.array if isinstance(a, Const) else a for a in eqn.inputs), **eqn.params)
        if result is None:
            return None
        return result if isinstance(result, tuple) else [result]

    changed = rewrite(with_bodies(graph, lambda body: respell(body, recipe, target)), visit)
    return rewrite(changed, visit)  # what an operator becomes may have a spelling, too
