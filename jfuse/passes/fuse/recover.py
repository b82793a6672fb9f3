"""Finding composites that nobody marked: scans that compute a known recurrence become `composite` again."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from jfuse.base.errors import NotFused
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.walk import is_used, producers, with_new_bodies
from jfuse.kernels.control import composite, scan, scan_parts
from jfuse.lowering.recover.algebra.pointwise import Pointwise
from jfuse.lowering.recover.cells.canonical_step import normal_form
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.recover.masks.mask import blend_places, with_mask
from jfuse.lowering.recover.masks.settled import settled
from jfuse.lowering.rule_tools.broadcast_constants import Known, broadcast_constants, constant_of
from jfuse.lowering.rules import Proposal
from jfuse.passes.context import Context
from jfuse.passes.fuse.column_inputs import with_columns
from jfuse.passes.fuse.single_steps import recover_single_steps
from jfuse.passes.fuse.trained_steps import rounded_results, without_ranges
from jfuse.passes.rewrite import Rewriting, opened, rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.records.conversion import Refusal, Report

_LARGEST = 1 << 16  # elements of a constant that is looked at; paddings have one for each row and step


def recover(graph: Graph, ctx: Context, *, single_steps: bool = True) -> Graph:
    """Wrap each scan that a recover rule reads in a composite of its name, a proposal that `fuse` proves or undoes.

    In bodies of loops and branches too; the body of an annotated composite is left to the composite's own rule. Single
    steps, whose states are inputs and results of the graph, are loops of one step, where `single_steps` are wanted.
    """
    if not ctx.forms.recover:
        return graph
    graph = _recover(eliminate_dead_code(graph), ctx)
    if single_steps:
        graph = recover_single_steps(graph, lambda eqn: _read(eqn, ctx, one_step=True))
    return eliminate_dead_code(recover_activations(graph))


def recover_activations(graph: Graph) -> Graph:
    """The graph with activations that are spelled in arithmetic as one operator each, in bodies of loops too."""
    pointwise = Pointwise(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        activation = pointwise.visit(eqn)
        return None if activation is None else [activation]

    graph = rewrite(graph, visit)
    eqns = tuple(e if e.op is composite else with_new_bodies(e, recover_activations) for e in graph.eqns)
    return graph if all(map(operator.is_, eqns, graph.eqns)) else replace(graph, eqns=eqns)


def _recover(graph: Graph, ctx: Context) -> Graph:
    known = broadcast_constants(graph) if any(eqn.op is scan for eqn in graph.eqns) else {}

    made_by = producers(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not scan:
            return None
        results = _read_trained(eqn, ctx) or _read(with_columns(_decided(eqn, known), made_by), ctx)
        try:
            rewriting.need_fitting(eqn, results or ())
        except NotFused as refusal:
            ctx.report.refused.append(Refusal.of(refusal, "scan", "recover", eqn.source))
            return None
        return results

    rewriting = Rewriting(graph)
    graph = rewriting.run(visit)
    eqns = tuple(e if e.op is composite else with_new_bodies(e, lambda body: _recover(body, ctx)) for e in graph.eqns)
    return graph if all(map(operator.is_, eqns, graph.eqns)) else replace(graph, eqns=eqns)


def _decided(eqn: Eqn, known: Known) -> Eqn:
    """The scan for finite numbers without values that only decide choices, products and sums.

    They are sequences of one value, or constants that the step makes: paddings of zeros.
    """
    (body,) = eqn.bodies
    first = eqn.params["consts"] + eqn.params["carries"]
    values = {i: constant_of(a, known) for i, a in enumerate(eqn.inputs) if i >= first and a is not None}
    flat = {i: v.reshape(-1) for i, v in values.items() if v is not None and 0 < v.size <= _LARGEST}
    constants = {i: v[:1].reshape(()) for i, v in flat.items() if (v == v[0]).all()}
    step, _ = settled(body, {body.inputs[i]: value for i, value in constants.items()})
    left = [i for i in range(len(eqn.inputs)) if i not in constants or is_used(step, body.inputs[i])]
    step = replace(step, inputs=tuple(step.inputs[i] for i in left))
    return replace(eqn, inputs=tuple(eqn.inputs[i] for i in left), bodies=(step,))


def _read_trained(eqn: Eqn, ctx: Context) -> Sequence[Any] | None:
    """The same of a scan with ranges of training in its step, where these are to become parameters."""
    exact = without_ranges(eqn) if ctx.recipe is not None and ctx.recipe.needs_ranges else None
    results = None if exact is None else _read(exact[0], replace(ctx, report=Report()))
    return None if exact is None or results is None else rounded_results(results, exact[1])


def _read(eqn: Eqn, ctx: Context, *, one_step: bool = False) -> Sequence[Any] | None:
    """The results of the first recover rule's composite; None, with the nearest refusal reported, where none fits.

    one_step: the scan is only a way to look at straight code, which need not be a recurrence.
    """
    refusals: list[tuple[NotFused, str]] = []
    # A marked cell is read as what it computes: all of its steps together are worth more than each by itself.
    eqn = with_new_bodies(eqn, opened)
    (body,) = eqn.bodies
    _, carries, xs = scan_parts(body.inputs, eqn.params)
    normal, finish = normal_form(eqn, blend_places(body, carries, xs))
    step = Step(normal, one_step=one_step)
    for name, rule in ctx.rules.readers():
        try:
            proposal = rule(step)
            if step.mask is not None:
                proposal = with_mask(proposal, step.mask, step.body.inputs, step.carries)
        except NotFused as refusal:
            refusals.append((refusal, rule.name))
        else:
            own = {"one_step": True} if one_step else {}
            proposed = _composite(name, normal, replace(proposal, attributes={**proposal.attributes, **own}))
            active_trace().record(proposed)
            return finish(proposed.outputs)
    if refusals and not one_step:
        nearest, rule_name = max(refusals, key=lambda pair: pair[0].near)
        ctx.report.refused.append(Refusal.of(nearest, "scan", rule_name, eqn.source))
    return None


def _composite(name: str, eqn: Eqn, proposal: Proposal) -> Eqn:
    """The composite around a scan: its own operands, then the derived weights, which only the fusion rule reads."""
    named: dict[str, Atom] = {role: _operand(eqn, place) for role, place in proposal.operands.items()}
    by_place = {place: role for role, place in proposal.operands.items()}
    for i, atom in enumerate(eqn.inputs):
        if i not in by_place and isinstance(atom, Var):
            by_place[i] = f"operand_{i}"
            named[by_place[i]] = atom
    named |= {role: Const(array) for role, array in proposal.constants.items()}
    inputs = {role: Var(atom.type) for role, atom in named.items()}
    operands = tuple(inputs[by_place[i]] if i in by_place else a for i, a in enumerate(eqn.inputs))
    results = tuple(Var(out.type) for out in eqn.outputs)
    stepping = replace(eqn, inputs=operands, outputs=results)
    body = Graph("step", tuple(inputs.values()), (stepping,), results)
    params = {"name": name, "arguments": tuple(named), "attributes": tuple(proposal.attributes.items())}
    return Eqn(composite, tuple(named.values()), eqn.outputs, params, eqn.source, (body,))


def _operand(eqn: Eqn, place: int) -> Atom:
    atom = eqn.inputs[place]
    assert atom is not None, "a scan has no optional operands"
    return atom
