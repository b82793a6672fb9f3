"""Recurrences that were trained with FAKE_QUANT in their step, as the recurrence without it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from jfuse.ir.graph import Atom, Const, Eqn, Program, Var
from jfuse.ir.walk import all_eqns, substitute
from jfuse.kernels.control import scan
from jfuse.tflite.runtime.table import quantized_of


def is_training_range(eqn: Eqn) -> bool:
    """Whether an equation does nothing but cut and round as an integer tensor would."""
    row = quantized_of(eqn.op).integers if eqn.op.is_kernel else None
    return row is not None and row.trained is not None


def has_trained_steps(program: Program) -> bool:
    """Whether a step of a recurrence holds ranges of training."""
    eqns = (eqn for graph in program.graphs() for eqn in all_eqns(graph))
    return any(is_training_range(inner) for e in eqns for body in e.bodies for inner in body.eqns)


def without_ranges(eqn: Eqn) -> tuple[Eqn, Mapping[int, Eqn]] | None:
    """A scan whose step computes without rounding, and what rounds each of its results; None where no step rounds.

    An operator that takes all steps has parameters for its operands and results, and its own for what is between.
    Constants are rounded.
    """
    if eqn.op is not scan or not any(map(is_training_range, eqn.bodies[0].eqns)):
        return None
    (body,) = eqn.bodies
    invariant = {body.inputs[i]: a for i in range(eqn.params["consts"]) if isinstance(a := eqn.inputs[i], Const)}
    passed: dict[Var, Atom] = {}
    rounding: dict[Var, Eqn] = {}
    eqns: list[Eqn] = []
    for each in body.eqns:
        each = substitute(each, passed)
        if not is_training_range(each):
            eqns.append(each)
            continue
        x = each.inputs[0]
        known = x if isinstance(x, Const) else invariant.get(x) if isinstance(x, Var) else None
        rounding[each.outputs[0]] = each
        assert x is not None, "an operand"
        passed[each.outputs[0]] = x if known is None else _rounded(each, known)
    outputs = tuple(passed.get(a, a) if isinstance(a, Var) else a for a in body.outputs)
    rounding_of = {i: rounding[a] for i, a in enumerate(body.outputs) if isinstance(a, Var) and a in rounding}
    results = tuple(Var(out.type) for out in eqn.outputs)
    return replace(eqn, outputs=results, bodies=(replace(body, eqns=tuple(eqns), outputs=outputs),)), rounding_of


def _rounded(eqn: Eqn, const: Const) -> Const:
    (array,) = eqn.op.run([const.array], eqn.params, ())
    return Const(array, const.name)


def rounded_results(results: Sequence[Any], rounding: Mapping[int, Eqn]) -> list[Any]:
    """The results of a scan, rounded as the steps did."""
    rounded = list(results)
    for i, eqn in rounding.items():
        (rounded[i],) = eqn.op.run([rounded[i]], eqn.params, ())
    return rounded
