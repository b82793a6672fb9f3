"""Finding composites that nobody marked: scans that compute a known recurrence become `composite` again."""

from __future__ import annotations

from dataclasses import replace

from jfuse.errors import NotFused
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.kernels.control import composite, scan
from jfuse.lowering.recover.step import Step
from jfuse.lowering.rules import Proposal
from jfuse.passes.context import Context
from jfuse.passes.drop import drop_dead
from jfuse.report import Refusal


def recover(graph: Graph, ctx: Context) -> Graph:
    """Wrap each scan that a recover rule reads in a composite of its name, a proposal that `fuse` proves or undoes.

    In bodies of loops and branches too; the body of an annotated composite is left to the composite's own rule.
    """
    return _recover(drop_dead(graph), ctx) if ctx.recover else graph


def _recover(graph: Graph, ctx: Context) -> Graph:
    eqns = tuple(_visit(eqn, ctx) for eqn in graph.eqns)
    return replace(graph, eqns=eqns)


def _visit(eqn: Eqn, ctx: Context) -> Eqn:
    if eqn.op is composite:
        return eqn
    if eqn.op is not scan:
        return _with_bodies(eqn, ctx)
    found = _read(eqn, ctx)
    return _with_bodies(eqn, ctx) if found is None else found


def _read(eqn: Eqn, ctx: Context) -> Eqn | None:
    """The composite of the first recover rule that reads the scan; None, with the nearest refusal reported."""
    refusals: list[tuple[NotFused, str]] = []
    step = Step(eqn)
    for name, rule in ctx.rules.recovers.items():
        try:
            return _composite(name, eqn, rule(step))
        except NotFused as refusal:
            refusals.append((refusal, rule.name))
    if refusals:
        nearest, rule_name = max(refusals, key=lambda pair: pair[0].near)
        ctx.report.refused.append(Refusal.of(nearest, "scan", rule_name, eqn.source))
    return None


def _with_bodies(eqn: Eqn, ctx: Context) -> Eqn:
    return replace(eqn, bodies=tuple(_recover(body, ctx) for body in eqn.bodies)) if eqn.bodies else eqn


def _composite(name: str, eqn: Eqn, found: Proposal) -> Eqn:
    """The composite around a scan: its own operands, then the derived weights, which only the fusion rule reads."""
    named: dict[str, Atom] = {role: _operand(eqn, place) for role, place in found.operands.items()}
    by_place = {place: role for role, place in found.operands.items()}
    for i, atom in enumerate(eqn.inputs):
        if i not in by_place and isinstance(atom, Var):
            by_place[i] = f"operand_{i}"
            named[by_place[i]] = atom
    named |= {role: Const(array) for role, array in found.constants.items()}
    inputs = {role: Var(atom.type) for role, atom in named.items()}
    operands = tuple(inputs[by_place[i]] if i in by_place else a for i, a in enumerate(eqn.inputs))
    results = tuple(Var(out.type) for out in eqn.outputs)
    body = Graph("step", tuple(inputs.values()), (replace(eqn, inputs=operands, outputs=results),), results)
    params = {"name": name, "arguments": tuple(named), "attributes": tuple(found.attributes.items())}
    return Eqn(composite, tuple(named.values()), eqn.outputs, params, eqn.source, (body,))


def _operand(eqn: Eqn, place: int) -> Atom:
    atom = eqn.inputs[place]
    assert atom is not None, "a scan has no optional operands"
    return atom
