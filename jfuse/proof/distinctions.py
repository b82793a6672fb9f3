"""Refuse differences that samples could miss: case distinctions and checks of indices that only one side makes."""

from __future__ import annotations

from collections.abc import Iterable

from jfuse.ir.graph import Graph
from jfuse.lowering.rule_tools.case_distinctions import families, place_of, run_time_switches
from jfuse.lowering.rules import need
from jfuse.proof.f32_steps import rounding_step
from jfuse.proof.ranges import integer_limits
from jfuse.proof.step_numbers import step_number_uses


def refuse_unexplained(body: Graph, replacement: Graph, claims: Iterable[str]) -> None:
    """Raise where the body tells cases apart, reads step numbers or rounds, and the replacement does not."""
    explained = families(replacement) | frozenset(claims)
    for family, eqn in run_time_switches(body):
        need(family in explained, "unexplained_switch", want=f"a fused op or claim for {family!r}", got=place_of(eqn))
    if next(step_number_uses(replacement), None) is None:
        use = next(step_number_uses(body), None)
        got = None if use is None else place_of(use)
        need(use is None, "step_number", want="steps that do not depend on their number", got=got)
    rounding = rounding_step(body)
    got = None if rounding is None else place_of(rounding)
    need(rounding is None, "rounds_in_f32", want="a step that computes in f32 as in real numbers", got=got)


def refuse_unchecked_indices(body: Graph, replacement: Graph) -> None:
    """Raise where the replacement looks up an index on which TFLite fails, and the body does not."""
    expected = integer_limits(body)
    limits = integer_limits(replacement)
    for ours, theirs in zip(body.inputs, replacement.inputs, strict=True):
        if theirs in limits:
            covered = ours in expected and expected[ours] <= limits[theirs]
            got = f"a lookup that fails from {limits[theirs]} on"
            need(covered, "ids_out_of_range", want="a result for every index, as the body gives", got=got)


def refuse_new_cases(body: Graph, replacement: Graph, claims: Iterable[str]) -> None:
    """Refuse a replacement, not proven, that distinguishes cases which the body does not.

    Clipped indices are allowed: the last counted step is max(count - 1, 0).
    """
    own = families(body) | frozenset(claims)
    for family, eqn in run_time_switches(replacement):
        is_index = family == "clip" and not eqn.outputs[0].type.dtype.is_float
        need(
            is_index or family in own,
            "unexplained_switch",
            want=f"no {family!r} that the body does not have",
            got=place_of(eqn),
        )
