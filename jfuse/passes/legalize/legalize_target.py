"""Operators that the target lacks, in other spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import at_source, recording
from jfuse.ir.walk import with_bodies
from jfuse.lowering.spellings import Spelling, spellings_of
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.quantization.recipe import Recipe
from jfuse.tflite.names import equation_name
from jfuse.tflite.targets.target import Target

_ROUNDS = 4  # of spellings that need others in turn


def legalize_target(graph: Graph, ctx: Context) -> Graph:
    """Spell, in bodies too, the operators that the target does not take, or would run on its CPU.

    An operator without a spelling that the target takes stays, and the gate after this pass reports it.
    """
    for _ in range(_ROUNDS):
        changed = _legalized(graph, ctx.target, ctx.recipe)
        if changed is graph:
            break
        graph = eliminate_dead_code(changed)
    return graph


def _legalized(graph: Graph, target: Target, recipe: Recipe | None) -> Graph:
    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.effects or target.why_another_form(eqn) is None:
            return None
        spelling = _spelling_for(eqn, target, recipe)
        return None if spelling is None else spelling(eqn)

    return rewrite(with_bodies(graph, lambda body: _legalized(body, target, recipe)), visit)


def _spelling_for(eqn: Eqn, target: Target, recipe: Recipe | None) -> Spelling | None:
    """The spelling that the target takes best.

    The first spelling whose operators all run there, and not on its CPU. Where the equation itself does not run: one
    that runs, if only on the CPU, or one whose operators have spellings in turn. If the recipe asks for integers,
    integer spellings come first.
    """
    rule = None if recipe is None else recipe.rule_for(equation_name(eqn), str(eqn.op.builtin))
    in_integers = rule is not None and rule.mode == "integer"
    spellings = spellings_of(eqn.op, "integers", "target") if in_integers else spellings_of(eqn.op, "target")
    made = [(spelling, eqns) for spelling in spellings if (eqns := _made_by(spelling, eqn))]
    best = next((s for s, eqns in made if all(target.why_another_form(e) is None for e in eqns)), None)
    if best is not None or target.why_not(eqn) is None:
        return best
    best = next((s for s, eqns in made if all(target.why_not(e) is None for e in eqns)), None)
    return best or next((s for s, eqns in made if all(_may_run(e, eqn, target) for e in eqns)), None)


def _may_run(eqn: Eqn, instead_of: Eqn, target: Target) -> bool:
    other = eqn.op is not instead_of.op and bool(spellings_of(eqn.op, "target"))
    return other or target.why_not(eqn) is None


def _made_by(spelling: Spelling, eqn: Eqn) -> Sequence[Eqn]:
    """The equations of a spelling; none where it does not apply."""
    with recording() as trace, at_source(eqn.source):
        try:
            results = spelling(eqn)
        except JfuseError:  # as of types that an op of the spelling does not take
            return ()
    return () if results is None else trace.eqns
