"""Finding composites that nobody marked: scans that compute a known recurrence become `composite` again."""

from __future__ import annotations

from dataclasses import replace

from jfuse.errors import NotFused
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.kernels.control import composite, scan
from jfuse.lowering.recover.lstm import GATES, Lstm, recover_lstm
from jfuse.passes.context import Context
from jfuse.passes.drop import drop_dead
from jfuse.report import Refusal

PROPOSED = frozenset({"jfuse.lstm"})  # the names of composites that this pass makes


def recover(graph: Graph, ctx: Context) -> Graph:
    """Wrap each scan that is read as an LSTM in a composite `jfuse.lstm`, a proposal that `fuse` proves or undoes.

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
    try:
        return _proposal(eqn, recover_lstm(eqn))
    except NotFused as refusal:
        ctx.report.refused.append(Refusal.of(refusal, "scan", "recover_lstm", eqn.source))
        return _with_bodies(eqn, ctx)


def _with_bodies(eqn: Eqn, ctx: Context) -> Eqn:
    return replace(eqn, bodies=tuple(_recover(body, ctx) for body in eqn.bodies)) if eqn.bodies else eqn


def _proposal(eqn: Eqn, lstm: Lstm) -> Eqn:
    """The composite around a scan: its own operands, then the derived weights, which only the rule reads."""
    places = {"x": lstm.x, "h": lstm.h, "c": lstm.c}
    named: dict[str, Atom] = {name: _operand(eqn, place) for name, place in places.items()}
    named |= {f"operand_{i}": a for i, a in enumerate(eqn.inputs) if i not in places.values() and isinstance(a, Var)}
    for name in GATES:
        gate = lstm.gates[name]
        named |= {f"{name}_weights": Const(gate.weights), f"{name}_recurrent": Const(gate.recurrent)}
        named |= {f"{name}_bias": Const(gate.bias)}
    inputs = {name: Var(atom.type) for name, atom in named.items()}
    by_place = {place: inputs[name] for name, place in places.items()}
    operands = tuple(by_place.get(i) or inputs.get(f"operand_{i}") or a for i, a in enumerate(eqn.inputs))
    results = tuple(Var(out.type) for out in eqn.outputs)
    body = Graph("lstm", tuple(inputs.values()), (replace(eqn, inputs=operands, outputs=results),), results)
    attributes = (("results", lstm.results), ("reverse", eqn.params["reverse"]))
    params = {"name": "jfuse.lstm", "arguments": tuple(named), "attributes": attributes}
    return Eqn(composite, tuple(named.values()), eqn.outputs, params, eqn.source, (body,))


def _operand(eqn: Eqn, place: int) -> Atom:
    atom = eqn.inputs[place]
    assert atom is not None, "a scan has no optional operands"
    return atom
