"""Spells operators without an integer kernel in others that have one, before ranges are calibrated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

from jfuse.ir.graph import Eqn, Graph, Signature
from jfuse.ir.states import places
from jfuse.ir.walk import with_bodies
from jfuse.lowering.peephole.arithmetic.affine import affine_before_product
from jfuse.lowering.spellings.registry import Case, spellings_of
from jfuse.lowering.spellings.registry import respelled as spelled_alone
from jfuse.opaque_ops.state_operands import state_operands
from jfuse.passes.context import Context
from jfuse.passes.quantize.forms import rule_of, why_not_integer
from jfuse.passes.rewrite import Rewriting, rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.tflite.targets.target import Target

_FEWEST = 1024
"""Results of fewer elements (20 us in a slow kernel of LiteRT 2.3.0) are not worth the operators and their bytes."""


def respelled(signature: Signature, recipe: Recipe, ctx: Context) -> Signature:
    """The signature with its graph respelled, long recurrences as loops.

    States whose operator is gone are no longer in its state tensor.
    """
    small = ctx.forms.prefer == "size"
    graph = respell(signature.graph, recipe, ctx.target, small=small)
    # What was one operator has no form of a loop to keep.
    looped = ctx.sub.in_loops(graph, replace(ctx, whiles=None))
    # Operators that loops are made with may have no integers either, as zeros of an open size.
    new = replace(signature, graph=graph if looped is graph else respell(looped, recipe, ctx.target, small=small))
    return in_graph(signature, new.graph)


def in_graph(signature: Signature, graph: Graph) -> Signature:
    """The signature with another graph; states whose operator is gone are no longer in its state tensor."""
    new = replace(signature, graph=graph)
    without = _in_operators(signature) - _in_operators(new)
    states = (replace(s, home="variable") if s.name in without else s for s in signature.states)
    return replace(new, states=tuple(states))


def _in_operators(signature: Signature) -> set[str]:
    """The states that operators update in place."""
    updated = {eqn.inputs[i] for eqn in signature.graph.eqns for i in state_operands(eqn)}
    return {p.state.name for p in places(signature) if signature.graph.inputs[p.input] in updated}


def respell(graph: Graph, recipe: Recipe, target: Target, *, small: bool = False) -> Graph:
    """Spell operators that the recipe wants in integers in others that compute in them, bodies included.

    small: recurrences are loops however few steps they have.
    """

    def spelled(graph: Graph, *cases: Case) -> Graph:
        """By the spellings of the first case that has any for an operator."""

        def visit(eqn: Eqn) -> Sequence[Any] | None:
            case = next((case for case in cases if spellings_of(eqn.op, case)), None)
            rule = rule_of(eqn, recipe)
            if case is None or rule.mode != "integer":
                return None
            lacks = why_not_integer(eqn, rule, target)
            is_slow = case == "faster" and lacks is None and _is_slow(eqn, rule)
            return spelled_alone(eqn, case) if lacks or is_slow else None

        return rewrite(graph, visit)

    before = with_bodies(graph, lambda body: respell(body, recipe, target, small=small))
    has_loops = target.has("WHILE")
    first: tuple[Case, ...] = ("loop", "integers") if small and has_loops else ("integers",)
    changed = spelled(spelled(before, *first), *first)  # the ops of a spelling may have spellings, too
    changed = changed if len(first) == 1 else spelled(changed, "integers")
    if target.has_xnnpack and not recipe.int8_only:
        changed = spelled(spelled(changed, "faster"), "faster")
    changed = before if changed is before else _scales_in_weights(changed, recipe)
    changed = spelled(changed, "loop") if has_loops else changed
    return spelled(spelled(changed, "coarse"), "refined") if recipe.int8_only else changed


def _is_slow(eqn: Eqn, rule: QuantizeRule) -> bool:
    """Whether a kernel of 8 bits that goes from number to number takes longer than several operators."""
    count = prod(d for d in eqn.outputs[0].type.shape if isinstance(d, int))
    return rule.activation_bits == 8 and not rule.symmetric and count >= _FEWEST


def _scales_in_weights(graph: Graph, recipe: Recipe) -> Graph:
    """Move constant factors before a product, which spellings such as that of HARD_SWISH make, into its weights."""
    rewriting = Rewriting(graph, lambda eqn: rule_of(eqn, recipe).mode == "integer")

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        found = affine_before_product(eqn, rewriting) if eqn.op in affine_before_product.ops else None
        return None if found is None else [found]

    changed = rewriting.run(visit)
    return graph if changed is graph else eliminate_dead_code(changed)
